#include "cli/eval/eval_model.h"

#include "device/device.h"
#include "kvcache/block_table.h"
#include "model/adapter/adapter.h"
#include "model/config/encoder_config.h"
#include "model/config/kv_layers.h"
#include "model/model.h"
#include "worker_common/worker.h"
#include "worker_common/worker_device.h"
#include "worker_common/worker_forward.h"
#include "worker_common/worker_kv_scales.h"
#include "worker_common/worker_sinks.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_TOKENS 16 /* a worker's default */

struct eval_model {
    struct model *model;
    struct adapter *adapter; /* NULL: none */
    struct device *device;
    struct geometry geometry;
    struct kv_scales kv_scales;
    struct forward *forward;
    struct device_memory memory; /* of the pool, on a device with its own */
    struct block_pool *pool;
    block_id *
        blocks; /* [n_groups][n_blocks] of the one sequence, then its state's; held once they are there */
    uint32_t n_blocks;
    bool holds_blocks;
    const block_id *cross_blocks; /* [n_blocks] of these: of the encoder's text, if there is one */
    uint32_t n_text;
    uint32_t *shifted;        /* [n_text] tokens of the decoder behind an encoder */
    struct block_table table; /* with sinks: in place of blocks */
    bool streams;             /* the last step was of a reply: its rows are logits already */
    float *logits;            /* [EVAL_ROWS_MAX][vocabulary] */
};

static bool has_encoder(const struct eval_model *model)
{
    return model_has_encoder(model_get_config(model->model));
}

/* Blocks of all groups, and of the state. */
static uint32_t n_blocks_of_all(const struct eval_model *model)
{
    return (cache_groups_count(&model->geometry.groups) + has_encoder(model)) * model->n_blocks +
           model->geometry.groups.n_state;
}

static enum status open_pool(struct eval_model *model)
{
    const size_t block_bytes = geometry_block_bytes(&model->geometry);
    const uint32_t n_blocks = n_blocks_of_all(model);

    if (device_reads_host(model->device)) {
        TRY(block_pool_create(n_blocks, block_bytes, &model->pool));
    } else {
        TRY(device_allocate(model->device, DEVICE_KV, n_blocks * block_bytes, &model->memory));
        TRY(block_pool_create_in(model->memory.base, n_blocks, block_bytes, &model->pool));
    }
    if (model->geometry.sinks.window > 0)
        return block_table_init(&model->table, model->pool, NULL, &model->geometry,
                                model->n_blocks);
    TRY(block_pool_acquire(model->pool, n_blocks, model->blocks));
    model->holds_blocks = true;
    return STATUS_OK;
}

/* Of the cache. */
static uint32_t context_tokens(const struct eval_model *model,
                               const struct eval_model_options *options)
{
    const uint32_t most = model_get_config(model->model)->context_tokens;
    return options->window_tokens < most ? options->window_tokens : most;
}

static enum status open_forward(struct eval_model *model, const struct eval_model_options *options,
                                struct thread_pool *threads, struct error *error)
{
    const uint32_t context = context_tokens(model, options);
    const bool is_whole = has_encoder(model) && context > EVAL_CHUNK_TOKENS;
    const struct worker_step step = {
        .tokens_max = is_whole ? context : EVAL_CHUNK_TOKENS,
        .sequences_max = EVAL_ROWS_MAX,
        .context_tokens = context,
        .kv_scales = &model->kv_scales,
        .context_math = options->attention_math,
        .block_activations = options->block_activations,
        .attention = options->attention,
        .adapter_rank_max = model->adapter ? adapter_rank(model->adapter) : 0,
        .threads = threads,
        .device = model->device};
    model->n_blocks = geometry_spans(&model->geometry,
                                     step.context_tokens); /* no group has a window */
    model->blocks = calloc(n_blocks_of_all(model), sizeof *model->blocks);
    model->logits = calloc((size_t)EVAL_ROWS_MAX * model_get_config(model->model)->vocabulary,
                           sizeof *model->logits);
    model->cross_blocks = model->blocks + model->n_blocks;
    model->shifted = calloc(context, sizeof *model->shifted);
    if (!model->blocks || !model->logits || !model->shifted)
        return STATUS_NO_MEMORY;
    TRY(worker_forward_create(model->model, &model->geometry, &step, error, &model->forward));
    TRY(forward_plan_products(model->forward, error));
    TRY(open_pool(model));
    return forward_attach(model->forward, model->pool, error);
}

