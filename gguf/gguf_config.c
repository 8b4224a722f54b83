#include "gguf/gguf_config.h"

#include "gguf/gguf_architecture.h"
#include "gguf/gguf_encoder.h"
#include "gguf/gguf_gemma4.h"
#include "gguf/gguf_recurrent.h"
#include "gguf/gguf_token_ids.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_MAX       (1u << 24)
#define ROPE_FACTORS_MAX 128

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ---- numbers ---- */

static const char ALIKE[] = "";  /* of all architectures whose layers are alike */
static const char OF_MLP[] = ""; /* of those of them that have an MLP */

#define QWEN_MOE " qwen3moe qwen35moe qwen3next "

static const struct number_row {
    const char *key; /* behind the architecture's name */
    const char *word;
    bool is_required, is_real;
    const char *only; /* of these architectures, between spaces, or ALIKE; NULL: of all */
} NUMBERS[] = {
    {"embedding_length", "hidden_size", true, false, NULL},
    {"block_count", "num_hidden_layers", true, false, NULL},
    {"feed_forward_length", "intermediate_size", true, false, OF_MLP},
    {"attention.head_count", "num_attention_heads", true, false, NULL},
    {"attention.head_count_kv", "num_key_value_heads", false, false, ALIKE},
    {"attention.key_length", "head_dim", false, false, ALIKE},
    {"context_length", "max_position_embeddings", true, false, NULL},
    {"rope.freq_base", "rope_theta", false, true, ALIKE},
    {"rope.freq_base_swa", "rope_local_base_freq", false, true, " gemma3 "},
    {"attention.sliding_window", "sliding_window", false, false, " gemma2 gemma3 phi3 gpt-oss "},
    {"attn_logit_softcapping", "attn_logit_softcapping", false, true, " gemma2 gemma3 "},
    {"final_logit_softcapping", "final_logit_softcapping", false, true, " gemma2 gemma3 gemma4 "},
    {"expert_count", "num_experts", true, false, QWEN_MOE},
    {"expert_count", "num_local_experts", true, false, " gpt-oss "},
    {"expert_used_count", "num_experts_per_tok", true, false, " gpt-oss " QWEN_MOE},
    {"expert_feed_forward_length", "moe_intermediate_size", true, false, QWEN_MOE},
    {"expert_shared_feed_forward_length", "shared_expert_intermediate_size", true, false,
     " qwen35moe qwen3next "},
    {"expert_count", "n_routed_experts", true, false, " deepseek2 "},
    {"expert_used_count", "num_experts_per_tok", true, false, " deepseek2 "},
    {"expert_feed_forward_length", "moe_intermediate_size", true, false, " deepseek2 "},
    {"attention.q_lora_rank", "q_lora_rank", false, false, " deepseek2 "},
    {"attention.kv_lora_rank", "kv_lora_rank", true, false, " deepseek2 "},
    {"rope.dimension_count", "qk_rope_head_dim", true, false, " deepseek2 "},
    {"expert_weights_scale", "routed_scaling_factor", false, true, " deepseek2 "},
    {"expert_group_count", "n_group", false, false, " deepseek2 "},
    {"expert_group_used_count", "topk_group", false, false, " deepseek2 "},
    {"attention.scale", "attention_multiplier", false, true, " granite "},
    {"embedding_scale", "embedding_multiplier", false, true, " granite "},
    {"residual_scale", "residual_multiplier", false, true, " granite "},
    {"logit_scale", "logits_scaling", false, true, " granite "},
    {"logit_scale", "logit_scale", true, true, " command-r "},
};

static bool is_of(const struct number_row *row, const struct gguf_architecture *architecture)
{
    char only[32];
    if (row->only == OF_MLP && architecture->has_no_mlp)
        return false;
    if (row->only == ALIKE || row->only == OF_MLP)
        return !architecture->is_unequal;
    snprintf(only, sizeof only, " %s ", architecture->name);
    return !row->only || strstr(row->only, only);
}

