#include "model/config/families.h"

#include "model/config/family_readers.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define GPT_NAMES                                                                                  \
    "hidden_size=n_embd num_hidden_layers=n_layer num_attention_heads=n_head "                     \
    "intermediate_size=n_inner max_position_embeddings=n_positions norm_eps=layer_norm_epsilon "   \
    "hidden_act=activation_function"
#define ROUTER_TRAINING                                                                            \
    "output_router_logits router_aux_loss_coef router_jitter_noise router_z_loss_coef"
#define RECURRENT_KEYS                                                                             \
    "full_attention_interval linear_conv_kernel_dim linear_key_head_dim linear_value_head_dim "    \
    "linear_num_key_heads linear_num_value_heads attn_output_gate output_gate_type "               \
    "partial_rotary_factor"
/* Three positions for a token: of a text they are equal. */
#define MROPE_KEYS     "mrope_section mrope_interleaved"
#define LAYER_NORM_EPS "norm_eps=layer_norm_eps"

/* The first rows' places are part of digests of models: new rows come last. */
static const struct family FAMILIES[] = {
    {.architecture = "LlamaForCausalLM",
     .model_type = "llama",
     .own_keys = "rope_interleaved",
     .may_have_attention_bias = true,
     .may_have_mlp_bias = true,
     .context_tokens = 2048},
    {.architecture = "MistralForCausalLM",
     .model_type = "mistral",
     .needs_kv_heads = true,
     .windows = WINDOWS_EVERYWHERE,
     .window = 4096,
     .context_tokens = 131072},
    {.architecture = "Qwen2ForCausalLM",
     .model_type = "qwen2",
     .has_qkv_bias = true,
     .needs_kv_heads = true,
     .windows = WINDOWS_LAST,
     .window = 4096,
     .context_tokens = 32768},
    {.architecture = "Qwen3ForCausalLM",
     .model_type = "qwen3",
     .decoder = {.qk_norm = QK_NORM_HEAD},
     .may_have_attention_bias = true,
     .needs_kv_heads = true,
     .windows = WINDOWS_LAST,
     .window = 4096,
     .head_dim = 128,
     .context_tokens = 32768},
    {.architecture = "GemmaForCausalLM",
     .model_type = "gemma",
     .own_keys = "use_bidirectional_attention hidden_activation norms_are_whole",
     .decoder = {.norm = NORM_RMS_PLUS_ONE, .rounds_embedding_scale = true},
     .may_have_attention_bias = true,
     .ties_embeddings = true,
     .needs_kv_heads = true,
     .head_dim = 256,
     .context_tokens = 8192,
     .activation = "gelu_pytorch_tanh",
     .read = family_read_gemma},
    {.architecture = "Gemma2ForCausalLM",
     .model_type = "gemma2",
     .names = "hidden_act=hidden_activation",
     .own_keys = "hidden_activation query_pre_attn_scalar attn_logit_softcapping "
                 "final_logit_softcapping use_bidirectional_attention hidden_act norms_are_whole",
     .decoder = {.norm = NORM_RMS_PLUS_ONE,
                 .norm_place = NORM_BEFORE_AND_AFTER,
                 .rounds_embedding_scale = true},
     .naming = NAMED_AS_GEMMA2,
     .may_have_attention_bias = true,
     .ties_embeddings = true,
     .needs_kv_heads = true,
     .windows = WINDOWS_PERIODIC,
     .window = 4096,
     .window_period = 2,
     .head_dim = 256,
     .context_tokens = 8192,
     .activation = "gelu_pytorch_tanh",
     .read = family_read_gemma2},
    {.architecture = "Gemma3ForCausalLM",
     .model_type = "gemma3_text",
     .names = "hidden_act=hidden_activation",
     .own_keys = "hidden_activation query_pre_attn_scalar attn_logit_softcapping "
                 "final_logit_softcapping use_bidirectional_attention rope_local_base_freq "
                 "sliding_window_pattern _sliding_window_pattern norms_are_whole",
     .decoder = {.norm = NORM_RMS_PLUS_ONE,
                 .norm_place = NORM_BEFORE_AND_AFTER,
                 .qk_norm = QK_NORM_HEAD,
                 .rounds_embedding_scale = true},
     .naming = NAMED_AS_GEMMA2,
     .may_have_attention_bias = true,
     .ties_embeddings = true,
     .needs_kv_heads = true,
     .windows = WINDOWS_PERIODIC,
     .window = 4096,
     .window_period = 6,
     .ropes = ROPES_LOCAL_IN_WINDOWS,
     .rope_theta = 1e6,
     .rope_theta_local = 1e4,
     .head_dim = 256,
     .n_heads = 8,
     .n_kv_heads = 4,
     .vocabulary = 262208,
     .context_tokens = 131072,
     .activation = "gelu_pytorch_tanh",
     .read = family_read_gemma3},
    {.architecture = "Phi3ForCausalLM",
     .model_type = "phi3",
     .own_keys = "partial_rotary_factor",
     .decoder = {.qkv_layout = QKV_FUSED, .is_gate_up_fused = true},
     .naming = NAMED_AS_PHI3,
     .windows = WINDOWS_EVERYWHERE,
     .rope_part = 1,
     .context_tokens = 4096,
     .norm_eps = 1e-5},
    {.architecture = "OlmoForCausalLM",
     .model_type = "olmo",
     .own_keys = "clip_qkv",
     .decoder = {.norm = NORM_LAYER, .norms_have_no_weights = true},
     .may_have_attention_bias = true,
     .context_tokens = 2048,
     .norm_eps = 1e-5,
     .read = family_read_olmo},
    {.architecture = "Olmo2ForCausalLM",
     .model_type = "olmo2",
     .decoder = {.norm_place = NORM_AFTER, .qk_norm = QK_NORM_ROW},
     .naming = NAMED_AS_OLMO2,
     .may_have_attention_bias = true,
     .context_tokens = 2048,
     .norm_eps = 1e-5},
    {.architecture = "Olmo3ForCausalLM",
     .model_type = "olmo3",
     .decoder = {.norm_place = NORM_AFTER, .qk_norm = QK_NORM_ROW},
     .naming = NAMED_AS_OLMO2,
     .may_have_attention_bias = true,
     .windows = WINDOWS_PERIODIC,
     .window = 4096,
     .window_period = 4,
     .ropes = ROPES_LOCAL_IN_WINDOWS,
     .context_tokens = 2048,
     .norm_eps = 1e-5},
    {.architecture = "GraniteForCausalLM",
     .model_type = "granite",
     .own_keys = "embedding_multiplier residual_multiplier attention_multiplier logits_scaling "
                 "rope_interleaved",
     .may_have_attention_bias = true,
     .may_have_mlp_bias = true,
     .context_tokens = 2048,
     .read = family_read_granite},
    {.architecture = "CohereForCausalLM",
     .model_type = "cohere",
     .names = LAYER_NORM_EPS,
     .own_keys = "layer_norm_eps logit_scale use_qk_norm",
     .decoder = {.norm = NORM_LAYER, .residual = RESIDUAL_PARALLEL},
     .may_have_attention_bias = true,
     .ties_embeddings = true,
     .rope_is_interleaved = true,
     .context_tokens = 8192,
     .norm_eps = 1e-5,
     .naming = NAMED_AS_COHERE,
     .read = family_read_cohere},
    {.architecture = "Cohere2ForCausalLM",
     .model_type = "cohere2",
     .names = LAYER_NORM_EPS,
     .own_keys = "layer_norm_eps logit_scale use_qk_norm sliding_window_pattern "
                 "_sliding_window_pattern",
     .decoder = {.norm = NORM_LAYER, .residual = RESIDUAL_PARALLEL},
     .may_have_attention_bias = true,
     .ties_embeddings = true,
     .windows = WINDOWS_PERIODIC,
     .window = 4096,
     .window_period = 4,
     .ropes = ROPES_ONLY_IN_WINDOWS,
     .rope_is_interleaved = true,
     .context_tokens = 8192,
     .norm_eps = 1e-5,
     .read = family_read_cohere2},
    {.architecture = "SmolLM3ForCausalLM",
     .model_type = "smollm3",
     .own_keys = "no_rope_layers no_rope_layer_interval",
     .may_have_attention_bias = true,
     .may_have_mlp_bias = true,
     .ties_embeddings = true,
     .needs_kv_heads = true,
     .ropes = ROPES_LISTED,
     .rope_theta = 2e6,
     .context_tokens = 32768},
    {.architecture = "Glm4ForCausalLM",
     .model_type = "glm4",
     .own_keys = "partial_rotary_factor",
     .decoder = {.norm_place = NORM_BEFORE_AND_AFTER, .is_gate_up_fused = true},
     .naming = NAMED_AS_GLM4,
     .may_have_attention_bias = true,
     .attention_bias_is_qkv_alone = true,
     .needs_kv_heads = true,
     .rope_part = 0.5,
     .rope_is_interleaved = true,
     .head_dim = 128,
     .context_tokens = 131072,
     .norm_eps = 0.00000015625},
    {.architecture = "StableLmForCausalLM",
     .model_type = "stablelm",
     .names = LAYER_NORM_EPS,
     .own_keys = "layer_norm_eps use_qkv_bias qk_layernorm use_parallel_residual "
                 "partial_rotary_factor",
     .decoder = {.norm = NORM_LAYER, .norms_have_bias = true},
     .naming = NAMED_AS_STABLELM,
     .needs_kv_heads = true,
     .rope_part = 0.25,
     .context_tokens = 4096,
     .norm_eps = 1e-5,
     .read = family_read_stablelm},
    {.architecture = "PhiForCausalLM",
     .model_type = "phi",
     .names = LAYER_NORM_EPS,
     .own_keys = "layer_norm_eps qk_layernorm partial_rotary_factor",
     .decoder = {.norm = NORM_LAYER,
                 .norms_have_bias = true,
                 .residual = RESIDUAL_PARALLEL,
                 .has_no_gate = true,
                 .has_head_bias = true},
     .naming = NAMED_AS_PHI,
     .has_qkv_bias = true,
     .has_o_bias = true,
     .has_mlp_bias = true,
     .rope_part = 0.5,
     .context_tokens = 2048,
     .norm_eps = 1e-5,
     .activation = "gelu_new",
     .read = family_read_phi},
    {.architecture = "GPT2LMHeadModel",
     .model_type = "gpt2",
     .names = GPT_NAMES,
     .own_keys = "n_embd n_layer n_head n_inner n_positions layer_norm_epsilon "
                 "activation_function scale_attn_weights scale_attn_by_inverse_layer_idx "
                 "add_cross_attention qkv_is_plain",
     .decoder = {.norm = NORM_LAYER,
                 .norms_have_bias = true,
                 .qkv_layout = QKV_FUSED,
                 .is_transposed = true,
                 .has_no_gate = true,
                 .has_positions = true},
     .naming = NAMED_AS_GPT2,
     .has_qkv_bias = true,
     .has_o_bias = true,
     .has_mlp_bias = true,
     .ties_embeddings = true,
     .ffn_is_four_hidden = true,
     .ropes = ROPES_NOWHERE,
     .context_tokens = 1024,
     .norm_eps = 1e-5,
     .activation = "gelu_new",
     .read = family_read_gpt2},
    {.architecture = "GPTNeoXForCausalLM",
     .model_type = "gpt_neox",
     .names = "norm_eps=layer_norm_eps partial_rotary_factor=rotary_pct "
              "rope_theta=rotary_emb_base",
     .own_keys = "layer_norm_eps rotary_pct rotary_emb_base use_parallel_residual qkv_is_plain",
     .decoder = {.norm = NORM_LAYER,
                 .norms_have_bias = true,
                 .qkv_layout = QKV_BY_GROUP,
                 .has_no_gate = true},
     .naming = NAMED_AS_GPT_NEOX,
     .may_have_attention_bias = true,
     .has_mlp_bias = true,
     .rope_part = 0.25,
     .context_tokens = 2048,
     .norm_eps = 1e-5,
     .activation = "gelu",
     .read = family_read_gpt_neox},
    {.architecture = "GPTJForCausalLM",
     .model_type = "gptj",
     .names = GPT_NAMES,
     .own_keys = "n_embd n_layer n_head n_inner n_positions layer_norm_epsilon "
                 "activation_function rotary_dim",
     .decoder = {.norm = NORM_LAYER,
                 .norms_have_bias = true,
                 .residual = RESIDUAL_PARALLEL,
                 .has_no_gate = true,
                 .has_head_bias = true},
     .naming = NAMED_AS_GPTJ,
     .has_mlp_bias = true,
     .ffn_is_four_hidden = true,
     .rope_part = 1,
     .rope_is_interleaved = true,
     .context_tokens = 2048,
     .norm_eps = 1e-5,
     .activation = "gelu_new"},
    {.architecture = "OPTForCausalLM",
     .model_type = "opt",
     .names = "intermediate_size=ffn_dim hidden_act=activation_function",
     .own_keys = "ffn_dim activation_function do_layer_norm_before enable_bias "
                 "layer_norm_elementwise_affine _remove_final_layer_norm word_embed_proj_dim",
     .decoder = {.norm = NORM_LAYER,
                 .norms_have_bias = true,
                 .has_no_gate = true,
                 .has_positions = true,
                 .position_offset = 2},
     .naming = NAMED_AS_OPT,
     .has_qkv_bias = true,
     .has_o_bias = true,
     .has_mlp_bias = true,
     .ties_embeddings = true,
     .ropes = ROPES_NOWHERE,
     .context_tokens = 2048,
     .norm_eps = 1e-5,
     .activation = "relu",
     .read = family_read_opt},
    {.architecture = "BloomForCausalLM",
     .model_type = "bloom",
     .names = "hidden_size=n_embed num_hidden_layers=n_layer num_attention_heads=n_head "
              "norm_eps=layer_norm_epsilon max_position_embeddings=seq_length",
     .own_keys = "n_embed n_layer n_head n_inner layer_norm_epsilon seq_length "
                 "apply_residual_connection_post_layernorm qkv_is_plain",
     .decoder = {.norm = NORM_LAYER,
                 .norms_have_bias = true,
                 .qkv_layout = QKV_BY_GROUP,
                 .has_no_gate = true,
                 .has_embedding_norm = true},
     .naming = NAMED_AS_BLOOM,
     .has_qkv_bias = true,
     .has_o_bias = true,
     .has_mlp_bias = true,
     .ties_embeddings = true,
     .ffn_is_four_hidden = true,
     .ropes = ROPES_NOWHERE,
     .context_tokens = 2048,
     .norm_eps = 1e-5,
     .activation = "gelu_new",
     .read = family_read_bloom},
    {.architecture = "FalconForCausalLM",
     .model_type = "falcon",
     .names = "norm_eps=layer_norm_epsilon intermediate_size=ffn_hidden_size hidden_act=activation",
     .own_keys = "layer_norm_epsilon ffn_hidden_size activation new_decoder_architecture "
                 "multi_query parallel_attn alibi bias num_kv_heads num_ln_in_parallel_attn "
                 "apply_residual_connection_post_layernorm qkv_is_plain",
     .decoder = {.norm = NORM_LAYER, .norms_have_bias = true, .has_no_gate = true},
     .naming = NAMED_AS_FALCON,
     .ties_embeddings = true,
     .ffn_is_four_hidden = true,
     .context_tokens = 2048,
     .norm_eps = 1e-5,
     .activation = "gelu",
     .read = family_read_falcon},
    {.architecture = "MptForCausalLM",
     .model_type = "mpt",
     .names = "hidden_size=d_model num_hidden_layers=n_layers num_attention_heads=n_heads "
              "max_position_embeddings=max_seq_len norm_eps=layer_norm_epsilon",
     .own_keys = "d_model n_layers n_heads max_seq_len layer_norm_epsilon expansion_ratio no_bias "
                 "attn_config learned_pos_emb norm_type qkv_is_plain",
     .decoder = {.norm = NORM_LAYER, .qkv_layout = QKV_FUSED, .has_no_gate = true},
     .naming = NAMED_AS_MPT,
     .ties_embeddings = true,
     .ffn_is_four_hidden = true,
     .ropes = ROPES_NOWHERE,
     .context_tokens = 2048,
     .norm_eps = 1e-5,
     .activation = "gelu",
     .read = family_read_mpt},
    {.architecture = "MixtralForCausalLM",
     .model_type = "mixtral",
     .own_keys = "num_local_experts num_experts_per_tok " ROUTER_TRAINING,
     .naming = NAMED_AS_MIXTRAL,
     .needs_kv_heads = true,
     .windows = WINDOWS_EVERYWHERE,
     .context_tokens = 131072,
     .norm_eps = 1e-5,
     .read = family_read_mixtral},
    {.architecture = "Qwen2MoeForCausalLM",
     .model_type = "qwen2_moe",
     .own_keys = "num_experts num_experts_per_tok moe_intermediate_size "
                 "shared_expert_intermediate_size norm_topk_prob decoder_sparse_step "
                 "mlp_only_layers qkv_bias " ROUTER_TRAINING,
     .naming = NAMED_AS_QWEN_MOE,
     .has_qkv_bias = true,
     .needs_kv_heads = true,
     .windows = WINDOWS_LAST,
     .window = 4096,
     .context_tokens = 32768,
     .read = family_read_qwen2_moe},
    {.architecture = "Qwen3MoeForCausalLM",
     .model_type = "qwen3_moe",
     .own_keys = "num_experts num_experts_per_tok moe_intermediate_size norm_topk_prob "
                 "decoder_sparse_step mlp_only_layers " ROUTER_TRAINING,
     .decoder = {.qk_norm = QK_NORM_HEAD},
     .naming = NAMED_AS_QWEN_MOE,
     .may_have_attention_bias = true,
     .needs_kv_heads = true,
     .windows = WINDOWS_SWITCHED,
     .window = 4096,
     .context_tokens = 32768,
     .read = family_read_qwen3_moe},
    {.architecture = "OlmoeForCausalLM",
     .model_type = "olmoe",
     .own_keys = "clip_qkv num_experts num_experts_per_tok norm_topk_prob " ROUTER_TRAINING,
     .decoder = {.qk_norm = QK_NORM_ROW},
     .naming = NAMED_AS_OLMOE,
     .may_have_attention_bias = true,
     .context_tokens = 4096,
     .norm_eps = 1e-5,
     .read = family_read_olmoe},
    {.architecture = "GraniteMoeForCausalLM",
     .model_type = "granitemoe",
     .own_keys = "embedding_multiplier residual_multiplier attention_multiplier logits_scaling "
                 "num_local_experts num_experts_per_tok " ROUTER_TRAINING,
     .naming = NAMED_AS_GRANITE_MOE,
     .may_have_attention_bias = true,
     .context_tokens = 2048,
     .read = family_read_granite_moe},
    {.architecture = "GptOssForCausalLM",
     .model_type = "gpt_oss",
     .own_keys = "num_local_experts num_experts_per_tok experts_per_token swiglu_limit "
                 "initial_context_length experts_are_apart " ROUTER_TRAINING,
     .naming = NAMED_AS_GPT_OSS,
     .may_have_attention_bias = true,
     .has_qkv_bias = true,
     .has_o_bias = true,
     .needs_kv_heads = true,
     .windows = WINDOWS_PERIODIC,
     .window = 128,
     .window_period = 2,
     .rope_theta = 150000,
     .head_dim = 64,
     .context_tokens = 131072,
     .norm_eps = 1e-5,
     .read = family_read_gpt_oss},
    {.architecture = "Ministral3ForCausalLM",
     .model_type = "ministral3",
     .own_keys = "rope_interleaved",
     .rope_keys = "llama_4_scaling_beta max_position_embeddings",
     .windows = WINDOWS_EVERYWHERE,
     .needs_kv_heads = true,
     .rope_theta = 1e6,
     .head_dim = 128,
     .n_heads = 32,
     .n_kv_heads = 8,
     .vocabulary = 131072,
     .context_tokens = 262144,
     .norm_eps = 1e-5,
     .read = family_read_ministral3},
    {.architecture = "Qwen3NextForCausalLM",
     .model_type = "qwen3_next",
     .own_keys = "num_experts num_experts_per_tok moe_intermediate_size "
                 "shared_expert_intermediate_size norm_topk_prob decoder_sparse_step "
                 "mlp_only_layers " RECURRENT_KEYS " " ROUTER_TRAINING,
     .decoder = {.norm = NORM_RMS_PLUS_ONE, .qk_norm = QK_NORM_HEAD, .has_output_gate = true},
     .naming = NAMED_AS_QWEN_NEXT,
     .may_have_attention_bias = true,
     .needs_kv_heads = true,
     .rope_part = 0.25,
     .head_dim = 256,
     .context_tokens = 32768,
     .read = family_read_qwen_next},
    {.architecture = "Qwen3_5ForCausalLM",
     .model_type = "qwen3_5_text",
     .own_keys = RECURRENT_KEYS,
     .rope_keys = MROPE_KEYS,
     .decoder = {.norm = NORM_RMS_PLUS_ONE, .qk_norm = QK_NORM_HEAD, .has_output_gate = true},
     .naming = NAMED_AS_QWEN3_5,
     .may_have_attention_bias = true,
     .needs_kv_heads = true,
     .rope_part = 0.25,
     .head_dim = 256,
     .n_heads = 16,
     .n_kv_heads = 4,
     .vocabulary = 248320,
     .context_tokens = 32768,
     .read = family_read_qwen3_5},
    {.architecture = "Qwen3_5MoeForCausalLM",
     .model_type = "qwen3_5_moe_text",
     .names = "intermediate_size=moe_intermediate_size",
     .own_keys = "num_experts num_experts_per_tok moe_intermediate_size "
                 "shared_expert_intermediate_size " RECURRENT_KEYS " " ROUTER_TRAINING,
     .rope_keys = MROPE_KEYS,
     .decoder = {.norm = NORM_RMS_PLUS_ONE, .qk_norm = QK_NORM_HEAD, .has_output_gate = true},
     .naming = NAMED_AS_QWEN3_5,
     .may_have_attention_bias = true,
     .needs_kv_heads = true,
     .rope_part = 0.25,
     .head_dim = 256,
     .n_heads = 16,
     .n_kv_heads = 2,
     .vocabulary = 248320,
     .context_tokens = 32768,
     .read = family_read_qwen3_5_moe},
};

