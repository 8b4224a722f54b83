#include "kernels/backend/attention_layer.h"

#include "kernels/attention_features.h"
#include "kernels/backend/position_bias.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

enum status attention_check_heads(uint32_t n_heads, uint32_t n_kv_heads, uint32_t head_dim,
                                  struct error *error)
{
    if (n_heads == 0 || n_kv_heads == 0 || n_heads % n_kv_heads != 0)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "n_heads %u is no multiple of n_kv_heads %u", n_heads, n_kv_heads);
    if (head_dim == 0 || head_dim % 8 != 0 || head_dim > HEAD_DIM_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "head_dim is %u, must be a multiple of 8 up to %u", head_dim,
                         HEAD_DIM_MAX);
    return STATUS_OK;
}

enum status attention_check_choices(const struct listed_field *choices, size_t n,
                                    struct error *error)
{
    for (size_t i = 0; i < n; i++)
        if (choices[i].value > choices[i].last)
            return error_set(error, STATUS_INVALID_ARGUMENT, "%s is %u, expected 0 .. %u",
                             choices[i].field, choices[i].value, choices[i].last);
    return STATUS_OK;
}

static enum status check_shape(const struct attention_config *config, struct error *error)
{
    TRY(attention_check_heads(config->n_heads, config->n_kv_heads, config->head_dim, error));
    if (config->n_draft_max > DRAFT_TOKENS_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT, "n_draft_max is %u, at most %u",
                         config->n_draft_max, DRAFT_TOKENS_MAX);
    return STATUS_OK;
}

/* Checks every field with a value of an enum. */
static enum status check_choices(const struct attention_config *config, struct error *error)
{
    const struct listed_field choices[] = {
        {"compute dtype", config->compute, DTYPE_F16},
        {"cache dtype", config->cache, DTYPE_E4M3},
        {"qkv_bias dtype", config->qkv_bias ? config->qkv_bias_dtype : 0, DTYPE_F16},
        {"norm dtype", config->q_norm || config->k_norm ? config->norm_dtype : 0, DTYPE_F16},
        {"mask", config->mask, MASK_BIDIRECTIONAL},
        {"mask_input", config->mask_input, MASK_INPUT_FLOAT},
        {"keys", config->keys, KEYS_SHARD},
        {"path", config->path, PATH_FLASH},
        {"math", config->math, MATH_FP16},
        {"multi_block", config->multi_block, CHOICE_OFF},
        {"grouped", config->grouped, CHOICE_OFF},
    };
    return attention_check_choices(choices, sizeof choices / sizeof choices[0], error);
}

/* Every factor must be finite, and positive where it is used. */
static enum status check_factors(const struct attention_config *config, struct error *error)
{
    bool is_fp8 = config->math == MATH_FP8;
    bool has_scales = is_fp8 || dtype_is_8bit(config->cache);
    const struct {
        const char *field;
        float value;
        bool is_needed; /* 0 does not mean "none" */
    } factors[] = {
        {"q_scaling", config->q_scaling, false},
        {"scale", config->scale, false},
        {"soft_cap", config->soft_cap, false},
        {"alibi_scale", config->bias.alibi_scale, false},
        {"output_scale", config->output_scale, false},
        {"k_scale", has_scales ? config->k_scale : 0, has_scales},
        {"v_scale", has_scales ? config->v_scale : 0, has_scales},
        {"q_scale", is_fp8 ? config->q_scale : 0, is_fp8},
        {"norm_eps", config->norm_eps, config->q_norm || config->k_norm},
    };
    for (size_t i = 0; i < sizeof factors / sizeof factors[0]; i++) {
        float value = factors[i].value;
        if (!isfinite(value) || value < 0 || (factors[i].is_needed && value == 0))
            return error_set(error, STATUS_INVALID_ARGUMENT, "%s is %g, must be %s and finite",
                             factors[i].field, (double)value,
                             factors[i].is_needed ? "positive" : "0 or positive");
    }
    if (config->q_scaling != 0 && config->scale != 0)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "q_scaling %g and scale %g: give one of them", (double)config->q_scaling,
                         (double)config->scale);
    return STATUS_OK;
}