static enum status add_number(const struct gguf_file *file,
                              const struct gguf_architecture *architecture,
                              const struct number_row *row, json_t *config, struct error *error)
{
    char key[96];
    if (!is_of(row, architecture))
        return STATUS_OK;
    snprintf(key, sizeof key, "%s.%s", architecture->name, row->key);
    if (!gguf_find(file, key))
        return row->is_required ? gguf_require(file, key, error) : STATUS_OK;
    if (row->is_real) {
        double real = 0;
        TRY(gguf_real(file, key, &real, error));
        json_object_set_new(config, row->word, json_real(real));
        return STATUS_OK;
    }
    uint64_t number = 0;
    TRY(gguf_u64(file, key, 1, NUMBER_MAX, &number, error));
    json_object_set_new(config, row->word, json_integer((json_int_t)number));
    return STATUS_OK;
}

static uint64_t number_in(const json_t *config, const char *word)
{
    return (uint64_t)json_integer_value(json_object_get(config, word));
}

static enum status add_numbers(const struct gguf_file *file,
                               const struct gguf_architecture *architecture, json_t *config,
                               struct error *error)
{
    const struct number_row rms = {"attention.layer_norm_rms_epsilon", "rms_norm_eps", true, true,
                                   NULL};
    const struct number_row layer = {
        "attention.layer_norm_epsilon",
        architecture->epsilon ? architecture->epsilon : "layer_norm_eps", true, true, NULL};
    for (size_t i = 0; i < COUNT(NUMBERS); i++)
        TRY(add_number(file, architecture, &NUMBERS[i], config, error));
    TRY(add_number(file, architecture, architecture->has_layer_norm ? &layer : &rms, config,
                   error));
    if (!json_object_get(config, "num_key_value_heads"))
        json_object_set(config, "num_key_value_heads",
                        json_object_get(config, "num_attention_heads"));
    return STATUS_OK;
}

/* One of two keys of a file, the second of which is that of older files. */
static enum status read_either(const struct gguf_file *file, const char *key, const char *older,
                               uint64_t *value_out, struct error *error)
{
    const char *found = gguf_find(file, key) ? key : older;
    uint64_t value = 0;
    TRY(gguf_u64(file, found, 1, NUMBER_MAX, &value, error));
    if (value == 0)
        return error_set(error, STATUS_CORRUPT, "key %s is missing", key);
    *value_out = value;
    return STATUS_OK;
}

/* Keys that nothing here computes. */
static enum status refuse_beside_latents(const struct gguf_file *file, struct error *error)
{
    static const char *const KEYS[] = {"deepseek2.attention.temperature_scale",
                                       "deepseek2.nextn_predict_layers"};
    uint64_t gating = GGUF_GATING_SOFTMAX;
    for (size_t i = 0; i < COUNT(KEYS); i++)
        if (gguf_find(file, KEYS[i]))
            return error_set(error, STATUS_UNSUPPORTED,
                             "key %s is there, which is not supported in GGUF files", KEYS[i]);
    TRY(gguf_u64(file, "deepseek2.expert_gating_func", 0, UINT32_MAX, &gating, error));
    if (gating == GGUF_GATING_SOFTMAX || gating == GGUF_GATING_SIGMOID)
        return STATUS_OK;
    return error_set(error, STATUS_UNSUPPORTED,
                     "key deepseek2.expert_gating_func is %" PRIu64
                     ", supported are 1 (softmax) and 2 (sigmoid)",
                     gating);
}

static void set_default(json_t *config, const char *word, json_t *value)
{
    if (json_object_get(config, word))
        json_decref(value);
    else
        json_object_set_new(config, word, value);
}

