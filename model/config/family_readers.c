#include "model/config/family_readers.h"

#include "kernels/latent.h"
#include "model/config/recurrent_layers.h"

#include <math.h>
#include <string.h>

static enum status read_scale(const struct json_fields *fields, const char *key, float *scale_out)
{
    double scale = 1;
    TRY(json_fields_real(fields, key, 1e-9, 1e9, &scale));
    *scale_out = (float)scale;
    return STATUS_OK;
}

enum status family_read_gemma(const struct json_fields *fields, struct model_config *config)
{
    bool is_whole = false; /* of GGUF files */
    TRY(json_fields_only(fields, "use_bidirectional_attention", false));
    TRY(json_fields_bool(fields, "norms_are_whole", &is_whole));
    if (is_whole)
        config->decoder.norm = NORM_RMS;
    config->decoder.embedding_scale = sqrtf((float)config->hidden);
    if (config->decoder.activation == ACTIVATION_GELU) /* the first files say gelu and mean this */
        config->decoder.activation = ACTIVATION_GELU_TANH;
    return STATUS_OK;
}

/* Scores times query_pre_attn_scalar ^ -1/2, and caps; a null turns a cap off. */
static enum status read_gemma_caps(const struct json_fields *fields, struct model_config *config,
                                   double attention_cap, double logit_cap)
{
    double scalar = 256;
    const json_t *object = fields->object;
    if (json_is_null(json_object_get(object, "attn_logit_softcapping")))
        attention_cap = 0;
    if (json_is_null(json_object_get(object, "final_logit_softcapping")))
        logit_cap = 0;
    TRY(json_fields_real(fields, "query_pre_attn_scalar", 1e-3, 1e6, &scalar));
    TRY(json_fields_real(fields, "attn_logit_softcapping", 1e-3, 1e6, &attention_cap));
    TRY(json_fields_real(fields, "final_logit_softcapping", 1e-3, 1e6, &logit_cap));
    config->decoder.attention_scale = (float)(1 / sqrt(scalar));
    config->decoder.attention_cap = (float)attention_cap;
    config->decoder.logit_cap = (float)logit_cap;
    return family_read_gemma(fields, config);
}

enum status family_read_gemma2(const struct json_fields *fields, struct model_config *config)
{
    return read_gemma_caps(fields, config, 50, 30);
}

enum status family_read_gemma3(const struct json_fields *fields, struct model_config *config)
{
    return read_gemma_caps(fields, config, 0, 0);
}

enum status family_read_granite(const struct json_fields *fields, struct model_config *config)
{
    struct decoder *decoder = &config->decoder;
    float scaling = 1;
    TRY(read_scale(fields, "embedding_multiplier", &decoder->embedding_scale));
    TRY(read_scale(fields, "residual_multiplier", &decoder->residual_scale));
    TRY(read_scale(fields, "attention_multiplier", &decoder->attention_scale));
    TRY(read_scale(fields, "logits_scaling", &scaling));
    decoder->logit_scale = 1 / scaling;
    return STATUS_OK;
}

static enum status read_logit_scale(const struct json_fields *fields, struct model_config *config)
{
    double scale = 0.0625;
    TRY(json_fields_real(fields, "logit_scale", 1e-9, 1e9, &scale));
    config->decoder.logit_scale = (float)scale;
    return STATUS_OK;
}

enum status family_read_cohere(const struct json_fields *fields, struct model_config *config)
{
    bool has_qk_norm = false;
    TRY(json_fields_bool(fields, "use_qk_norm", &has_qk_norm));
    if (has_qk_norm)
        config->decoder.qk_norm = QK_NORM_EACH_HEAD;
    return read_logit_scale(fields, config);
}

enum status family_read_cohere2(const struct json_fields *fields, struct model_config *config)
{
    TRY(json_fields_only(fields, "use_qk_norm", false));
    return read_logit_scale(fields, config);
}