static enum status open_all(struct eval_model *model, const char *folder,
                            const struct eval_model_options *options, struct thread_pool *threads,
                            struct error *error)
{
    const struct model_options load = {
        .weights = options->weights,
        .context_tokens = options->sink_tokens > 0 ? 0 : options->window_tokens,
        .attention_window = worker_model_window(options->sink_tokens, options->attention_window),
        .force_window = options->force_window,
        .cpu_kernels = options->cpu_kernels,
        .attention_kernels = options->attention_kernels,
        .threads = threads,
        .device = model->device};
    TRY(model_load(folder, &load, error, &model->model));
    if (!options->takes_encoder)
        TRY(encoder_refuse(model_get_config(model->model), "eval", error));
    if (options->adapter && options->adapter[0])
        TRY(adapter_load(options->adapter, model->model, NULL, error, &model->adapter));
    const uint32_t context = model_get_config(model->model)->context_tokens;
    if (options->window_tokens > context && options->sink_tokens == 0)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "window_tokens is %u, the context of %.200s has %u tokens",
                         options->window_tokens, folder, context);
    TRY(worker_kv_scales_find(model->model, folder, options->kv_dtype, options->kv_scales,
                              &model->kv_scales, error));
    TRY(worker_geometry(model->model, options->kv_dtype, &model->kv_scales,
                        context_math_is_int8(options->attention_math) ? MATH_INT8_KEYS
                                                                      : BLOCK_TOKENS,
                        error, &model->geometry));
    /* One sequence, which keeps all that it computes. */
    kv_layers_divide_whole(model_get_config(model->model), &model->geometry.groups);
    model->geometry.groups.n_state = state_layout_blocks(model_get_config(model->model),
                                                         geometry_block_bytes(&model->geometry));
    TRY(worker_sinks_read(options->sink_tokens, options->attention_window, &model->geometry.sinks,
                          error));
    return open_forward(model, options, threads, error);
}

enum status eval_device_open(const char *folder, const char *name,
                             const struct eval_model_options *options, struct device **device_out,
                             struct error *error)
{
    const struct worker_options worker = {.folder = folder,
                                          .device = name,
                                          .cpu_kernels = options->cpu_kernels,
                                          .attention_kernels = options->attention_kernels};
    TRY(worker_device_check(&worker, error));
    return worker_device_open(&worker, device_out, error);
}

enum status eval_model_open(const char *folder, const struct eval_model_options *options,
                            struct thread_pool *threads, struct device *device, struct error *error,
                            struct eval_model **model_out)
{
    struct eval_model *model = calloc(1, sizeof *model);
    if (!model)
        return STATUS_NO_MEMORY;
    model->device = device;
    enum status status = open_all(model, folder, options, threads, error);
    if (status != STATUS_OK) {
        eval_model_close(model);
        return status;
    }
    *model_out = model;
    return STATUS_OK;
}

void eval_model_close(struct eval_model *model)
{
    if (!model)
        return;
    forward_destroy(model->forward);
    block_table_finish(&model->table);
    if (model->holds_blocks)
        block_pool_release(model->pool, model->blocks, n_blocks_of_all(model));
    block_pool_destroy(model->pool);
    device_free(model->device, &model->memory);
    kv_scales_finish(&model->kv_scales);
    adapter_release(model->adapter);
    model_destroy(model->model);
    free(model->blocks);
    free(model->shifted);
    free(model->logits);
    free(model);
}

const struct model *eval_model_get(const struct eval_model *model)
{
    return model->model;
}

uint32_t eval_model_vocabulary(const struct eval_model *model)
{
    return model_get_config(model->model)->vocabulary;
}

const char *eval_model_kv_dtype(const struct eval_model *model)
{
    return kv_dtype_name(model->geometry.dtype);
}

static bool is_reply(const struct eval_model *model, uint32_t at)
{
    return model->geometry.sinks.window > 0 && at >= model->geometry.sinks.window;
}

uint32_t eval_model_step(const struct eval_model *model, uint32_t at, uint32_t n)
{
    const uint32_t window = model->geometry.sinks.window;
    uint32_t most = is_reply(model, at) ? EVAL_ROWS_MAX : EVAL_CHUNK_TOKENS;
    if (window > at && window - at < most)
        most = window - at;
    return n < most ? n : most;
}

/* The table has room for these tokens. */
static void take_room(struct eval_model *model, uint32_t at, uint32_t n)
{
    const struct block_need need = {at, at + n, at + n, is_reply(model, at)};
    if (at == 0)
        block_table_clear(&model->table);
    const enum status status = block_table_prepare(&model->table, &need);
    assert(status == STATUS_OK && "the pool has the blocks of one sequence");
    (void)status;
}

/* Tokens of a reply, one by one. */
static enum status stream(struct eval_model *model, const uint32_t *window, uint32_t at, uint32_t n)
{
    const size_t vocabulary = eval_model_vocabulary(model);
    for (uint32_t i = 0; i < n; i++) {
        take_room(model, at + i, 1);
        const struct forward_sequence sequence = {
            .token_ids = window + at + i,
            .n_query = 1,
            .n_past = block_table_places(&model->table, at + i),
            .blocks = model->table.blocks,
            .n_blocks = model->table.spans_max,
            .wants_logits = true,
            .adapter = model->adapter,
        };
        TRY(forward_run(model->forward, &sequence, 1, 0, model->logits + i * vocabulary));
    }
    return STATUS_OK;
}

