#include "base/log/log.h"
#include "kernels/cuda/sampling_parameters.h"
#include "model/config/encoder_config.h"
#include "model/config/kv_layers.h"
#include "model/config/layer_shape.h"
#include "model/forward/forward_parts.h"
#include "model/kernel_choice.h"
#include "model/weights/kv_scales.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

enum dtype forward_cache_dtype(enum cache_dtype dtype)
{
    switch (dtype) {
    case CACHE_BF16:
        return DTYPE_BF16;
    case CACHE_F16:
        return DTYPE_F16;
    case CACHE_INT8:
        return DTYPE_INT8;
    case CACHE_E4M3:
        return DTYPE_E4M3;
    case CACHE_F32:
        break;
    }
    return DTYPE_F32;
}

static enum attention_math to_math(enum context_math math)
{
    static const enum attention_math maths[CONTEXT_MATHS] = {
        MATH_COMPUTE, MATH_BF16, MATH_FP16, MATH_FP8, MATH_INT8, MATH_INT8_PV_FP8};
    return maths[math];
}

const char *context_math_name(enum context_math math)
{
    static const char *const names[CONTEXT_MATHS] = {"compute", "bf16", "fp16",
                                                     "fp8",     "int8", "int8-pv-fp8"};
    assert((unsigned)math < CONTEXT_MATHS);
    return names[math];
}

size_t forward_block_bytes(const struct model_config *config, uint32_t block_tokens,
                           enum cache_dtype dtype)
{
    const struct cache_shape shape = model_cache_shape(config);
    size_t n = (size_t)kv_layers_count(config) * shape.n_heads * shape.dim;
    if (config->wide_head_dim > 0) {
        n = 0;
        for (uint32_t layer = 0; layer < config->n_layers; layer++)
            if (layer_has_kv(config, layer))
                n += (size_t)layer_kv_heads(config, layer) * layer_head_dim(config, layer);
    }
    return (shape.latent_dim > 0 ? 1 : 2) * n * block_tokens *
           dtype_bytes(forward_cache_dtype(dtype));
}

size_t forward_group_bytes(const struct model_config *config, const struct cache_groups *groups,
                           uint32_t block_tokens, enum cache_dtype dtype)
{
    const size_t of_all = forward_block_bytes(config, block_tokens, dtype);
    if (cache_groups_have_heads(groups))
        return 2 * cache_groups_unit(groups) * groups->places * block_tokens *
               dtype_bytes(forward_cache_dtype(dtype));
    return groups->n > 0 ? of_all / kv_layers_count(config) * groups->places : of_all;
}

uint32_t forward_kv_tokens_max(const struct model_config *config,
                               const struct forward_options *options)
{
    uint64_t tokens = (uint64_t)options->blocks_max * options->block_tokens;
    return tokens < config->context_tokens ? (uint32_t)tokens : config->context_tokens;
}

/* The layer's table, as the operator reads it. */
static struct attention_bias relative_bias(const struct forward *forward, uint32_t layer)
{
    const struct relative_bias *relative = &forward->config->decoder.relative;
    const size_t n = (size_t)forward->config->n_heads * relative->n_buckets;
    return (struct attention_bias){
        .buckets = forward->relative_bias + (relative->is_in_each_layer ? layer * n : 0),
        .n_buckets = relative->n_buckets,
        .distance_max = relative->distance_max,
        .is_bidirectional = forward->config->decoder.is_encoder,
    };
}

/* Attention over latents is computed in one way. */
static enum status check_latents(const struct forward_options *options, struct error *error)
{
    if (options->context_math != CONTEXT_MATH_COMPUTE)
        return error_set(error, STATUS_UNSUPPORTED,
                         "attention_math is %s, but attention is over latents: expected compute",
                         context_math_name(options->context_math));
    return forward_check_switches(&options->attention, "attention is over latents", error);
}