enum status family_read_olmo(const struct json_fields *fields, struct model_config *config)
{
    double clip = -1;
    (void)config;
    TRY(json_fields_real(fields, "clip_qkv", 0, 1e9, &clip));
    if (clip < 0)
        return STATUS_OK;
    return error_set(fields->error, STATUS_UNSUPPORTED,
                     "%s: clip_qkv is %g, only null is supported", fields->file, clip);
}

enum status family_read_stablelm(const struct json_fields *fields, struct model_config *config)
{
    bool is_parallel = false, has_qk_norm = false;
    TRY(json_fields_bool(fields, "use_qkv_bias", &config->qkv_bias));
    TRY(json_fields_bool(fields, "use_parallel_residual", &is_parallel));
    if (is_parallel)
        config->decoder.residual = RESIDUAL_PARALLEL;
    TRY(json_fields_bool(fields, "qk_layernorm", &has_qk_norm));
    if (has_qk_norm)
        config->decoder.qk_norm = QK_NORM_EACH_HEAD;
    return STATUS_OK;
}

/* Queries far from the beginning count for more, as in Llama 4. */
enum status family_read_ministral3(const struct json_fields *fields, struct model_config *config)
{
    static const char BETA[] = "llama_4_scaling_beta",
                      POSITIONS[] = "original_max_position_embeddings";
    const json_t *object;
    double beta = 0;
    TRY(json_fields_require(fields, "rope_parameters"));
    TRY(json_fields_object(fields, "rope_parameters", &object));
    const struct json_fields rope = {object, "config.json: rope_parameters", fields->error};
    TRY(json_fields_require(&rope, BETA));
    TRY(json_fields_require(&rope, POSITIONS));
    TRY(json_fields_real(&rope, BETA, 0, 1e3, &beta));
    TRY(json_fields_u32(&rope, POSITIONS, 1, 1u << 24, &config->decoder.query_positions));
    config->decoder.query_growth = (float)beta;
    return STATUS_OK;
}

enum status family_read_phi(const struct json_fields *fields, struct model_config *config)
{
    (void)config;
    return json_fields_only(fields, "qk_layernorm", false);
}

enum status family_read_gpt2(const struct json_fields *fields, struct model_config *config)
{
    (void)config;
    TRY(json_fields_only(fields, "scale_attn_weights", true));
    TRY(json_fields_only(fields, "add_cross_attention", false));
    return json_fields_only(fields, "scale_attn_by_inverse_layer_idx", false);
}

enum status family_read_gpt_neox(const struct json_fields *fields, struct model_config *config)
{
    bool is_parallel = true, has_bias = true;
    TRY(json_fields_bool(fields, "use_parallel_residual", &is_parallel));
    TRY(json_fields_bool(fields, "attention_bias", &has_bias));
    config->qkv_bias = config->o_bias = has_bias;
    config->decoder.residual = is_parallel ? RESIDUAL_PARALLEL_TWO_NORMS : RESIDUAL_IN_TURN;
    return STATUS_OK;
}

enum status family_read_opt(const struct json_fields *fields, struct model_config *config)
{
    uint32_t projected = config->hidden;
    TRY(json_fields_only(fields, "do_layer_norm_before", true));
    TRY(json_fields_only(fields, "enable_bias", true));
    TRY(json_fields_only(fields, "layer_norm_elementwise_affine", true));
    TRY(json_fields_only(fields, "_remove_final_layer_norm", false));
    TRY(json_fields_u32(fields, "word_embed_proj_dim", 1, HIDDEN_MAX, &projected));
    if (projected == config->hidden)
        return STATUS_OK;
    return error_set(fields->error, STATUS_UNSUPPORTED,
                     "%s: word_embed_proj_dim is %u, only hidden_size %u is supported",
                     fields->file, projected, config->hidden);
}

enum status family_read_bloom(const struct json_fields *fields, struct model_config *config)
{
    uint32_t inner = config->ffn;
    config->decoder.alibi_scale = 1;
    TRY(json_fields_u32(fields, "n_inner", 1, FFN_MAX, &inner)); /* Transformers ignores it */
    if (inner != config->ffn)
        return error_set(fields->error, STATUS_UNSUPPORTED,
                         "%s: n_inner is %u, only four times the hidden size, %u, is supported",
                         fields->file, inner, config->ffn);
    return json_fields_only(fields, "apply_residual_connection_post_layernorm", false);
}