static enum status check_bias(const struct attention_bias *bias, struct error *error)
{
    if (bias->table && (bias->n_queries == 0 || bias->n_keys == 0))
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "bias.table has n_queries %u and n_keys %u: none may be 0",
                         bias->n_queries, bias->n_keys);
    if (!bias->buckets)
        return STATUS_OK;
    uint32_t unit = bias->is_bidirectional ? 4 : 2; /* an exact and a far bucket a direction */
    if (bias->n_buckets == 0 || bias->n_buckets % (unit / 2) != 0 || bias->n_buckets < unit)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "bias.n_buckets is %u, must be at least %u%s", bias->n_buckets, unit,
                         bias->is_bidirectional ? " and even" : "");
    if (bias->distance_max <= bias->n_buckets / unit)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "bias.distance_max is %u, must be over the %u distances that have a "
                         "bucket each",
                         bias->distance_max, bias->n_buckets / unit);
    return STATUS_OK;
}

static enum status check_window(const struct attention_config *config, struct error *error)
{
    if (config->is_cyclic && config->window == 0)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "is_cyclic with window 0: a cyclic cache has as many slots as the window");
    if (config->sink_tokens != 0 && config->sink_tokens >= config->window)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "sink_tokens is %u, must be under the window, %u", config->sink_tokens,
                         config->window);
    if (config->sink_tokens != 0 && config->rope && rope_depends_on_length(config->rope))
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "sink_tokens %u with a rope whose angles depend on the sequence's length: "
                         "K turns by its position inside the cache",
                         config->sink_tokens);
    return STATUS_OK;
}

static enum status check_mask(const struct attention_config *config, struct error *error)
{
    if (config->keys == KEYS_CROSS && config->mask != MASK_BIDIRECTIONAL)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "mask is %d with KEYS_CROSS, must be MASK_BIDIRECTIONAL: the encoder's "
                         "keys are neither before nor after a query",
                         (int)config->mask);
    if (config->window != 0 && config->keys != KEYS_CROSS && config->mask != MASK_CAUSAL)
        return error_set(
            error, STATUS_INVALID_ARGUMENT,
            "mask is %d with window %u, must be MASK_CAUSAL: a window counts back from the query",
            (int)config->mask, config->window);
    if (config->n_draft_max > 1 && config->keys != KEYS_CROSS && config->mask != MASK_CAUSAL)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "mask is %d with n_draft_max %u, must be MASK_CAUSAL: draft tokens follow "
                         "one another or their tree",
                         (int)config->mask, config->n_draft_max);
    if (config->reuses_prefix && config->keys == KEYS_SELF && config->mask == MASK_BIDIRECTIONAL)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "mask is %d with reuses_prefix, must not be MASK_BIDIRECTIONAL: the KV of "
                         "a prefix would depend on the tokens behind it",
                         (int)config->mask);
    return STATUS_OK;
}

static enum status check_config(const struct attention_config *config, struct error *error)
{
    TRY(check_shape(config, error));
    TRY(check_choices(config, error));
    TRY(check_factors(config, error));
    TRY(check_bias(&config->bias, error));
    if (config->rope && rope_head_dim(config->rope) != config->head_dim)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "the rope is of head_dim %u, head_dim is %u", rope_head_dim(config->rope),
                         config->head_dim);
    TRY(attention_features_check(config, ATTENTION_FEATURES_ALL, error));
    TRY(check_window(config, error));
    return check_mask(config, error);
}

/* Copies n elements from first on, as float32. NULL stays NULL. */
static enum status copy_floats(const void *array, enum dtype dtype, size_t first, size_t n,
                               float **copy_out)
{
    if (!array)
        return STATUS_OK;
    assert(n > 0 && dtype <= DTYPE_F16);
    float *copy = malloc(n * sizeof *copy);
    if (!copy)
        return STATUS_NO_MEMORY;
    for (size_t i = 0; i < n; i++)
        copy[i] = dtype_load(dtype, array, first + i);
    *copy_out = copy;
    return STATUS_OK;
}

static enum status copy_slopes(const struct attention_config *config, float **slopes_out)
{
    if (config->bias.alibi_scale == 0)
        return STATUS_OK;
    float *slopes = malloc(config->n_heads * sizeof *slopes);
    if (!slopes)
        return STATUS_NO_MEMORY;
    alibi_slopes(config->n_heads, slopes);
    for (uint32_t head = 0; head < config->n_heads; head++)
        slopes[head] *= config->bias.alibi_scale;
    *slopes_out = slopes;
    return STATUS_OK;
}