/* Files say the sizes of a row of the cache, and beside them those of a head; older ones only the latter. */
static enum status add_latents(const struct gguf_file *file,
                               const struct gguf_architecture *architecture, json_t *config,
                               struct error *error)
{
    uint64_t qk = 0, v = 0, n_dense = 0, n_shared = 0;
    bool renormalises = false;
    TRY(refuse_beside_latents(file, error));
    TRY(read_either(file, "deepseek2.attention.key_length_mla", "deepseek2.attention.key_length",
                    &qk, error));
    TRY(read_either(file, "deepseek2.attention.value_length_mla",
                    "deepseek2.attention.value_length", &v, error));
    TRY(gguf_u64(file, "deepseek2.leading_dense_block_count", 0, NUMBER_MAX, &n_dense, error));
    TRY(gguf_u64(file, "deepseek2.expert_shared_count", 0, NUMBER_MAX, &n_shared, error));
    TRY(gguf_bool(file, "deepseek2.expert_weights_norm", &renormalises, error));
    const uint64_t rope = number_in(config, "qk_rope_head_dim");
    if (qk <= rope)
        return error_set(error, STATUS_CORRUPT,
                         "key deepseek2.attention.key_length_mla is %" PRIu64
                         ", expected more than the %" PRIu64 " that are rotated",
                         qk, rope);
    json_object_set_new(config, "qk_nope_head_dim", json_integer((json_int_t)(qk - rope)));
    json_object_set_new(config, "v_head_dim", json_integer((json_int_t)v));
    json_object_set_new(config, "first_k_dense_replace", json_integer((json_int_t)n_dense));
    json_object_set_new(config, "n_shared_experts", json_integer((json_int_t)n_shared));
    json_object_set_new(config, "norm_topk_prob", json_boolean(renormalises));
    json_object_set_new(config, "kv_b_is_apart",
                        json_boolean(gguf_find_tensor(file, "blk.0.attn_k_b.weight")));
    set_default(config, "q_lora_rank", json_null());
    set_default(config, "routed_scaling_factor", json_real(1));
    set_default(config, "n_group", json_integer(1));
    set_default(config, "topk_group", json_integer(1));
    if (!architecture->gating)
        json_object_set_new(
            config, "topk_method",
            json_string(number_in(config, "n_group") > 1 ? "group_limited_greedy" : "greedy"));
    json_object_del(config, "head_dim"); /* of the row that is cached, which has one head */
    json_object_set(config, "num_key_value_heads", json_object_get(config, "num_attention_heads"));
    return STATUS_OK;
}

/* Keys whose value must be neutral, since nothing here computes anything else. */
static enum status refuse_rest(const struct gguf_file *file,
                               const struct gguf_architecture *architecture, json_t *config,
                               struct error *error)
{
    static const char *const ZERO[] = {"expert_count", "attention.sliding_window"};
    char key[96];
    for (size_t i = 0; i < COUNT(ZERO); i++) {
        uint64_t value = 0;
        if (json_object_get(config, i == 0 ? "num_experts_per_tok" : "sliding_window"))
            continue;
        snprintf(key, sizeof key, "%s.%s", architecture->name, ZERO[i]);
        TRY(gguf_u64(file, key, 0, UINT32_MAX, &value, error));
        if (value != 0)
            return error_set(error, STATUS_UNSUPPORTED,
                             "key %s is %" PRIu64 ", which is not supported in GGUF files", key,
                             value);
    }
    if (architecture->is_latent)
        return add_latents(file, architecture, config, error);
    const uint64_t heads = number_in(config, "num_attention_heads");
    uint64_t head_dim = number_in(config, "head_dim");
    if (head_dim == 0)
        head_dim = number_in(config, "hidden_size") / heads;
    uint64_t value_length = head_dim, rotated = head_dim;
    snprintf(key, sizeof key, "%s.attention.value_length", architecture->name);
    TRY(gguf_u64(file, key, 1, NUMBER_MAX, &value_length, error));
    if (value_length != head_dim)
        return error_set(error, STATUS_UNSUPPORTED,
                         "key %s is %" PRIu64 ", but keys have %" PRIu64 " elements", key,
                         value_length, head_dim);
    snprintf(key, sizeof key, "%s.rope.dimension_count", architecture->name);
    TRY(gguf_u64(file, key, 1, NUMBER_MAX, &rotated, error));
    if (architecture->rope_part && rotated < head_dim) {
        json_object_set_new(config, architecture->rope_part,
                            json_real((double)rotated / (double)head_dim));
        return STATUS_OK;
    }
    if (rotated != head_dim)
        return error_set(error, STATUS_UNSUPPORTED,
                         "key %s is %" PRIu64 ", only the whole head of %" PRIu64
                         " elements is supported",
                         key, rotated, head_dim);
    return STATUS_OK;
}

/* ---- rotation ---- */