enum { N_FAMILIES = sizeof FAMILIES / sizeof *FAMILIES };

const struct family *family_at(uint32_t index)
{
    return index < N_FAMILIES ? &FAMILIES[index] : NULL;
}

const char *model_family_name(uint32_t index)
{
    assert(family_at(index));
    return family_at(index)->architecture;
}

const char *family_key(const struct family *family, const json_t *object, const char *key,
                       char *name_out, size_t name_max)
{
    const size_t length = strlen(key);
    for (const char *at = family->names; at && *at; at = strchr(at, ' ')) {
        at += *at == ' ';
        if (strncmp(at, key, length) != 0 || at[length] != '=')
            continue;
        const char *name = at + length + 1;
        snprintf(name_out, name_max, "%.*s", (int)strcspn(name, " "), name);
        return json_object_get(object, name_out) || !json_object_get(object, key) ? name_out : key;
    }
    return key;
}

/* ---- which family ---- */

static bool has_class(const char *architecture)
{
    for (size_t i = 0; i < N_FAMILIES; i++)
        if (strcasecmp(architecture, FAMILIES[i].architecture) == 0)
            return true;
    return false;
}

static enum status refuse_architectures(const struct json_fields *fields)
{
    return error_set(fields->error, STATUS_CORRUPT, "%s: architectures is not a list of strings",
                     fields->file);
}