/* Three decoders with one name: 7B (one KV head, one norm), 40B (groups, two norms) and RW (ALiBi, heads of their own). */
enum status family_read_falcon(const struct json_fields *fields, struct model_config *config)
{
    bool is_new = false, has_one = true, is_parallel = true, has_alibi = false, has_bias = false;
    uint32_t n_kv_heads = config->n_heads, n_norms = 0;
    struct decoder *decoder = &config->decoder;
    TRY(json_fields_only(fields, "apply_residual_connection_post_layernorm", false));
    TRY(json_fields_bool(fields, "new_decoder_architecture", &is_new));
    TRY(json_fields_bool(fields, "multi_query", &has_one));
    TRY(json_fields_bool(fields, "parallel_attn", &is_parallel));
    TRY(json_fields_bool(fields, "alibi", &has_alibi));
    TRY(json_fields_bool(fields, "bias", &has_bias));
    TRY(json_fields_u32(fields, "num_kv_heads", 1, HEADS_MAX, &n_kv_heads));
    TRY(json_fields_u32(fields, "num_ln_in_parallel_attn", 1, 2, &n_norms));
    config->n_kv_heads = is_new ? n_kv_heads : has_one ? 1 : config->n_heads;
    if (config->n_heads % config->n_kv_heads != 0)
        return error_set(fields->error, STATUS_CORRUPT,
                         "%s: num_kv_heads is %u, which does not divide num_attention_heads %u",
                         fields->file, config->n_kv_heads, config->n_heads);
    decoder->qkv_layout = !is_new && has_one ? QKV_FUSED : QKV_BY_GROUP;
    if (n_norms == 0)
        n_norms = is_new ? 2 : 1;
    if (!is_parallel && !is_new)
        decoder->residual = RESIDUAL_IN_TURN;
    else
        decoder->residual = is_new && n_norms == 2 ? RESIDUAL_PARALLEL_TWO_NORMS
                                                   : RESIDUAL_PARALLEL;
    if (has_alibi)
        decoder->alibi_scale = 1 / sqrtf((float)config->head_dim);
    config->qkv_bias = config->o_bias = config->mlp_bias = has_bias;
    return STATUS_OK;
}

static enum status read_mpt_attention(const struct json_fields *attention,
                                      struct model_config *config)
{
    bool has_alibi = true;
    double clip = 0, scale = 0;
    uint32_t bias_max = 8;
    TRY(json_fields_bool(attention, "alibi", &has_alibi));
    TRY(json_fields_real(attention, "clip_qkv", 0, 1e9, &clip));
    TRY(json_fields_real(attention, "softmax_scale", 1e-9, 1e9, &scale));
    TRY(json_fields_u32(attention, "alibi_bias_max", 1, 1u << 20, &bias_max));
    const char *type = "multihead_attention";
    TRY(json_fields_string(attention, "attn_type", &type));
    if (strcmp(type, "multihead_attention") != 0)
        return error_set(attention->error, STATUS_UNSUPPORTED,
                         "%s: attn_type is \"%.60s\", only multihead_attention is supported",
                         attention->file, type);
    TRY(json_fields_only(attention, "attn_uses_sequence_id", false));
    TRY(json_fields_only(attention, "qk_ln", false));
    TRY(json_fields_only(attention, "prefix_lm", false));
    if (!has_alibi || bias_max != 8 || clip != 0)
        return error_set(attention->error, STATUS_UNSUPPORTED,
                         "%s: alibi is %s, alibi_bias_max %u, clip_qkv %g; only true, 8 and null "
                         "are supported",
                         attention->file, has_alibi ? "true" : "false", bias_max, clip);
    config->decoder.attention_scale = (float)scale;
    config->decoder.alibi_scale = 1;
    return STATUS_OK;
}