/* What Llama 3.1 to 3.3 have besides the factor; the file has only what they make of it. */
#define LLAMA3_LOW       1.0
#define LLAMA3_HIGH      4.0
#define LLAMA3_POSITIONS 8192.0

static double llama3_factor(double theta, uint64_t head_dim, uint64_t i, double factor)
{
    const double frequency = pow(theta, -2.0 * (double)i / (double)head_dim);
    const double wavelength = 2 * 3.14159265358979323846 / frequency;
    if (wavelength < LLAMA3_POSITIONS / LLAMA3_HIGH)
        return 1;
    if (wavelength > LLAMA3_POSITIONS / LLAMA3_LOW)
        return factor;
    const double smooth = (LLAMA3_POSITIONS / wavelength - LLAMA3_LOW) / (LLAMA3_HIGH - LLAMA3_LOW);
    return 1 / ((1 - smooth) / factor + smooth);
}

/* rope_freqs.weight has what each frequency is divided by. */
static enum status add_llama3(const struct gguf_tensor *tensor, json_t *config, struct error *error)
{
    uint64_t head_dim = number_in(config, "head_dim");
    const json_t *base = json_object_get(config, "rope_theta");
    const double theta = base ? json_number_value(base) : 10000;
    if (head_dim == 0)
        head_dim = number_in(config, "hidden_size") / number_in(config, "num_attention_heads");
    if (tensor->type != GGUF_TYPE_F32 || tensor->n_dims != 1 || tensor->dims[0] != head_dim / 2)
        return error_set(error, STATUS_CORRUPT,
                         "tensor rope_freqs.weight is not F32 of %" PRIu64 " elements",
                         head_dim / 2);
    double factor = 0;
    float value;
    for (uint64_t i = 0; i < head_dim / 2; i++) {
        memcpy(&value, tensor->data + i * sizeof value, sizeof value);
        factor = (double)value > factor ? (double)value : factor;
    }
    for (uint64_t i = 0; i < head_dim / 2; i++) {
        memcpy(&value, tensor->data + i * sizeof value, sizeof value);
        const double wanted = llama3_factor(theta, head_dim, i, factor);
        if (!(fabs((double)value - wanted) <= 1e-4 * wanted))
            return error_set(error, STATUS_UNSUPPORTED,
                             "tensor rope_freqs.weight has %g at %" PRIu64
                             ", Llama 3 with factor %g has %g; no other scaling is supported",
                             (double)value, i, factor, wanted);
    }
    json_object_set_new(config, "rope_scaling",
                        json_pack("{s:s, s:f, s:f, s:f, s:i}", "rope_type", "llama3", "factor",
                                  factor, "low_freq_factor", LLAMA3_LOW, "high_freq_factor",
                                  LLAMA3_HIGH, "original_max_position_embeddings",
                                  (int)LLAMA3_POSITIONS));
    return STATUS_OK;
}

/* Phi-3's factors, one for each two rotated elements. */
static enum status add_factors(const struct gguf_file *file, const char *name, const char *word,
                               json_t *scaling, struct error *error)
{
    const struct gguf_tensor *tensor = gguf_find_tensor(file, name);
    json_t *list = json_array();
    json_object_set_new(scaling, word, list);
    if (!tensor || tensor->type != GGUF_TYPE_F32 || tensor->n_dims != 1 ||
        tensor->dims[0] > ROPE_FACTORS_MAX)
        return error_set(error, STATUS_CORRUPT, "tensor %s is missing, or not F32 of one row",
                         name);
    for (uint64_t i = 0; i < tensor->dims[0]; i++) {
        float value;
        memcpy(&value, tensor->data + i * sizeof value, sizeof value);
        if (!isfinite(value))
            return error_set(error, STATUS_CORRUPT, "tensor %s has %g at %" PRIu64, name,
                             (double)value, i);
        json_array_append_new(list, json_real((double)value));
    }
    return STATUS_OK;
}