/* The first class of the list that is known, else the first. *name_out NULL: the key is absent or empty,
 * and model_type decides. */
static enum status read_architecture(const struct json_fields *fields, const char **name_out)
{
    const json_t *list = json_fields_get(fields, "architectures");
    size_t i;
    json_t *element;
    *name_out = NULL;
    if (!list)
        return STATUS_OK;
    if (!json_is_array(list))
        return refuse_architectures(fields);
    json_array_foreach((json_t *)(uintptr_t)list, i, element)
    {
        const char *name = json_string_value(element);
        if (!name)
            return refuse_architectures(fields);
        if (!*name_out || (!has_class(*name_out) && has_class(name)))
            *name_out = name;
    }
    return STATUS_OK;
}

/* "llama, mistral ... mpt", for the sentence that refuses another. */
static void list_families(char *list, size_t list_max)
{
    size_t length = 0;
    for (size_t i = 0; i < N_FAMILIES && length < list_max; i++)
        length += (size_t)snprintf(list + length, list_max - length, "%s%s", i ? ", " : "",
                                   FAMILIES[i].model_type);
}

/* Models whose text_config describes a model of text that has a row. */
static const char *const WRAPPERS[] = {
    "Gemma3ForConditionalGeneration",
    "Mistral3ForConditionalGeneration",
    "Qwen3_5ForConditionalGeneration",
    "Qwen3_5MoeForConditionalGeneration",
};