enum status family_read_mpt(const struct json_fields *fields, struct model_config *config)
{
    uint32_t ratio = 4;
    const json_t *object;
    TRY(json_fields_only(fields, "no_bias", true));
    TRY(json_fields_only(fields, "learned_pos_emb", true)); /* Transformers ignores it */
    TRY(json_fields_u32(fields, "expansion_ratio", 1, 64, &ratio));
    TRY(json_fields_object(fields, "attn_config", &object));
    if (ratio > FFN_MAX / config->hidden)
        return error_set(fields->error, STATUS_CORRUPT,
                         "%s: expansion_ratio is %u, which makes more than %u with d_model %u",
                         fields->file, ratio, FFN_MAX, config->hidden);
    config->ffn = ratio * config->hidden;
    config->decoder.alibi_scale = 1;
    const struct json_fields attention = {object, "config.json: attn_config", fields->error};
    return object ? read_mpt_attention(&attention, config) : STATUS_OK;
}

/* ---- experts ---- */

/* Which keys of config.json say the sizes. */
struct expert_keys {
    const char *n_experts, *inner, *shared; /* shared NULL: there is no shared expert */
};

/* Every layer has experts, of the sizes that the keys say. */
static enum status read_experts(const struct json_fields *fields, const struct expert_keys *keys,
                                struct model_config *config)
{
    struct moe_config *experts = &config->experts;
    *experts = (struct moe_config){.n_in = config->hidden,
                                   .n_inner = config->ffn,
                                   .activation = config->decoder.activation,
                                   .routing = {.scale = 1}};
    TRY(json_fields_require(fields, keys->n_experts));
    TRY(json_fields_require(fields, "num_experts_per_tok"));
    TRY(json_fields_require(fields, keys->inner));
    TRY(json_fields_u32(fields, keys->n_experts, 1, MOE_EXPERTS_MAX, &experts->routing.n_experts));
    TRY(json_fields_u32(fields, "num_experts_per_tok", 1, experts->routing.n_experts,
                        &experts->routing.top_k));
    TRY(json_fields_u32(fields, keys->inner, 1, FFN_MAX, &experts->n_inner));
    if (keys->shared)
        TRY(json_fields_u32(fields, keys->shared, 0, FFN_MAX, &experts->n_shared_inner));
    memset(config->has_experts, 1, config->n_layers);
    return STATUS_OK;
}

enum status family_read_mixtral(const struct json_fields *fields, struct model_config *config)
{
    static const struct expert_keys KEYS = {"num_local_experts", "intermediate_size", NULL};
    TRY(read_experts(fields, &KEYS, config));
    config->experts.routing.renormalise = true;
    return STATUS_OK;
}

enum status family_read_granite_moe(const struct json_fields *fields, struct model_config *config)
{
    static const struct expert_keys KEYS = {"num_local_experts", "intermediate_size", NULL};
    TRY(read_experts(fields, &KEYS, config));
    config->experts.routing.score = MOE_SOFTMAX_TOP;
    return family_read_granite(fields, config);
}

/* mlp_only_layers, and all but every nth layer, have an MLP in place of experts. */
static enum status read_dense_layers(const struct json_fields *fields, struct model_config *config)
{
    uint32_t step = 1;
    const json_t *list = json_fields_get(fields, "mlp_only_layers");
    TRY(json_fields_u32(fields, "decoder_sparse_step", 1, LAYERS_MAX, &step));
    for (uint32_t layer = 0; layer < config->n_layers; layer++)
        config->has_experts[layer] = (layer + 1) % step == 0;
    if (list && !json_is_array(list))
        return error_set(fields->error, STATUS_CORRUPT, "%s: mlp_only_layers is not a list",
                         fields->file);
    for (size_t i = 0; i < json_array_size(list); i++) {
        uint32_t layer;
        if (!json_fields_whole(json_array_get(list, i), config->n_layers - 1, &layer))
            return error_set(fields->error, STATUS_CORRUPT,
                             "%s: mlp_only_layers[%zu] is not a layer below num_hidden_layers %u",
                             fields->file, i, config->n_layers);
        config->has_experts[layer] = 0;
    }
    return STATUS_OK;
}

