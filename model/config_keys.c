#include "model/config_keys.h"

#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const READ[] = {
    "architectures",
    "model_type",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "intermediate_size",
    "vocab_size",
    "max_position_embeddings",
    "rms_norm_eps",
    "hidden_act",
    "attention_bias",
    "mlp_bias",
    "tie_word_embeddings",
    "rope_theta",
    "rope_scaling",
    "rope_parameters",
    "sliding_window",
    "use_sliding_window",
    "max_window_layers",
    "layer_types",
    "bos_token_id",
    "eos_token_id",
    "original_max_position_embeddings",
};

static const char *const HARMLESS[] = {
    /* where it comes from, and how it is stored */
    "_name_or_path",
    "_commit_hash",
    "_attn_implementation",
    "_attn_implementation_autoset",
    "_attn_implementation_internal",
    "transformers_version",
    "torch_dtype",
    "dtype",
    "auto_map",
    "custom_pipelines",
    "finetuning_task",
    "unsloth_version",
    "unsloth_fixed",
    "task_specific_params",
    "tokenizer_class",
    "prefix",
    "model_max_length",
    /* training */
    "initializer_range",
    "attention_dropout",
    "hidden_dropout",
    "resid_pdrop",
    "embd_pdrop",
    "attn_pdrop",
    "classifier_dropout",
    "rope_init_seed",
    /* what Transformers returns and how it runs */
    "use_cache",
    "use_return_dict",
    "return_dict",
    "return_dict_in_generate",
    "output_attentions",
    "output_hidden_states",
    "output_scores",
    "torchscript",
    "tf_legacy_loss",
    "use_bfloat16",
    "chunk_size_feed_forward",
    "gradient_checkpointing",
    "max_sequence_length",
    "tie_encoder_decoder",
    "is_decoder",
    "pruned_heads",
    "id2label",
    "label2id",
    "num_labels",
    "problem_type",
    "pad_token_id",
    "sep_token_id",
    "unk_token_id",
    "decoder_start_token_id",
    "use_mrope",
    /* generation, as Transformers 4 once wrote it here; generation_config.json has the word */
    "temperature",
    "top_k",
    "top_p",
    "typical_p",
    "do_sample",
    "min_length",
    "max_length",
    "max_new_tokens",
    "num_beams",
    "num_beam_groups",
    "num_return_sequences",
    "diversity_penalty",
    "repetition_penalty",
    "length_penalty",
    "no_repeat_ngram_size",
    "encoder_no_repeat_ngram_size",
    "bad_words_ids",
    "begin_suppress_tokens",
    "suppress_tokens",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "early_stopping",
    "exponential_decay_length_penalty",
    "remove_invalid_values",
};

static const struct refused_key {
    const char *key;
    const char *neutral; /* as JSON spells it; NULL: none beside the general ones */
} REFUSED[] = {
    {"quantization_config", NULL},
    {"compression_config", NULL},
    {"pretraining_tp", "1"},
    {"partial_rotary_factor", "1"},
    {"rotary_pct", "1"},
    {"rotary_dim", NULL},
    {"rope_interleaved", NULL},
    {"rope_interleave", NULL},
    {"rope_local_base_freq", NULL},
    {"rope_ratio", "1"},
    {"no_rope_layers", NULL},
    {"no_rope_layer_interval", NULL},
    {"nope_layer_interval", NULL},
    {"alibi", NULL},
    {"logit_scale", "1"},
    {"logits_scaling", "1"},
    {"logits_soft_cap", NULL},
    {"final_logit_softcapping", NULL},
    {"attn_logit_softcapping", NULL},
    {"attn_logit_soft_cap", NULL},
    {"query_pre_attn_scalar", NULL},
    {"attention_multiplier", NULL},
    {"attention_scale", NULL},
    {"embedding_multiplier", "1"},
    {"embedding_scale", "1"},
    {"residual_multiplier", "1"},
    {"residual_scale", "1"},
    {"scale_emb", "1"},
    {"scale_depth", NULL},
    {"dim_model_base", NULL},
    {"clip_qkv", NULL},
    {"qk_layernorm", NULL},
    {"use_qk_norm", NULL},
    {"qk_norm", NULL},
    {"qkv_bias", NULL},
    {"bias", NULL},
    {"use_bias", NULL},
    {"o_proj_bias", NULL},
    {"attention_out_bias", NULL},
    {"attention_sinks", NULL},
    {"attention_chunk_size", NULL},
    {"attn_temperature_tuning", NULL},
    {"sliding_window_pattern", NULL},
    {"sliding_windows", NULL},
    {"num_experts", "0"},
    {"num_local_experts", "0"},
    {"n_routed_experts", "0"},
    {"moe_intermediate_size", NULL},
    {"kv_lora_rank", NULL},
    {"num_kv_shared_layers", "0"},
    {"cross_attention_layers", NULL},
    {"add_cross_attention", NULL},
    {"is_encoder_decoder", NULL},
    {"parallel_attn", NULL},
    {"use_parallel_residual", NULL},
    {"norm_type", "\"rms_norm\""},
    {"layer_norm_eps", NULL},
    {"vision_config", NULL},
    {"text_config", NULL},
    {"adapter_config", NULL},
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

static bool is_listed(const char *const *list, size_t n, const char *key)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i], key) == 0)
            return true;
    return false;
}

static const struct refused_key *refused_of(const char *key)
{
    for (size_t i = 0; i < COUNT(REFUSED); i++)
        if (strcmp(REFUSED[i].key, key) == 0)
            return &REFUSED[i];
    return NULL;
}

static bool is_neutral(const json_t *value, const char *neutral)
{
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

static enum status refuse(const struct json_fields *fields, const char *key, const json_t *value)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    enum status status = error_set(fields->error, STATUS_UNSUPPORTED,
                                   "%s: %s is %.80s, which is not supported", fields->file, key,
                                   text ? text : "not null");
    free(text);
    return status;
}

/* Appends ", key"; a full list ends in "...". */
static void list_append(char *list, size_t list_max, const char *key)
{
    size_t length = strlen(list);
    int wanted = snprintf(list + length, list_max - length, "%s%.40s", length ? ", " : "", key);
    if (wanted >= 0 && length + (size_t)wanted >= list_max)
        memcpy(list + list_max - 4, "...", 4);
}

enum status config_keys_check(const struct json_fields *fields)
{
    char unknown[256] = "";
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)fields->object, key, value)
    {
        const struct refused_key *refused = refused_of(key);
        if (refused && !is_neutral(value, refused->neutral))
            return refuse(fields, key, value);
        if (!refused && !is_listed(READ, COUNT(READ), key) &&
            !is_listed(HARMLESS, COUNT(HARMLESS), key))
            list_append(unknown, sizeof unknown, key);
    }
    if (unknown[0])
        log_warn("unknown keys ignored file=%s keys=\"%s\"", fields->file, unknown);
    return STATUS_OK;
}