/* The encoder reads the window as a text; the decoder gets it, too, behind the token that begins a reply, as in training. */
static enum status encode(struct eval_model *model, const uint32_t *window, uint32_t n_window)
{
    const struct forward_text text = {.token_ids = window,
                                      .n_tokens = n_window,
                                      .cross_blocks = model->cross_blocks,
                                      .n_cross_blocks = model->n_blocks};
    model->n_text = n_window;
    model->shifted[0] = model_get_config(model->model)->encoder.start_id;
    memcpy(model->shifted + 1, window, (n_window - 1) * sizeof *window);
    return forward_encode(model->forward, &text, 1);
}

enum status eval_model_run(struct eval_model *model, const uint32_t *window, uint32_t n_window,
                           uint32_t at, uint32_t n)
{
    if (has_encoder(model)) {
        if (at == 0)
            TRY(encode(model, window, n_window));
        window = model->shifted;
    }
    const bool has_table = model->geometry.sinks.window > 0;
    const uint32_t n_state = model->geometry.groups.n_state;
    const block_id *const state = model->blocks + n_blocks_of_all(model) - n_state;
    assert(n > 0 && n == eval_model_step(model, at, n) && at + n <= n_window);
    model->streams = is_reply(model, at);
    if (model->streams)
        return stream(model, window, at, n);
    if (has_table)
        take_room(model, at, n);
    const struct forward_sequence sequence = {
        .token_ids = window + at,
        .n_query = n,
        .n_past = at,
        .prompt_len = has_table && n_window > model->geometry.sinks.window
                          ? model->geometry.sinks.window
                          : n_window,
        .blocks = has_table ? model->table.blocks : model->blocks,
        .n_blocks = has_table ? model->table.spans_max : model->n_blocks,
        .keeps_rows = true,
        .state_blocks = state,
        .cross_blocks = model->cross_blocks,
        .n_cross_blocks = model->n_text > 0 ? model->n_blocks : 0,
        .n_cross_tokens = model->n_text,
        .adapter = model->adapter,
    };
    return forward_run(model->forward, &sequence, 1, 1, model->logits);
}

/* One block of one layer: n tokens of K or V of each head. */
static double block_largest(struct cache_heads heads, uint32_t block_tokens, const float *block,
                            uint32_t n)
{
    double largest = 0;
    for (uint32_t head = 0; head < heads.n; head++) {
        const float *tokens = block + (size_t)head * block_tokens * heads.dim;
        for (uint32_t i = 0; i < n * heads.dim; i++) {
            const double magnitude = fabs((double)tokens[i]);
            largest = magnitude > largest || isnan(magnitude) ? magnitude : largest;
        }
    }
    return largest;
}

/* Takes K and V of a layer, from these blocks of its group. */
static void take_layer(const struct eval_model *model, struct cache_place place,
                       const block_id *blocks, uint32_t n, double largest[2])
{
    const struct geometry *geometry = &model->geometry;
    const struct cache_heads heads = geometry_heads(geometry, place.group);
    const uint32_t rows = geometry_rows(geometry), block_tokens = geometry->block_tokens;
    const size_t part = (size_t)heads.n * block_tokens * heads.dim;
    for (uint32_t at = 0; at < n; at += block_tokens) {
        const uint32_t n_here = n - at < block_tokens ? n - at : block_tokens;
        const float *block = (const float *)(const void *)block_pool_data(
            model->pool, blocks[at / block_tokens]);
        for (uint32_t i = 0; i < rows; i++) {
            const double here = block_largest(heads, block_tokens,
                                              block + (place.index * rows + i) * part, n_here);
            largest[i] = here > largest[i] || isnan(here) ? here : largest[i];
        }
        if (rows == 1) /* a row of latents is K and V */
            largest[1] = largest[0];
    }
}

void eval_model_take_largest(const struct eval_model *model, uint32_t n, double *largest)
{
    struct kv_layers layers;
    kv_layers_describe(model_get_config(model->model), &layers);
    assert(model->geometry.dtype == KV_F32 && device_reads_host(model->device));
    for (uint32_t i = 0; i < model->geometry.n_layers; i++) {
        const struct cache_place place = cache_groups_place(&model->geometry.groups, &layers.layers,
                                                            i);
        double *const of_layer = largest + 2 * (size_t)i;
        take_layer(model, place, model->blocks + (size_t)place.group * model->n_blocks, n,
                   of_layer);
        take_layer(model, place, model->cross_blocks, model->n_text, of_layer);
    }
}

enum status eval_model_rows(struct eval_model *model, uint32_t first, uint32_t n,
                            const float **logits_out)
{
    assert(n <= EVAL_ROWS_MAX);
    *logits_out = model->logits;
    if (model->streams) {
        assert(first + n <= EVAL_ROWS_MAX);
        *logits_out = model->logits + (size_t)first * eval_model_vocabulary(model);
        return STATUS_OK;
    }
    return forward_rows(model->forward, first, n, model->logits);
}