static enum status add_longrope(const struct gguf_file *file,
                                const struct gguf_architecture *architecture, json_t *config,
                                struct error *error)
{
    char key[96];
    uint64_t original = 0;
    double attention_factor = 0;
    json_t *scaling = json_pack("{s:s}", "rope_type", "longrope");
    json_object_set_new(config, "rope_scaling", scaling);
    TRY(add_factors(file, "rope_factors_long.weight", "long_factor", scaling, error));
    TRY(add_factors(file, "rope_factors_short.weight", "short_factor", scaling, error));
    snprintf(key, sizeof key, "%s.rope.scaling.original_context_length", architecture->name);
    TRY(gguf_u64(file, key, 1, NUMBER_MAX, &original, error));
    if (original == 0)
        return error_set(error, STATUS_CORRUPT, "key %s is missing", key);
    json_object_set_new(scaling, "original_max_position_embeddings",
                        json_integer((json_int_t)original));
    snprintf(key, sizeof key, "%s.rope.scaling.attn_factor", architecture->name);
    TRY(gguf_real(file, key, &attention_factor, error));
    if (attention_factor > 0)
        json_object_set_new(scaling, "attention_factor", json_real(attention_factor));
    return STATUS_OK;
}

/* What YaRN has besides, and the growth of queries, of an architecture that has both. */
static enum status add_growth(const struct gguf_file *file,
                              const struct gguf_architecture *architecture, json_t *scaling,
                              struct error *error)
{
    static const struct number_row ROWS[] = {
        {"rope.scaling.yarn_beta_fast", "beta_fast", false, true, NULL},
        {"rope.scaling.yarn_beta_slow", "beta_slow", false, true, NULL},
        {"rope.scaling.yarn_log_multiplier", "mscale", false, true, NULL},
        {"rope.scaling.yarn_log_multiplier", "mscale_all_dim", false, true, NULL},
        {"attention.temperature_scale", "llama_4_scaling_beta", true, true, NULL},
    };
    for (size_t i = 0; i < COUNT(ROWS); i++)
        TRY(add_number(file, architecture, &ROWS[i], scaling, error));
    return STATUS_OK;
}

/* What YaRN has besides, of latents: the key is a tenth of mscale_all_dim, which all models have equal to mscale. */
static enum status add_mscale(const struct gguf_file *file,
                              const struct gguf_architecture *architecture, json_t *scaling,
                              struct error *error)
{
    static const struct number_row ROWS[] = {
        {"rope.scaling.yarn_beta_fast", "beta_fast", false, true, NULL},
        {"rope.scaling.yarn_beta_slow", "beta_slow", false, true, NULL},
    };
    double tenth = 0;
    for (size_t i = 0; i < COUNT(ROWS); i++)
        TRY(add_number(file, architecture, &ROWS[i], scaling, error));
    TRY(gguf_real(file, "deepseek2.rope.scaling.yarn_log_multiplier", &tenth, error));
    if (tenth == 0)
        return STATUS_OK;
    json_object_set_new(scaling, "mscale", json_real(10 * tenth));
    json_object_set_new(scaling, "mscale_all_dim", json_real(10 * tenth));
    return STATUS_OK;
}

static enum status add_scaling(const struct gguf_file *file,
                               const struct gguf_architecture *architecture, json_t *config,
                               struct error *error)
{
    const struct gguf_tensor *frequencies = gguf_find_tensor(file, "rope_freqs.weight");
    char key[96];
    struct gguf_text type = {"none", 4};
    double factor = 1;
    uint64_t original = 0;
    if (frequencies)
        return add_llama3(frequencies, config, error);
    if (gguf_find_tensor(file, "rope_factors_long.weight"))
        return add_longrope(file, architecture, config, error);
    snprintf(key, sizeof key, "%s.rope.scaling.factor", architecture->name);
    TRY(gguf_real(file, key, &factor, error));
    if (factor != 1 && factor != 0)
        type = (struct gguf_text){"linear", 6}; /* unless it is said */
    snprintf(key, sizeof key, "%s.rope.scaling.type", architecture->name);
    TRY(gguf_text(file, key, &type, error));
    if (gguf_text_is(type, "none"))
        return STATUS_OK;
    if (!gguf_text_is(type, "linear") && !gguf_text_is(type, "yarn"))
        return error_set(error, STATUS_UNSUPPORTED,
                         "key %s is \"%.*s\", supported are none, linear and yarn", key,
                         (int)(type.n < 60 ? type.n : 60), type.bytes);
    snprintf(key, sizeof key, "%s.rope.scaling.original_context_length", architecture->name);
    TRY(gguf_u64(file, key, 1, NUMBER_MAX, &original, error));
    json_t *scaling = json_pack("{s:s#, s:f}", "rope_type", type.bytes, (int)type.n, "factor",
                                factor);
    if (original > 0)
        json_object_set_new(scaling, "original_max_position_embeddings",
                            json_integer((json_int_t)original));
    json_object_set_new(config, architecture->queries_grow ? "rope_parameters" : "rope_scaling",
                        scaling);
    if (architecture->is_latent)
        return add_mscale(file, architecture, scaling, error);
    return architecture->queries_grow ? add_growth(file, architecture, scaling, error) : STATUS_OK;
}