static enum status read_qwen_experts(const struct json_fields *fields,
                                     const struct expert_keys *keys, struct model_config *config)
{
    bool renormalises = false;
    TRY(read_experts(fields, keys, config));
    TRY(json_fields_bool(fields, "norm_topk_prob", &renormalises));
    config->experts.routing.renormalise = renormalises;
    return read_dense_layers(fields, config);
}

enum status family_read_qwen2_moe(const struct json_fields *fields, struct model_config *config)
{
    static const struct expert_keys KEYS = {"num_experts", "moe_intermediate_size",
                                            "shared_expert_intermediate_size"};
    TRY(json_fields_require(fields, KEYS.shared));
    TRY(json_fields_bool(fields, "qkv_bias", &config->qkv_bias));
    TRY(read_qwen_experts(fields, &KEYS, config));
    config->has_shared_scale = config->experts.n_shared_inner > 0;
    return STATUS_OK;
}

enum status family_read_qwen3_moe(const struct json_fields *fields, struct model_config *config)
{
    static const struct expert_keys KEYS = {"num_experts", "moe_intermediate_size", NULL};
    return read_qwen_experts(fields, &KEYS, config);
}

/* ---- layers with recurrent state ---- */

/* output_gate_type is that of the norm in a layer with recurrent state: SiLU in all of Transformers. */
enum status family_read_qwen3_5(const struct json_fields *fields, struct model_config *config)
{
    const char *gate = "silu";
    TRY(json_fields_only(fields, "attn_output_gate", true));
    TRY(json_fields_string(fields, "output_gate_type", &gate));
    if (strcmp(gate, "silu") != 0 && strcmp(gate, "swish") != 0)
        return error_set(fields->error, STATUS_UNSUPPORTED,
                         "%s: output_gate_type is \"%.40s\", only silu and swish are supported",
                         fields->file, gate);
    return recurrent_layers_read(fields, config);
}

static const struct expert_keys NEXT_KEYS = {"num_experts", "moe_intermediate_size",
                                             "shared_expert_intermediate_size"};

enum status family_read_qwen3_5_moe(const struct json_fields *fields, struct model_config *config)
{
    TRY(json_fields_require(fields, NEXT_KEYS.shared));
    TRY(read_experts(fields, &NEXT_KEYS, config));
    config->experts.routing.renormalise = true;
    config->has_shared_scale = config->experts.n_shared_inner > 0;
    return family_read_qwen3_5(fields, config);
}

enum status family_read_qwen_next(const struct json_fields *fields, struct model_config *config)
{
    bool renormalises = true;
    TRY(json_fields_bool(fields, "norm_topk_prob", &renormalises));
    TRY(family_read_qwen3_5_moe(fields, config));
    config->experts.routing.renormalise = renormalises;
    return read_dense_layers(fields, config);
}

enum status family_read_olmoe(const struct json_fields *fields, struct model_config *config)
{
    static const struct expert_keys KEYS = {"num_experts", "intermediate_size", NULL};
    TRY(family_read_olmo(fields, config));
    return read_qwen_experts(fields, &KEYS, config);
}

/* Gate and up are interleaved, clamped, and joined as (up + 1) gate sigmoid(1.702 gate). */
enum status family_read_gpt_oss(const struct json_fields *fields, struct model_config *config)
{
    static const struct expert_keys KEYS = {"num_local_experts", "intermediate_size", NULL};
    double limit = 7;
    bool are_apart = false; /* of GGUF files */
    if (config->quantization.method > QUANTIZATION_MXFP4)
        return error_set(fields->error, STATUS_UNSUPPORTED,
                         "config.json: quantization_config: quant_method of gpt_oss is not mxfp4, "
                         "the only one supported for it");
    TRY(read_experts(fields, &KEYS, config));
    TRY(json_fields_real(fields, "swiglu_limit", 0.1, 1e6, &limit));
    config->has_sinks = true;
    TRY(json_fields_bool(fields, "experts_are_apart", &are_apart));
    config->experts.is_interleaved = !are_apart;
    config->experts.routing.score = MOE_SOFTMAX_TOP;
    config->experts.alpha = 1.702f;
    config->experts.beta = 1;
    config->experts.limit = (float)limit;
    return STATUS_OK;
}

