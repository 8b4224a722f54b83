#include "model/config/config_keys.h"

#include "base/log/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Keys with the same verdict, separated by spaces. */
struct key_group {
    enum key_verdict verdict;
    const char *text; /* ignored: why; refused, not done: the neutral value in JSON, or NULL */
    const char *keys;
};

#define STORED    "source and storage of the model"
#define TRAINING  "training"
#define RUNNING   "how Transformers runs the model"
#define TASKS     "for other tasks than text generation"
#define SPEED     "changes only the speed"
#define LIMITS    "the limits of the request replace it"
#define OTHER_IDS "ids that generation does not need"
#define SAYS_TOKENIZER_JSON                                                                        \
    "tokenizer.json has it, or it is about truncation and padding, which kvferry does not do"

static const struct key_group CONFIG_KEYS[] = {
    {KEY_USED, NULL,
     "architectures model_type hidden_size num_hidden_layers num_attention_heads "
     "num_key_value_heads head_dim intermediate_size vocab_size max_position_embeddings "
     "rms_norm_eps hidden_act attention_bias mlp_bias tie_word_embeddings rope_theta rope_scaling "
     "rope_parameters sliding_window use_sliding_window max_window_layers layer_types "
     "eos_token_id original_max_position_embeddings quantization_config"},
    {KEY_IGNORED, STORED,
     "_name_or_path name_or_path _commit_hash transformers_version torch_dtype dtype auto_map "
     "_auto_class custom_pipelines unsloth_version unsloth_fixed is_llama_config "
     "transformers.js_config tokenizer_class model_max_length max_sequence_length prefix "
     "extra_files extra_config_files"},
    {KEY_IGNORED, TRAINING,
     "initializer_range attention_dropout hidden_dropout resid_pdrop embd_pdrop attn_pdrop "
     "classifier_dropout rope_init_seed gradient_checkpointing neftune_noise_alpha dropout "
     "layerdrop activation_dropout "
     "encoder_layerdrop decoder_layerdrop classif_dropout dropout_rate initializer_factor "
     "init_std student_encoder_layers student_decoder_layers replacing_rate save_step "
     "emb_pdrop skip_bias_add skip_bias_add_qkv aux_loss_alpha seq_aux"},
    {KEY_IGNORED, RUNNING,
     "attn_implementation experts_implementation _attn_implementation "
     "_attn_implementation_autoset _attn_implementation_internal _experts_implementation "
     "_experts_implementation_internal _output_attentions _post_init_done use_cache "
     "use_return_dict return_dict output_attentions output_hidden_states torchscript "
     "tf_legacy_loss use_bfloat16 chunk_size_feed_forward tie_encoder_decoder is_decoder "
     "pruned_heads pretraining_tp attribute_map base_config_key base_model_tp_plan "
     "base_model_pp_plan base_model_ep_plan base_model_fsdp_plan keys_to_ignore_at_inference "
     "is_composition sub_configs sub_configs_defaults has_no_defaults_at_init use_mrope "
     "cross_attention_hidden_size reorder_and_upcast_attn scale_attn_weights "
     "attention_softmax_in_fp32 "
     "masked_softmax_fusion bias_dropout_fusion slow_but_exact offset_alibi init_device verbose "
     "embedding_fraction sliding_window_size use_embedding_sharing "
     "use_gated_activation layer_switch use_parallel_block use_parallel_embedding init_config "
     "tokenizer_name "
     "order_of_interleaved_layers position_embedding_type n_ctx rotary ep_size n_positions "
     "output_past scalable_attention"},
    {KEY_IGNORED, TASKS,
     "finetuning_task _num_labels task_specific_params id2label label2id num_labels problem_type "
     "summary_type summary_use_proj summary_activation summary_proj_to_labels "
     "summary_first_dropout"},
    {KEY_IGNORED, "of layers that predict further tokens, which are not computed",
     "mtp_num_hidden_layers mtp_use_dedicated_embeddings"},
    {KEY_IGNORED, "a recurrent state is float32, whatever it says", "mamba_ssm_dtype"},
    {KEY_IGNORED, OTHER_IDS,
     "bos_token_id pad_token_id sep_token_id unk_token_id decoder_start_token_id"},
    {KEY_REFUSED, NULL,
     "quantization compression_config rotary_dim rope_interleaved "
     "rope_interleave "
     "rope_local_base_freq no_rope_layers no_rope_layer_interval nope_layer_interval alibi "
     "logits_soft_cap final_logit_softcapping attn_logit_softcapping attn_logit_soft_cap "
     "query_pre_attn_scalar attention_multiplier attention_scale scale_depth dim_model_base "
     "clip_qkv qk_layernorm use_qk_norm qk_norm qkv_bias bias use_bias o_proj_bias "
     "attention_out_bias attention_sinks attention_chunk_size attn_temperature_tuning "
     "sliding_window_pattern sliding_windows moe_intermediate_size kv_lora_rank "
     "cross_attention_layers add_cross_attention is_encoder_decoder parallel_attn "
     "use_parallel_residual mlp_only_layers layer_norm_eps vision_config text_config "
     "adapter_config"},
    {KEY_REFUSED, "1",
     "partial_rotary_factor rotary_pct rope_ratio logit_scale logits_scaling "
     "embedding_multiplier embedding_scale residual_multiplier residual_scale scale_emb"},
    {KEY_REFUSED, "0", "num_experts num_local_experts n_routed_experts num_kv_shared_layers"},
    {KEY_REFUSED, "\"rms_norm\"", "norm_type"},
    {0},
};