/* Scales of whole tensors, as some quantizers write them. */
static enum status refuse_scales(const struct gguf_file *file,
                                 const struct gguf_architecture *architecture, struct error *error)
{
    char name[GGUF_NAME_MAX + 64];
    for (uint32_t i = 0; i < file->n_tensors; i++) {
        const struct gguf_text own = file->tensors[i].name;
        if (!gguf_architecture_is_scale(own))
            continue;
        gguf_architecture_name(architecture, own, 0, name, sizeof name);
        if (!name[0])
            return error_set(error, STATUS_UNSUPPORTED,
                             "tensor %.*s scales another one, which is not supported for %s",
                             (int)own.n, own.bytes, architecture->name);
    }
    return STATUS_OK;
}

/* Files do not say what scores are divided by the root of. */
static void add_score_scale(const struct gguf_architecture *architecture, json_t *config)
{
    const uint64_t heads = number_in(config, "num_attention_heads");
    const bool is_wide = number_in(config, "num_hidden_layers") ==
                         architecture->layers_of_wide_scale;
    const uint64_t scalar = is_wide ? number_in(config, "hidden_size") / heads
                                    : number_in(config, "head_dim");
    if (scalar > 0)
        json_object_set_new(config, "query_pre_attn_scalar", json_integer((json_int_t)scalar));
}

/* gpt-oss calls the size of an expert intermediate_size, and does not round the ends of YaRN's ramp. */
static void set_expert_size(const struct gguf_file *file, json_t *config)
{
    const struct gguf_tensor *gate = gguf_find_tensor(file, "blk.0.ffn_gate_exps.weight");
    json_t *scaling = json_object_get(config, "rope_scaling");
    if (gate && gate->n_dims == 3)
        json_object_set_new(config, "intermediate_size", json_integer((json_int_t)gate->dims[1]));
    if (scaling)
        json_object_set_new(scaling, "truncate", json_false());
}

/* Falcon has three decoders: groups of heads, and in them one norm or two, are the new one. ALiBi is none of them. */
static void add_falcon(const struct gguf_architecture *architecture, bool has_bias, json_t *config)
{
    const uint64_t n_kv_heads = number_in(config, "num_key_value_heads");
    const bool is_new = architecture->needs || n_kv_heads > 1;
    json_object_set_new(config, "new_decoder_architecture", json_boolean(is_new));
    json_object_set_new(config, "multi_query", json_true());
    json_object_set_new(config, "bias", json_boolean(has_bias));
    json_object_set_new(config, "num_kv_heads", json_integer((json_int_t)n_kv_heads));
    json_object_set_new(config, "num_ln_in_parallel_attn",
                        json_integer(architecture->needs ? 2 : 1));
}

static enum status add_mpt(const struct gguf_file *file, json_t *config, struct error *error)
{
    const uint64_t hidden = number_in(config, "hidden_size");
    const uint64_t ffn = number_in(config, "intermediate_size");
    double bias_max = 0, clip = 0;
    TRY(gguf_real(file, "mpt.attention.max_alibi_bias", &bias_max, error));
    TRY(gguf_real(file, "mpt.attention.clamp_kqv", &clip, error));
    if (ffn % hidden != 0 ||
        number_in(config, "num_key_value_heads") != number_in(config, "num_attention_heads"))
        return error_set(error, STATUS_UNSUPPORTED,
                         "key mpt.feed_forward_length is no multiple of mpt.embedding_length, or "
                         "KV heads are fewer than heads, which is not supported");
    json_object_set_new(config, "expansion_ratio", json_integer((json_int_t)(ffn / hidden)));
    json_object_set_new(config, "no_bias", json_true());
    json_object_set_new(config, "attn_config",
                        json_pack("{s:b, s:i, s:f}", "alibi", bias_max > 0, "alibi_bias_max",
                                  bias_max > 0 ? (int)bias_max : 8, "clip_qkv", clip));
    json_object_del(config, "intermediate_size");
    json_object_del(config, "num_key_value_heads");
    return STATUS_OK;
}