/* ---- latents ---- */

static enum status read_size(const struct json_fields *fields, const char *key, uint32_t unit,
                             uint32_t most, uint32_t *size_out)
{
    TRY(json_fields_require(fields, key));
    TRY(json_fields_u32(fields, key, 1, HIDDEN_MAX, size_out));
    if (*size_out % unit == 0 && *size_out <= most)
        return STATUS_OK;
    return error_set(fields->error, STATUS_UNSUPPORTED,
                     "%s: %s is %u, supported are multiples of %u up to %u", fields->file, key,
                     *size_out, unit, most);
}

/* A key that says again what others make. */
static enum status check_same(const struct json_fields *fields, const char *key, uint32_t made)
{
    uint32_t given = made;
    TRY(json_fields_u32(fields, key, 1, UINT32_MAX, &given));
    if (given == made)
        return STATUS_OK;
    return error_set(fields->error, STATUS_UNSUPPORTED, "%s: %s is %u, only %u is supported",
                     fields->file, key, given, made);
}

static enum status read_latent(const struct json_fields *fields, struct model_config *config)
{
    struct latent_shape *latent = &config->decoder.latent;
    TRY(read_size(fields, "kv_lora_rank", 16, LATENT_DIM_MAX, &latent->dim));
    TRY(read_size(fields, "qk_rope_head_dim", 8, LATENT_ROPE_DIM_MAX, &latent->rope_dim));
    TRY(read_size(fields, "qk_nope_head_dim", 1, LATENT_HEAD_MAX, &latent->nope_dim));
    TRY(read_size(fields, "v_head_dim", 1, LATENT_HEAD_MAX, &latent->v_dim));
    if (!json_object_get(fields->object, "q_lora_rank")) /* null: no such matrix */
        TRY(json_fields_require(fields, "q_lora_rank"));
    TRY(json_fields_u32(fields, "q_lora_rank", 1, HIDDEN_MAX, &latent->q_rank));
    config->head_dim = latent->nope_dim + latent->rope_dim;
    TRY(check_same(fields, "qk_head_dim", config->head_dim));
    return check_same(fields, "num_key_value_heads", config->n_heads);
}

/* The first layers have an MLP in place of experts. */
static enum status read_first_layers(const struct json_fields *fields, uint32_t n_dense,
                                     struct model_config *config)
{
    TRY(json_fields_u32(fields, "first_k_dense_replace", 0, UINT32_MAX, &n_dense));
    TRY(check_same(fields, "moe_layer_freq", 1));
    for (uint32_t layer = 0; layer < config->n_layers && layer < n_dense; layer++)
        config->has_experts[layer] = 0;
    return STATUS_OK;
}

static enum status require_word(const struct json_fields *fields, const char *key,
                                const char *expected)
{
    const char *word = expected;
    TRY(json_fields_string(fields, key, &word));
    if (strcmp(word, expected) == 0)
        return STATUS_OK;
    return error_set(fields->error, STATUS_UNSUPPORTED, "%s: %s is \"%.40s\", only %s is supported",
                     fields->file, key, word, expected);
}

