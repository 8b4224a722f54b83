#include "model/adapter/adapter_config.h"
#include "model/config/kv_layers.h"
#include "model/forward/forward_parts.h"
#include "model/weights/kv_scales.h"
#include "model/weights/weight_types.h"

#define TOKENS_MAX_MAX (1u << 20)

static const char *const PATHS[] = {"auto", "unfused", "short", "flash"};

static enum status check_range(const char *name, uint32_t value, uint32_t max, struct error *error)
{
    if (value >= 1 && value <= max)
        return STATUS_OK;
    return error_set(error, STATUS_INVALID_ARGUMENT, "%s is %u, expected 1 .. %u", name, value,
                     max);
}

static enum status check_options(const struct forward_options *options, struct error *error)
{
    uint32_t block_tokens = options->block_tokens;
    if (block_tokens < BLOCK_TOKENS_MIN || block_tokens > BLOCK_TOKENS_MAX ||
        (block_tokens & (block_tokens - 1)) != 0)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "block_tokens is %u, expected a power of two, %u .. %u", block_tokens,
                         BLOCK_TOKENS_MIN, BLOCK_TOKENS_MAX);
    if ((unsigned)options->cache_dtype > CACHE_E4M3)
        return error_set(error, STATUS_INVALID_ARGUMENT, "cache_dtype %d is none",
                         (int)options->cache_dtype);
    if ((unsigned)options->context_math >= CONTEXT_MATHS)
        return error_set(error, STATUS_INVALID_ARGUMENT, "context_math %d is none",
                         (int)options->context_math);
    if ((unsigned)options->block_activations > BLOCK_ACTIVATIONS_INT8)
        return error_set(error, STATUS_INVALID_ARGUMENT, "block_activations %d is none",
                         (int)options->block_activations);
    TRY(check_range("tokens_max", options->tokens_max, TOKENS_MAX_MAX, error));
    TRY(check_range("sequences_max", options->sequences_max, TOKENS_MAX_MAX, error));
    if (options->adapter_rank_max > ADAPTER_RANK_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT, "adapter_rank_max is %u, expected 0 .. %u",
                         options->adapter_rank_max, ADAPTER_RANK_MAX);
    return check_range("blocks_max", options->blocks_max, UINT32_MAX, error);
}

static enum status check_path(const struct forward_options *options, uint32_t kv_tokens,
                              struct error *error)
{
    if (options->attention.path != PATH_SHORT || kv_tokens <= PATH_SHORT_KEYS)
        return STATUS_OK;
    return error_set(error, STATUS_INVALID_ARGUMENT,
                     "attention_path is short, which takes contexts of up to %u tokens, not of %u: "
                     "lower max_context_tokens, or take unfused",
                     PATH_SHORT_KEYS, kv_tokens);
}

static enum status check_tiles(const struct forward_options *options, struct error *error)
{
    if (!context_math_is_int8(options->context_math))
        return STATUS_OK;
    if (forward_stores_scores(&options->attention))
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "attention_math is %s, and attention_path is %s, which stores scores: "
                         "expected auto or flash",
                         context_math_name(options->context_math), PATHS[options->attention.path]);
    if (options->block_tokens % MATH_INT8_KEYS == 0)
        return STATUS_OK;
    return error_set(error, STATUS_INVALID_ARGUMENT,
                     "attention_math is %s, which rounds K of %u tokens together, with "
                     "kv_block_tokens %u: expected 64 or 128",
                     context_math_name(options->context_math), MATH_INT8_KEYS,
                     options->block_tokens);
}

static enum status check_scales(const struct model *model, const struct forward_options *options,
                                struct error *error)
{
    const uint32_t n_layers = kv_layers_count(model_get_config(model));
    const uint32_t n_known = options->kv_scales ? options->kv_scales->n_layers : 0;
    if (!dtype_is_8bit(forward_cache_dtype(options->cache_dtype)) || n_known == n_layers)
        return STATUS_OK;
    return error_set(error, STATUS_INVALID_ARGUMENT,
                     "kv_scales has %u layers with cache_dtype %s, the model has %u with K and V",
                     n_known, dtype_name(forward_cache_dtype(options->cache_dtype)), n_layers);
}

/* An option that changes nothing would have a numerics id that fits no other worker. */
static enum status check_blocks(const struct model *model, enum block_activations activations,
                                struct error *error)
{
    const struct model_config *config = model_get_config(model);
    struct weight_counts counts;
    if (activations == BLOCK_ACTIVATIONS_INT16)
        return STATUS_OK;
    weight_types_count(model_weights(model), config->n_layers, config->experts.routing.n_experts,
                       config->experts.routing.top_k, &counts);
    for (enum dtype dtype = DTYPE_Q8_0; dtype <= DTYPE_LAST; dtype++)
        if (counts.bytes[dtype] > 0)
            return STATUS_OK;
    return error_set(
        error, STATUS_INVALID_ARGUMENT,
        "block_activations is int8, but the model has no weights in blocks: expected int16, "
        "or weights q8 or q4");
}

enum status forward_check_switches(const struct attention_switches *switches, const char *why,
                                   struct error *error)
{
    static const char *const CHOICES[] = {"auto", "on", "off"};
    const char *what = NULL, *value = "";
    if (forward_stores_scores(switches))
        what = "attention_path", value = PATHS[switches->path];
    else if (switches->multi_block != CHOICE_AUTO)
        what = "multi_block", value = CHOICES[switches->multi_block];
    else if (switches->grouped != CHOICE_AUTO)
        what = "grouped_query", value = CHOICES[switches->grouped];
    if (!what)
        return STATUS_OK;
    return error_set(error, STATUS_UNSUPPORTED,
                     "%s is %s, but %s, which is computed in one way: expected auto", what, value,
                     why);
}

/* Layers whose heads differ are in different groups. */
static enum status check_groups(const struct model_config *config,
                                const struct cache_groups *groups, struct error *error)
{
    if ((config->wide_head_dim > 0) == cache_groups_have_heads(groups))
        return STATUS_OK;
    return error_set(error, STATUS_INVALID_ARGUMENT,
                     "groups of layers %s separate heads, but the model's layers %s",
                     cache_groups_have_heads(groups) ? "have" : "do not have",
                     config->wide_head_dim > 0 ? "differ in theirs" : "are alike");
}

enum status forward_check_options(const struct model *model, const struct forward_options *options,
                                  struct error *error)
{
    const uint32_t kv_tokens = forward_kv_tokens_max(model_get_config(model), options);
    TRY(check_options(options, error));
    TRY(check_tiles(options, error));
    TRY(check_blocks(model, options->block_activations, error));
    TRY(check_scales(model, options, error));
    TRY(forward_check_encoder(model_get_config(model), options, error));
    TRY(check_groups(model_get_config(model), &options->groups, error));
    TRY(forward_check_sinks(model_get_config(model), options, kv_tokens, error));
    return check_path(options, kv_tokens, error);
}