/* What the architectures before Llama have of their own. */
static enum status add_older(const struct gguf_file *file,
                             const struct gguf_architecture *architecture, json_t *config,
                             struct error *error)
{
    const bool has_bias = gguf_find_tensor(file, "blk.0.attn_qkv.bias");
    json_object_set_new(config, "qkv_is_plain", json_true());
    if (strcmp(architecture->name, "gptneox") == 0) {
        bool is_parallel = true;
        TRY(gguf_bool(file, "gptneox.use_parallel_residual", &is_parallel, error));
        json_object_set_new(config, "use_parallel_residual", json_boolean(is_parallel));
        json_object_set_new(config, "attention_bias", json_boolean(has_bias));
    }
    if (strcmp(architecture->name, "falcon") == 0)
        add_falcon(architecture, has_bias, config);
    return strcmp(architecture->name, "mpt") == 0 ? add_mpt(file, config, error) : STATUS_OK;
}

static enum status fill(const struct gguf_file *file, json_t *config, struct error *error)
{
    const struct gguf_architecture *architecture = NULL;
    TRY(gguf_architecture_find(file, &architecture, error));
    json_object_set_new(config, "architectures", json_pack("[s]", architecture->class));
    json_object_set_new(config, "model_type", json_string(architecture->model_type));
    TRY(refuse_scales(file, architecture, error));
    if (architecture->encoder_layers) {
        TRY(gguf_encoder_add(file, architecture, config, error));
        return gguf_token_ids_add(file, config, error);
    }
    TRY(add_numbers(file, architecture, config, error));
    if (architecture->is_unequal) {
        TRY(gguf_gemma4_add(file, config, error));
    } else {
        TRY(refuse_rest(file, architecture, config, error));
        if (architecture->is_recurrent)
            TRY(gguf_recurrent_add(file, architecture, config, error));
        TRY(add_scaling(file, architecture, config, error));
    }
    TRY(gguf_token_ids_add(file, config, error));
    if (architecture->qkv_is_plain)
        TRY(add_older(file, architecture, config, error));
    if (architecture->is_interleaved)
        json_object_set_new(config, "rope_interleaved", json_true());
    if (architecture->norms_are_whole)
        json_object_set_new(config, "norms_are_whole", json_true());
    if (architecture->experts_are_apart) {
        json_object_set_new(config, "experts_are_apart", json_true());
        json_object_set_new(config, "attention_bias", json_true());
        set_expert_size(file, config);
    }
    if (architecture->layers_of_wide_scale > 0)
        add_score_scale(architecture, config);
    if (architecture->has_layer_norm && gguf_find_tensor(file, "blk.0.attn_q_norm.weight"))
        json_object_set_new(config, "use_qk_norm", json_true()); /* Command R+ */
    if (number_in(config, "num_experts") > 0 && !architecture->is_unequal &&
        !architecture->has_no_mlp)
        json_object_set_new(config, "norm_topk_prob", json_true());
    if (strcmp(architecture->name, "llama") == 0 && gguf_find_tensor(file, "blk.0.attn_q.bias"))
        json_object_set_new(config, "attention_bias", json_true());
    json_object_set_new(config, "tie_word_embeddings",
                        json_boolean(!gguf_find_tensor(file, "output.weight")));
    return STATUS_OK;
}

enum status gguf_config_make(const struct gguf_file *file, json_t **config_out, struct error *error)
{
    json_t *config = json_object();
    enum status status = config ? fill(file, config, error) : STATUS_NO_MEMORY;
    if (status != STATUS_OK) {
        json_decref(config);
        return status;
    }
    *config_out = config;
    return STATUS_OK;
}