static const struct key_group GENERATION_KEYS[] = {
    {KEY_USED, NULL,
     "do_sample temperature top_k top_p min_p typical_p epsilon_cutoff eta_cutoff "
     "repetition_penalty no_repeat_ngram_size eos_token_id suppress_tokens"},
    {KEY_IGNORED, STORED,
     "transformers_version _commit_hash _from_model_config _original_object_hash trust_remote_code "
     "generation_kwargs"},
    {KEY_IGNORED, RUNNING,
     "use_cache cache_config return_legacy_cache max_cache_len low_memory "
     "compile_config disable_compile prefill_chunk_size continuous_batching_config "
     "output_attentions output_hidden_states output_scores output_logits return_dict_in_generate "
     "remove_invalid_values renormalize_logits _mask_length"},
    {KEY_IGNORED, OTHER_IDS,
     "bos_token_id pad_token_id decoder_start_token_id _bos_token_tensor _eos_token_tensor "
     "_pad_token_tensor _decoder_start_token_tensor"},
    {KEY_IGNORED, SPEED,
     "assistant_confidence_threshold assistant_early_exit assistant_lookbehind "
     "assistant_ensemble_weight target_lookbehind is_assistant num_assistant_tokens "
     "num_assistant_tokens_schedule prompt_lookup_num_tokens max_matching_ngram_size "
     "speculation_type use_mtp"},
    {KEY_IGNORED, LIMITS, "max_length max_new_tokens max_time"},
    {KEY_NOT_DONE, "false", "early_stopping"},
    {KEY_NOT_DONE, "0", "encoder_no_repeat_ngram_size min_length min_new_tokens diversity_penalty"},
    {KEY_NOT_DONE, "1", "num_beams num_beam_groups num_return_sequences length_penalty"},
    {KEY_REFUSED, NULL,
     "penalty_alpha dola_layers top_h bad_words_ids force_words_ids constraints "
     "forced_bos_token_id forced_eos_token_id forced_decoder_ids "
     "begin_suppress_tokens sequence_bias exponential_decay_length_penalty watermarking_config "
     "token_healing stop_strings cache_implementation"},
    {KEY_REFUSED, "1", "encoder_repetition_penalty guidance_scale"},
    {0},
};