/* A chunk that begins behind a part of a tile would round the rest of it in another way. */
static enum status check_window(const struct forward *forward, uint32_t window, struct error *error)
{
    const enum context_math math = forward->options.context_math;
    if (!context_math_is_int8(math) || window == 0 || window >= forward->kv_tokens_max)
        return STATUS_OK;
    return error_set(error, STATUS_UNSUPPORTED,
                     "attention_math is %s, but the window of a layer is %u of up to %u tokens: "
                     "its bits would depend on chunks; expected compute, bf16, fp16 or fp8",
                     context_math_name(math), window, forward->kv_tokens_max);
}

struct attention_config forward_shape_of(const struct forward *forward, uint32_t layer)
{
    struct attention_config shape = forward->shape;
    shape.head_dim = layer_head_dim(forward->config, layer);
    shape.n_kv_heads = layer_kv_heads(forward->config, layer);
    return shape;
}

void forward_scale_cache(const struct forward *forward, uint32_t number,
                         struct attention_config *attention)
{
    const struct kv_scales *scales = forward->options.kv_scales;
    if (!dtype_is_8bit(attention->cache))
        return;
    attention->k_scale = kv_scales_of(scales, attention->cache, number, KV_PART_K);
    attention->v_scale = kv_scales_of(scales, attention->cache, number, KV_PART_V);
}

enum status forward_create_attention(struct forward *forward, uint32_t layer, struct error *error)
{
    const struct model_config *config = forward->config;
    const struct layer_weights *weights = &forward->weights->layers[layer];
    if (config->decoder.latent.dim > 0) {
        TRY(check_latents(&forward->options, error));
        return forward_latent_create(forward, error);
    }
    assert(!weights->k_norm.data ||
           weights->q_norm.dtype == weights->k_norm.dtype); /* model_load has checked */
    struct attention_config attention = forward_shape_of(forward, layer);
    const uint32_t number = kv_layers_before(config, layer_kv_source(config, layer));
    struct kv_layers layers;
    kv_layers_describe(config, &layers);
    const struct cache_place place = cache_groups_place(&forward->options.groups, &layers.layers,
                                                        number);
    attention.layer_index = place.index;
    attention.table = place.group;
    attention.window = config->windows[layer];
    TRY(check_window(forward, attention.window, error));
    if (forward->options.sinks.window >
        0) { /* forward_describe has checked that it has no own window */
        attention.window = forward->options.sinks.window;
        attention.sink_tokens = forward->options.sinks.sinks;
    }
    forward_scale_cache(forward, number, &attention);
    if (forward->relative_bias)
        attention.bias = relative_bias(forward, layer);
    attention.rope = config->layer_ropes[layer] == ROPE_ABSENT  ? NULL
                     : config->layer_ropes[layer] == ROPE_LOCAL ? forward->rope_local
                                                                : forward->rope;
    if (config->decoder.qk_norm == QK_NORM_HEAD) {
        attention.q_norm = weights->q_norm.data;
        attention.k_norm = weights->k_norm.data;
        attention.norm_dtype = weights->q_norm.dtype;
    }
    float sinks[HEADS_MAX];
    for (uint32_t head = 0; config->has_sinks && head < config->n_heads; head++)
        sinks[head] = dtype_load(weights->sinks.dtype, weights->sinks.data, head);
    if (config->has_sinks)
        attention.sinks = sinks; /* copied */
    return forward->backend->create(&attention, forward->threads, &forward->attention[layer],
                                    error);
}

/* Layers that a block has room for. */
static uint32_t n_places(const struct forward *forward)
{
    const struct cache_groups *groups = &forward->options.groups;
    return groups->n > 0 ? groups->places : kv_layers_count(forward->config);
}

static size_t block_bytes(const struct forward *forward)
{
    const struct forward_options *options = &forward->options;
    return forward_group_bytes(forward->config, &options->groups, options->block_tokens,
                               options->cache_dtype);
}