enum status family_text_fields(const struct json_fields *fields, struct json_fields *text_out)
{
    const char *architecture;
    const json_t *text;
    *text_out = *fields;
    TRY(read_architecture(fields, &architecture));
    for (size_t i = 0; i < sizeof WRAPPERS / sizeof *WRAPPERS; i++) {
        if (!architecture || strcasecmp(architecture, WRAPPERS[i]) != 0)
            continue;
        TRY(json_fields_require(fields, "text_config"));
        TRY(json_fields_object(fields, "text_config", &text));
        text_out->object = text;
        text_out->file = "config.json: text_config";
    }
    return STATUS_OK;
}

/* The class in architectures decides, because classes of Qwen2 for other tasks have the same model_type. The
 * first conversions of Llama wrote LLaMAForCausalLM. */
enum status family_read(const struct json_fields *fields, uint32_t *index_out)
{
    const char *architecture, *model_type = NULL;
    char known[512];
    TRY(read_architecture(fields, &architecture));
    TRY(json_fields_string(fields, "model_type", &model_type));
    if (!architecture && !model_type)
        return json_fields_require(fields, "architectures");
    for (uint32_t i = 0; i < N_FAMILIES; i++) {
        if (strcasecmp(architecture ? architecture : model_type,
                       architecture ? FAMILIES[i].architecture : FAMILIES[i].model_type) != 0)
            continue;
        if (model_type && strcmp(model_type, FAMILIES[i].model_type) != 0)
            return error_set(fields->error, STATUS_CORRUPT,
                             "%s: model_type is \"%.60s\", architectures says %s", fields->file,
                             model_type, architecture);
        *index_out = i;
        return STATUS_OK;
    }
    list_families(known, sizeof known);
    return error_set(fields->error, STATUS_UNSUPPORTED,
                     "%s: %s \"%.80s\" is not supported; model types that are: %s", fields->file,
                     architecture ? "architectures" : "model_type",
                     architecture ? architecture : model_type, known);
}