/* Copies the arrays that are weights of the model. */
static enum status copy_weights(const struct attention_config *config,
                                struct attention_layer *layer)
{
    size_t n = config->head_dim;
    size_t n_q = config->n_heads * n, n_kv = config->n_kv_heads * n;
    TRY(copy_floats(config->q_norm, config->norm_dtype, 0, n, &layer->q_norm));
    TRY(copy_floats(config->k_norm, config->norm_dtype, 0, n, &layer->k_norm));
    const void *bias = config->qkv_bias;
    enum dtype dtype = config->qkv_bias_dtype;
    TRY(copy_floats(bias, dtype, 0, n_q, &layer->q_bias));
    TRY(copy_floats(bias, dtype, n_q, n_kv, &layer->k_bias));
    return copy_floats(bias, dtype, n_q + n_kv, n_kv, &layer->v_bias);
}

/* Copies the arrays that are always in the host's memory. */
static enum status copy_tables(const struct attention_config *config, struct attention_layer *layer)
{
    TRY(copy_floats(config->sinks, DTYPE_F32, 0, config->n_heads, &layer->sinks));
    return copy_slopes(config, &layer->slopes);
}

static enum status init(const struct attention_config *config, bool reads_weights,
                        struct attention_layer *layer_out, struct error *error)
{
    TRY(check_config(config, error));
    double q_scaling = config->q_scaling != 0 ? (double)config->q_scaling : 1;
    struct attention_layer layer = {
        .config = *config,
        .group = config->n_heads / config->n_kv_heads,
        .scale = config->scale != 0 ? config->scale
                                    : (float)(1 / (q_scaling * sqrt(config->head_dim))),
        .n_rotary = config->rope ? rope_rotary_dim(config->rope) : 0,
        .is_interleaved = config->rope && rope_is_interleaved(config->rope),
    };
    assert(layer.group > 0 && layer.n_rotary <= config->head_dim);
    enum status status = copy_tables(config, &layer);
    if (status == STATUS_OK && reads_weights)
        status = copy_weights(config, &layer);
    if (status != STATUS_OK) {
        attention_layer_finish(&layer);
        return attention_layer_no_memory(config, error);
    }
    *layer_out = layer;
    return STATUS_OK;
}

enum status attention_layer_init(const struct attention_config *config,
                                 struct attention_layer *layer_out, struct error *error)
{
    return init(config, true, layer_out, error);
}

enum status attention_layer_init_device(const struct attention_config *config,
                                        struct attention_layer *layer_out, struct error *error)
{
    return init(config, false, layer_out, error);
}

enum status attention_layer_no_memory(const struct attention_config *config, struct error *error)
{
    return error_set(error, STATUS_NO_MEMORY,
                     "no memory for a layer of n_heads %u, n_kv_heads %u, head_dim %u",
                     config->n_heads, config->n_kv_heads, config->head_dim);
}

void attention_layer_finish(struct attention_layer *layer)
{
    free(layer->slopes);
    free(layer->sinks);
    free(layer->q_bias);
    free(layer->k_bias);
    free(layer->v_bias);
    free(layer->q_norm);
    free(layer->k_norm);
    *layer = (struct attention_layer){0};
}

struct attention {
    struct attention_layer layer;
};

enum status bare_attention_create(const struct attention_config *config, struct thread_pool *pool,
                                  struct attention **attention_out, struct error *error)
{
    (void)pool;
    struct attention *attention = calloc(1, sizeof *attention);
    if (!attention)
        return attention_layer_no_memory(config, error);
    enum status status = attention_layer_init(config, &attention->layer, error);
    if (status != STATUS_OK) {
        free(attention);
        return status;
    }
    *attention_out = attention;
    return STATUS_OK;
}

void bare_attention_destroy(struct attention *attention)
{
    if (!attention)
        return;
    attention_layer_finish(&attention->layer);
    free(attention);
}

const struct attention_layer *bare_attention_layer(const struct attention *attention)
{
    return &attention->layer;
}