/* Of wide layers or of the others, which have their places at the same addresses. */
static struct kv_view view_of_heads(const struct forward *forward, void *base, uint32_t n_blocks,
                                    uint32_t n_kv_heads, uint32_t head_dim)
{
    const struct forward_options *options = &forward->options;
    const struct cache_groups *groups = &options->groups;
    const uint64_t unit = cache_groups_have_heads(groups) ? cache_groups_unit(groups)
                                                          : (uint64_t)n_kv_heads * head_dim;
    struct kv_view view = kv_view_dense(
        base, n_blocks, (uint32_t)(n_places(forward) / ((uint64_t)n_kv_heads * head_dim / unit)),
        n_kv_heads, options->block_tokens, head_dim, forward_cache_dtype(options->cache_dtype));
    view.block_stride = block_bytes(forward);
    return view;
}

/* Views n_blocks at base; 0 before a pool is attached. */
static void set_views(struct forward *forward, void *base, uint32_t n_blocks)
{
    const struct model_config *config = forward->config;
    if (forward->latent) {
        forward->kv = forward_latent_view(forward, base, n_blocks, n_places(forward));
        return;
    }
    forward->kv = view_of_heads(forward, base, n_blocks, config->n_kv_heads, config->head_dim);
    if (config->wide_head_dim > 0)
        forward->wide_kv = view_of_heads(forward, base, n_blocks, config->wide_kv_heads,
                                         config->wide_head_dim);
}

static bool has_rope(const struct model_config *config, enum layer_rope rope)
{
    for (uint32_t layer = 0; layer < config->n_layers; layer++)
        if (config->layer_ropes[layer] == rope)
            return true;
    return false;
}

/* Only the rotations that a layer has. */
static enum status create_ropes(struct forward *forward, struct error *error)
{
    const struct model_config *config = forward->config;
    struct rope_config rope = config->rope;
    rope.short_factors = rope.long_factors = config->rope_factors.is_long
                                                 ? config->rope_factors.long_ones
                                                 : config->rope_factors.short_ones;
    if (has_rope(config, ROPE_MAIN))
        TRY(rope_create(&rope, &forward->rope, error));
    return has_rope(config, ROPE_LOCAL)
               ? rope_create(&config->rope_local, &forward->rope_local, error)
               : STATUS_OK;
}

/* Tables of the files are [n_buckets][n_heads]. */
static enum status create_relative_bias(struct forward *forward, struct error *error)
{
    const struct model_config *config = forward->config;
    const struct relative_bias *relative = &config->decoder.relative;
    const uint32_t n_tables = relative->is_in_each_layer ? config->n_layers : 1;
    if (relative->n_buckets == 0)
        return STATUS_OK;
    float *to = calloc((size_t)n_tables * config->n_heads * relative->n_buckets, sizeof *to);
    forward->relative_bias = to;
    if (!to)
        return error_set(error, STATUS_NO_MEMORY, "no memory for the forward pass");
    for (uint32_t layer = 0; layer < n_tables; layer++) {
        const struct tensor *table = &forward->weights->layers[layer].relative_bias;
        for (uint32_t head = 0; head < config->n_heads; head++)
            for (uint32_t bucket = 0; bucket < relative->n_buckets; bucket++)
                *to++ = dtype_load(table->dtype, table->data,
                                   (size_t)bucket * config->n_heads + head);
    }
    return STATUS_OK;
}