static const struct key_group TOKENIZER_KEYS[] = {
    {KEY_USED, NULL,
     "bos_token eos_token pad_token unk_token add_bos_token add_eos_token add_prefix_space "
     "added_tokens_decoder additional_special_tokens extra_special_tokens "
     "model_specific_special_tokens sep_token cls_token mask_token tokenizer_class "
     "fix_mistral_regex"},
    {KEY_IGNORED, STORED,
     "processor_class slow_tokenizer_class auto_map name_or_path _commit_hash "
     "special_tokens_map_file tokenizer_file vocab_file merges_file gguf_file fast_tokenizer_files "
     "files_loaded init_inputs is_local local_files_only backend transformers_version "
     "trust_remote_code device_map _from_auto _from_pipeline __slow_tokenizer from_slow use_fast "
     "cache_dir commit_message force_download proxies repo_id resume_download revision subfolder "
     "token use_auth_token tokenizer_object unsloth_version"},
    {KEY_IGNORED, "chats: prompts come as text here",
     "chat_template chat_control_tokens response_template response_schema save_jinja_files "
     "use_default_system_prompt sanitize_control_tokens"},
    {KEY_IGNORED, SAYS_TOKENIZER_JSON,
     "model_max_length max_len padding_side truncation_side padding truncation max_length stride "
     "truncation_strategy pad_to_multiple_of pad_to_max_length pad_token_type_id "
     "tokenizer_padding tokenizer_truncation max_target_length model_input_names post_processor "
     "vocab vocab_size merges unk_id legacy extra_ids sp_model_kwargs "
     "spaces_between_special_tokens errors "
     "clean_up_tokenization_spaces do_lower_case strip_accents normalized "
     "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output remove_space "
     "keep_accents tokenize_chinese_chars trim_offsets verbose src_lang tgt_lang "
     "use_source_tokenizer tokenizer _json_padding _json_truncation _spm_precompiled_charsmap"},
    {KEY_REFUSED, NULL, "split_special_tokens"},
    {0},
};

static const struct key_group SPECIAL_TOKENS_KEYS[] = {
    {KEY_IGNORED, "tokenizer.json and eos_token_id say it",
     "bos_token eos_token unk_token sep_token pad_token cls_token mask_token "
     "additional_special_tokens extra_special_tokens model_specific_special_tokens"},
    {0},
};

static bool has_word(const char *words, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = words; length > 0 && (at = strstr(at, word)); at += length) {
        bool begins = at == words || at[-1] == ' ';
        if (begins && (at[length] == ' ' || at[length] == '\0'))
            return true;
    }
    return false;
}

static const struct key_group *find(const struct key_group *groups, const char *key)
{
    for (; groups->keys; groups++)
        if (has_word(groups->keys, key))
            return groups;
    return NULL;
}

/* A tokenizer may have keys for its own tokens: image_token, eot_token. */
static const struct key_group *find_token_name(const char *key, const json_t *value)
{
    static const struct key_group NAME = {KEY_IGNORED, "names of tokens, which tokenizer.json has",
                                          ""};
    size_t length = strlen(key);
    bool is_name = length > 6 && strcmp(key + length - 6, "_token") == 0;
    return is_name && !json_is_array(value) ? &NAME : NULL;
}

static const struct key_group *group_of(enum key_file file, const char *key, const json_t *value)
{
    static const struct key_group BESIDE = {KEY_IGNORED, "generation_config.json has the word", ""};
    const struct key_group *group = NULL;
    switch (file) {
    case KEYS_CONFIG:
        group = find(CONFIG_KEYS, key);
        return group ? group : find(GENERATION_KEYS, key) ? &BESIDE : NULL;
    case KEYS_CONFIG_ALONE:
        group = find(CONFIG_KEYS, key);
        return group ? group : find(GENERATION_KEYS, key);
    case KEYS_GENERATION:
        return find(GENERATION_KEYS, key);
    case KEYS_TOKENIZER:
        group = find(TOKENIZER_KEYS, key);
        return group ? group : find_token_name(key, value);
    case KEYS_SPECIAL_TOKENS:
        group = find(SPECIAL_TOKENS_KEYS, key);
        return group ? group : find_token_name(key, value);
    }
    return NULL;
}

/* These caches round nothing. "quantized" rounds and changes tokens. */
static bool is_exact_cache(const char *name)
{
    static const char EXACT[] = "static offloaded_static sliding_window hybrid hybrid_chunked "
                                "offloaded_hybrid offloaded_hybrid_chunked dynamic dynamic_full "
                                "offloaded paged";
    return name && has_word(EXACT, name);
}

static bool is_neutral(const char *key, const json_t *value, const char *neutral)
{
    if (strcmp(key, "cache_implementation") == 0 && is_exact_cache(json_string_value(value)))
        return true;
    if (json_is_null(value) || json_is_false(value))
        return true;
    if (json_is_object(value) || json_is_array(value))
        return json_object_size(value) + json_array_size(value) == 0;
    if (!neutral)
        return false;
    if (json_is_number(value))
        return json_number_value(value) == strtod(neutral, NULL);
    return json_is_string(value) && neutral[0] == '"' &&
           strlen(neutral) == json_string_length(value) + 2 &&
           strncmp(neutral + 1, json_string_value(value), json_string_length(value)) == 0;
}