/* n_group groups of experts, of which topk_group are chosen. score_experts: those that make the score of a group. */
static enum status read_expert_groups(const struct json_fields *fields, uint32_t score_experts,
                                      struct moe_routing *routing)
{
    const bool is_null = json_is_null(json_object_get(fields->object, "n_group"));
    uint32_t n = is_null ? 0 : routing->n_groups, top = routing->top_groups;
    TRY(json_fields_u32(fields, "n_group", 1, MOE_EXPERTS_MAX, &n));
    TRY(json_fields_u32(fields, "topk_group", 1, MOE_EXPERTS_MAX, &top));
    if (n == 0 || top == 0)
        return json_fields_require(fields, n == 0 ? "n_group" : "topk_group");
    if (routing->n_experts % n != 0 || routing->n_experts / n < score_experts)
        return error_set(fields->error, STATUS_CORRUPT,
                         "%s: n_group is %u: n_routed_experts %u cannot be divided into groups of "
                         "%u or more",
                         fields->file, n, routing->n_experts, score_experts);
    if (top > n || routing->top_k > top * (routing->n_experts / n))
        return error_set(fields->error, STATUS_CORRUPT,
                         "%s: topk_group is %u of n_group %u: num_experts_per_tok %u are not in "
                         "them",
                         fields->file, top, n, routing->top_k);
    routing->n_groups = n > 1 ? n : 0;
    routing->top_groups = n > 1 ? top : 0;
    return STATUS_OK;
}

static enum status read_deepseek(const struct json_fields *fields, const char *score,
                                 uint32_t n_dense, struct model_config *config)
{
    static const struct expert_keys KEYS = {"n_routed_experts", "moe_intermediate_size", NULL};
    struct moe_config *experts = &config->experts;
    uint32_t n_shared = 0;
    double scale = 1;
    TRY(read_latent(fields, config));
    TRY(json_fields_bool(fields, "kv_b_is_apart", &config->kv_b_is_apart)); /* of GGUF files */
    TRY(read_experts(fields, &KEYS, config));
    TRY(require_word(fields, "scoring_func", score));
    TRY(json_fields_require(fields, "routed_scaling_factor"));
    TRY(json_fields_real(fields, "routed_scaling_factor", 1e-6, 1e6, &scale));
    TRY(json_fields_require(fields, "n_shared_experts"));
    TRY(json_fields_u32(fields, "n_shared_experts", 0, MOE_EXPERTS_MAX, &n_shared));
    if (n_shared > FFN_MAX / experts->n_inner)
        return error_set(fields->error, STATUS_CORRUPT,
                         "%s: n_shared_experts is %u, which makes more than %u with "
                         "moe_intermediate_size %u",
                         fields->file, n_shared, FFN_MAX, experts->n_inner);
    experts->routing.scale = (float)scale;
    experts->n_shared_inner = n_shared * experts->n_inner;
    return read_first_layers(fields, n_dense, config);
}

/* Transformers ignores norm_topk_prob, the first code of the family does not. */
enum status family_read_deepseek_v2(const struct json_fields *fields, struct model_config *config)
{
    const char *method = "greedy";
    TRY(read_deepseek(fields, "softmax", 0, config));
    TRY(json_fields_only(fields, "norm_topk_prob", false));
    TRY(json_fields_only(fields, "rope_interleave", true));
    TRY(json_fields_string(fields, "topk_method", &method));
    if (strcmp(method, "group_limited_greedy") == 0)
        return read_expert_groups(fields, 1, &config->experts.routing);
    return require_word(fields, "topk_method", "greedy");
}

enum status family_read_deepseek_v3(const struct json_fields *fields, struct model_config *config)
{
    struct moe_routing *routing = &config->experts.routing;
    bool renormalises = true;
    TRY(read_deepseek(fields, "sigmoid", 3, config));
    TRY(require_word(fields, "topk_method", "noaux_tc"));
    TRY(json_fields_bool(fields, "norm_topk_prob", &renormalises));
    routing->score = MOE_SIGMOID;
    routing->renormalise = renormalises;
    routing->group_score = MOE_GROUP_TWO;
    routing->n_groups = 8;
    routing->top_groups = 4;
    TRY(read_expert_groups(fields, 2, routing));
    if (routing->n_groups == 0)
        routing->group_score = MOE_GROUP_BEST;
    config->has_selection_bias = true;
    TRY(json_fields_u32(fields, "num_mtp_layers", 0, LAYERS_MAX, &config->n_skipped_layers));
    return json_fields_u32(fields, "num_nextn_predict_layers", 0, LAYERS_MAX,
                           &config->n_skipped_layers);
}