enum status forward_describe_attention(struct forward *forward, struct error *error)
{
    const struct model_config *config = forward->config;
    const struct forward_options *options = &forward->options;
    const bool is_fp8 = options->context_math == CONTEXT_MATH_FP8;
    TRY(create_ropes(forward, error));
    TRY(create_relative_bias(forward, error));
    forward->shape = (struct attention_config){
        .n_heads = config->n_heads,
        .n_kv_heads = config->n_kv_heads,
        .head_dim = config->head_dim,
        .compute = forward->dtype,
        .cache = forward_cache_dtype(options->cache_dtype),
        .q_scale = is_fp8 ? 1 : 0,
        .k_scale = is_fp8 ? 1 : 0,
        .v_scale = is_fp8 ? 1 : 0,
        .mask = config->decoder.is_encoder ? MASK_BIDIRECTIONAL : MASK_CAUSAL,
        .reuses_prefix = !config->decoder.is_encoder,
        .scale = config->decoder.attention_scale,
        .soft_cap = config->decoder.attention_cap,
        .bias = {.alibi_scale = config->decoder.alibi_scale},
        .norm_eps = config->norm_eps,
        .math = to_math(options->context_math),
        .path = options->attention.path,
        .multi_block = options->attention.multi_block,
        .grouped = options->attention.grouped,
    };
    forward->attention = calloc(config->n_layers, sizeof *forward->attention);
    if (!forward->attention)
        return error_set(error, STATUS_NO_MEMORY, "no memory for the forward pass");
    return STATUS_OK;
}

static enum status create_operators(struct forward *forward, struct error *error)
{
    const struct model_config *config = forward->config;
    const struct forward_options *options = &forward->options;
    TRY(forward_describe_attention(forward, error));
    TRY(forward_create_experts(forward, error));
    TRY(forward_create_recurrent(forward, error));
    for (uint32_t layer = 0; layer < config->n_layers; layer++)
        if (!config->is_recurrent[layer])
            TRY(forward_create_attention(forward, layer, error));
    if (forward->latent)
        TRY(forward_latent_lay_out(forward, error));

    struct attention_limits limits = {
        .n_sequences_max = options->sequences_max,
        .n_tokens_max = options->tokens_max,
        .kv_len_max = forward->kv_tokens_max,
        .n_heads = config->n_heads,
        .n_kv_heads = config->n_kv_heads,
        .head_dim = config->head_dim,
        .cache = forward_cache_dtype(options->cache_dtype),
        .mask = MASK_CAUSAL,
        .block_tokens_min = options->block_tokens,
        .n_tables = cache_groups_count(&options->groups),
        .window = options->sinks.window,
        .sink_tokens = options->sinks.sinks,
        .has_short_path = options->attention.path == PATH_SHORT,
        .has_multi_block = options->attention.multi_block == CHOICE_ON,
        .ropes = {forward->rope ? forward->rope : forward->rope_local,
                  forward->rope ? forward->rope_local : NULL},
    };
    set_views(forward, NULL, 0);
    TRY(forward_layouts_create(forward, &limits, error));
    return forward->encoder ? forward_encoder_create(forward, error) : STATUS_OK;
}

enum status forward_describe(const struct model *model, const struct forward_options *options,
                             struct error *error, struct forward *forward_out)
{
    TRY(forward_check_options(model, options, error));
    *forward_out = forward_stack_of(model_get_config(model), model_kernels(model), options);
    forward_out->weights = model_weights(model);
    forward_out->threads = options->threads;
    forward_out->kernels = model_kernels(model);
    forward_out->backend = model_attention(model);
    return STATUS_OK;
}

enum status forward_create(const struct model *model, const struct forward_options *options,
                           struct error *error, struct forward **forward_out)
{
    struct forward *forward = calloc(1, sizeof *forward);
    if (!forward)
        return error_set(error, STATUS_NO_MEMORY, "no memory for the forward pass");
    enum status status = forward_describe(model, options, error, forward);
    if (status != STATUS_OK)
        goto fail;
    device_bind(options->device);

    assert(model_device(model) == options->device ||
           (!model_device(model) && device_reads_host(options->device)));
    if (model_has_encoder(forward->config))
        status = forward_encoder_begin(forward, error);
    if (status == STATUS_OK)
        status = forward_create_memory(forward, error);
    if (status == STATUS_OK)
        status = forward_create_adapters(forward);
    if (status == STATUS_OK)
        status = create_operators(forward, error);
    if (status != STATUS_OK)
        goto fail;
    *forward_out = forward;
    return STATUS_OK;

fail:
    forward_destroy(forward);
    return status;
}