bool config_keys_list(const char *keys, const char *key)
{
    return keys && has_word(keys, key);
}

enum key_verdict config_key_judge(enum key_file file, const char *own_keys, const char *key,
                                  const json_t *value, const char **why_out)
{
    const struct key_group *group = group_of(file, key, value);
    *why_out = "";
    if (config_keys_list(own_keys, key))
        return KEY_USED;
    if (!group)
        return KEY_UNKNOWN;
    if ((group->verdict == KEY_REFUSED || group->verdict == KEY_NOT_DONE) &&
        is_neutral(key, value, group->text)) {
        *why_out = "neutral values of what is not computed here";
        return KEY_IGNORED;
    }
    if (group->verdict == KEY_IGNORED)
        *why_out = group->text;
    return group->verdict;
}

/* Advice for keys that need no other context. */
static const char *advice(const char *key)
{
    return strcmp(key, "quantization") == 0
               ? ": MLX wrote it; take the model's weights from before their conversion"
               : "";
}

static enum status refuse(const struct json_fields *fields, const char *key, const json_t *value)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    enum status status = error_set(fields->error, STATUS_UNSUPPORTED,
                                   "%s: %s is %.80s, which is not supported%s", fields->file, key,
                                   text ? text : "not null", advice(key));
    free(text);
    return status;
}

/* Whether a key that is not done has a value that Transformers takes. */
static enum status check_not_done(const struct json_fields *fields, const char *key,
                                  const json_t *value)
{
    double real = 0;
    uint32_t whole = 0;
    const char *words = "";
    if (strcmp(key, "early_stopping") == 0 && !json_is_string(value)) {
        bool is_early = false;
        return json_fields_bool(fields, key, &is_early);
    }
    if (strcmp(key, "early_stopping") == 0) {
        TRY(json_fields_string(fields, key, &words));
        return strcmp(words, "never") == 0
                   ? STATUS_OK
                   : error_set(fields->error, STATUS_CORRUPT,
                               "%s: %s is \"%.40s\", expected true, false or \"never\"",
                               fields->file, key, words);
    }
    if (has_word("length_penalty diversity_penalty", key))
        return json_fields_real(fields, key, -1e6, 1e6, &real);
    return json_fields_u32(fields, key, strncmp(key, "num_", 4) == 0 ? 1 : 0, UINT32_MAX, &whole);
}

/* Appends ", key" and, unless it is NULL, a value; a full list ends in "...". */
static void list_append(char *list, size_t list_max, const char *key, const json_t *value)
{
    size_t length = strlen(list);
    char *text = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6)) : NULL;
    int wanted = snprintf(list + length, list_max - length, "%s%.40s%s%.40s", length ? ", " : "",
                          key, text ? " " : "", text ? text : "");
    if (wanted >= 0 && length + (size_t)wanted >= list_max)
        memcpy(list + list_max - 4, "...", 4);
    free(text);
}

/* list: of keys; "": nothing to say. */
static void tell(const struct json_fields *fields, const char *event, const char *list)
{
    if (list[0])
        log_event(LOG_WARN, NULL, event, LOG_TEXT("file", fields->file), LOG_TEXT("keys", list));
}

enum status config_keys_check(enum key_file file, const char *own_keys,
                              const struct json_fields *fields, bool is_quiet)
{
    char unknown[256] = "", not_done[512] = "";
    const char *key, *why;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)fields->object, key, value)
    {
        enum key_verdict verdict = config_key_judge(file, own_keys, key, value, &why);
        if (verdict == KEY_REFUSED)
            return refuse(fields, key, value);
        if (verdict == KEY_NOT_DONE) {
            TRY(check_not_done(fields, key, value));
            list_append(not_done, sizeof not_done, key, value);
        }
        if (verdict == KEY_UNKNOWN)
            list_append(unknown, sizeof unknown, key, NULL);
    }
    if (is_quiet)
        return STATUS_OK;
    tell(fields, "the model's files ask for what is not done: replies are greedy or drawn",
         not_done);
    tell(fields, "unknown keys ignored", unknown);
    return STATUS_OK;
}