void forward_destroy(struct forward *forward)
{
    if (!forward)
        return;
    device_bind(forward->options.device);
    if (forward->kernels) {
        forward_layouts_destroy(forward);
        for (uint32_t i = 0; forward->attention && i < forward->config->n_layers; i++)
            forward->backend->destroy(forward->attention[i]);
    }
    free(forward->attention);
    free(forward->relative_bias);
    forward_encoder_destroy(forward);
    forward_latent_destroy(forward);
    forward_destroy_recurrent(forward);
    forward_destroy_adapters(forward);
    moe_destroy(forward->moe);
    free(forward->layer_experts);
    rope_destroy(forward->rope);
    rope_destroy(forward->rope_local);
    free(forward->sequences);
    free(forward->tables);
    device_free(forward->options.device, &forward->activations);
    device_bind(NULL);
    free(forward);
}

static enum status capture_all(struct forward *forward, struct error *error)
{
    const struct device *device = forward->options.device;
    const uint64_t before = device_bytes(device, DEVICE_WORKSPACE);
    TRY(forward_capture(forward, STAGE_ARENAS, error));
    if (device_captures(device) && forward->n_layouts > 1)
        log_info("%s: %u graphs of steps that generate, %" PRIu64 " bytes", device_name(device),
                 (forward->n_layouts - 1) * STAGE_ARENAS,
                 device_bytes(device, DEVICE_WORKSPACE) - before);
    return STATUS_OK;
}

enum status forward_attach(struct forward *forward, const struct block_pool *pool,
                           struct error *error)
{
    assert(!forward->kv.base && "once");
    if (block_pool_block_bytes(pool) != block_bytes(forward))
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "the pool's blocks have %zu bytes, this model's have %zu",
                         block_pool_block_bytes(pool), block_bytes(forward));
    TRY(forward_attach_recurrent(forward, pool, error));
    set_views(forward, block_pool_base(pool), block_pool_size(pool));
    return capture_all(forward, error);
}

const struct forward_options *forward_get_options(const struct forward *forward)
{
    return &forward->options;
}

uint32_t forward_vocabulary(const struct forward *forward)
{
    return forward->config->vocabulary;
}

enum status forward_measure_graphs(struct forward *forward, struct error *error)
{
    struct device *device = forward->options.device;
    const uint64_t before = device_bytes(device, DEVICE_WORKSPACE);
    assert(!forward->kv.base && "behind attach they are there");
    set_views(forward, forward->activations.base, 1); /* never read: nothing runs */
    enum status status = forward_capture(forward, 1, error);
    set_views(forward, NULL, 0);
    forward->graph_bytes = (device_bytes(device, DEVICE_WORKSPACE) - before) * STAGE_ARENAS;
    forward_drop_graphs(forward);
    return status;
}

uint64_t forward_graph_bytes(const struct forward *forward)
{
    return forward->graph_bytes;
}

const char *forward_choices_differ_by(enum context_math math,
                                      const struct attention_switches *switches)
{
    if (math != CONTEXT_MATH_COMPUTE)
        return "any attention_math but compute";
    return forward_stores_scores(switches) ? "attention_path unfused or short" : NULL;
}

const char *forward_phases_differ_by(const struct forward *forward)
{
    const char *chosen = forward_choices_differ_by(forward->options.context_math,
                                                   &forward->options.attention);
    if (chosen)
        return chosen;
    if (forward->options.sinks.window > 0)
        return "sink_tokens";
    if (kernel_choice_is_fast(forward->kernels))
        return "device_math fast, whose sums depend on how many tokens a step has";
    return (forward->rope && rope_depends_on_length(forward->rope)) ||
                   (forward->rope_local && rope_depends_on_length(forward->rope_local))
               ? "rotation that depends on the prompt's length, as this model's"
               : NULL;
}

bool forward_phases_agree(const struct forward *forward)
{
    return !forward_phases_differ_by(forward);
}
