/*
 * attention - the back end: appends a step's K and V, cuts its query rows into tasks, runs them.
 *
 * Enough row blocks for all threads: a task is a block, its ranges one after another. Fewer, as in a
 * small batch over long sequences: a task is one range of a block, and whoever finishes a block's
 * last range merges them, in order. The bits are the same.
 */
#include "kernels/cpu/attend.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/rows.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    SPLIT_ROWS_MAX = 256,  /* rows of a step whose ranges may be kept side by side */
    BLOCKS_PER_THREAD = 4, /* so many row blocks keep the threads evenly busy */
    UPDATE_TOKENS_PER_TASK = 8,
    ALIGNMENT = 64,
};

struct attention {
    struct host_layer layer;
    struct thread_pool *pool;
};

struct attention_workspace {
    float *memory;
    size_t scratch_floats; /* of one thread */
    float *scratches;      /* [n_threads] */
    float *partials;       /* ranges side by side: [SPLIT_ROWS_MAX x ranges] rows */
    uint32_t n_threads, n_ranges_max;
    struct row_block *blocks; /* [n_blocks_max] of the running call */
    uint32_t *first_rows;     /* [n_blocks_max] row of partials where a block's ranges begin */
    atomic_uint *ranges_left; /* [n_blocks_max] */
    uint32_t n_blocks_max;
};

static enum status create(const struct attention_config *config, struct thread_pool *pool,
                          struct attention **attention_out, struct error *error)
{
    struct attention *attention = calloc(1, sizeof *attention);
    if (!attention)
        return STATUS_NO_MEMORY;
    enum status status = host_layer_init(config, &attention->layer, error);
    if (status != STATUS_OK) {
        free(attention);
        return status;
    }
    attention->pool = pool;
    *attention_out = attention;
    return STATUS_OK;
}

static void destroy(struct attention *attention)
{
    free(attention);
}

static void workspace_destroy(struct attention_workspace *workspace)
{
    if (!workspace)
        return;
    free(workspace->memory);
    free(workspace->blocks);
    free(workspace->first_rows);
    free(workspace->ranges_left);
    free(workspace);
}

static size_t round_up(size_t value, size_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/* Most row blocks a step can need: every sequence may end in a part of one, on every kv head. */
static size_t n_blocks_limit(const struct attention_limits *limits)
{
    uint64_t group = limits->n_heads / limits->n_kv_heads;
    return (size_t)((limits->n_tokens_max * group / ROWS_MAX + limits->n_sequences_max) *
                    limits->n_kv_heads);
}

static enum status workspace_create(const struct attention_limits *limits, struct thread_pool *pool,
                                    struct attention_workspace **workspace_out)
{
    struct attention_workspace *workspace = calloc(1, sizeof *workspace);
    if (!workspace)
        return STATUS_NO_MEMORY;
    workspace->n_threads = pool ? thread_pool_size(pool) : 1;
    workspace->n_ranges_max = (limits->kv_len_max + RANGE_KEYS - 1) / RANGE_KEYS;
    workspace->scratch_floats = round_up(attend_scratch_floats(limits->head_dim),
                                         ALIGNMENT / sizeof(float));
    size_t n_floats = workspace->scratch_floats * workspace->n_threads;
    size_t n_rows = (size_t)SPLIT_ROWS_MAX * workspace->n_ranges_max;
    n_floats += attend_partial_floats(limits->head_dim, n_rows);
    size_t n_blocks = n_blocks_limit(limits);
    workspace->n_blocks_max = (uint32_t)n_blocks;
    workspace->memory = aligned_alloc(ALIGNMENT, round_up(n_floats * sizeof(float), ALIGNMENT));
    workspace->blocks = calloc(n_blocks, sizeof *workspace->blocks);
    workspace->first_rows = calloc(n_blocks, sizeof *workspace->first_rows);
    workspace->ranges_left = calloc(n_blocks, sizeof *workspace->ranges_left);
    if (!workspace->memory || !workspace->blocks || !workspace->first_rows ||
        !workspace->ranges_left) {
        workspace_destroy(workspace);
        return STATUS_NO_MEMORY;
    }
    workspace->scratches = workspace->memory;
    workspace->partials = workspace->memory + workspace->scratch_floats * workspace->n_threads;
    *workspace_out = workspace;
    return STATUS_OK;
}

static void metadata_destroy(struct attention_metadata *metadata)
{
    if (!metadata)
        return;
    workspace_destroy(metadata->workspace);
    host_metadata_destroy(metadata);
}

static enum status metadata_create(const struct attention_limits *limits, struct thread_pool *pool,
                                   struct attention_metadata **metadata_out, struct error *error)
{
    struct attention_metadata *metadata;
    TRY(host_metadata_create(limits, &metadata, error));
    enum status status = workspace_create(limits, pool, &metadata->workspace);
    if (status != STATUS_OK) {
        metadata_destroy(metadata);
        return status;
    }
    *metadata_out = metadata;
    return STATUS_OK;
}

/* One call of kv_update or forward. */
struct call {
    const struct host_layer *layer;
    const struct attention_metadata *metadata;
    const struct attention_io *io;
    uint32_t n_blocks;
    bool is_split;
    uint32_t n_tasks;
    atomic_uint next_task;
};

static void turn_head(const float *cos_row, const float *sin_row, uint32_t half, float *head)
{
    for (uint32_t i = 0; i < half; i++) {
        float low = head[i];
        float high = head[i + half];
        head[i] = low * cos_row[i] - high * sin_row[i];
        head[i + half] = high * cos_row[i] + low * sin_row[i];
    }
}

static void update_head(const struct call *call, uint32_t token, const float *norm, float *head)
{
    const struct host_layer *layer = call->layer;
    size_t angle = (size_t)token * (layer->head_dim / 2);
    if (norm)
        row_norm(head, DTYPE_F32, norm, layer->head_dim, layer->norm_eps, head);
    if (layer->rope)
        turn_head(call->metadata->rope_cos + angle, call->metadata->rope_sin + angle,
                  layer->head_dim / 2, head);
}

static void update_token(const struct call *call, uint32_t token)
{
    const struct host_layer *layer = call->layer;
    const struct attention_metadata *metadata = call->metadata;
    const uint32_t n = layer->head_dim;
    float *q = call->io->qkv + token * call->io->qkv_stride;
    float *k = q + (size_t)layer->n_heads * n;
    const float *v = k + (size_t)layer->n_kv_heads * n;
    const struct attention_sequence *sequence = &metadata
                                                     ->sequences[metadata->token_sequences[token]];
    for (uint32_t h = 0; h < layer->n_heads; h++)
        update_head(call, token, layer->has_q_norm ? layer->q_norm : NULL, q + (size_t)h * n);
    for (uint32_t h = 0; h < layer->n_kv_heads; h++) {
        update_head(call, token, layer->has_k_norm ? layer->k_norm : NULL, k + (size_t)h * n);
        if (metadata->is_dummy)
            continue;
        char *slot = host_kv_token(&metadata->kv, layer->layer_index, sequence->block_ids, h,
                                   metadata->positions[token]);
        row_narrow(k + (size_t)h * n, n, layer->cache, slot);
        row_narrow(v + (size_t)h * n, n, layer->cache, slot + metadata->kv.kv_stride);
    }
}

static void update_task(void *arg, uint32_t index)
{
    const struct call *call = arg;
    uint32_t token = index * UPDATE_TOKENS_PER_TASK;
    uint32_t end = token + UPDATE_TOKENS_PER_TASK;
    for (; token < end && token < call->metadata->n_tokens; token++)
        update_token(call, token);
}

static void kv_update(const struct attention *attention, const struct attention_metadata *metadata,
                      const struct attention_io *io)
{
    const struct host_layer *layer = &attention->layer;
    struct call call = {.layer = layer, .metadata = metadata, .io = io};
    host_check_io(layer, metadata, io);
    uint64_t work = (uint64_t)metadata->n_tokens * (layer->n_heads + layer->n_kv_heads) *
                    layer->head_dim * 2;
    parallel_run(attention->pool, work,
                 (metadata->n_tokens + UPDATE_TOKENS_PER_TASK - 1) / UPDATE_TOKENS_PER_TASK,
                 update_task, &call);
}

/* Ranges first .. end - 1 hold the keys of a block. */
static void block_ranges(const struct call *call, const struct row_block *block,
                         uint32_t *first_out, uint32_t *end_out)
{
    uint32_t first, end;
    attend_keys(call->layer, call->metadata, block, &first, &end);
    *first_out = first / RANGE_KEYS;
    *end_out = (end + RANGE_KEYS - 1) / RANGE_KEYS;
}

/* Row blocks of every sequence and kv head. Returns the work in multiply-adds. */
static uint64_t plan_blocks(struct call *call)
{
    const struct attention_metadata *metadata = call->metadata;
    const struct host_layer *layer = call->layer;
    uint64_t work = 0;
    for (uint32_t s = 0; s < metadata->n_sequences; s++) {
        uint32_t n_rows = metadata->sequences[s].query_len * layer->group;
        work += (uint64_t)n_rows * metadata->sequences[s].kv_len * layer->n_kv_heads *
                layer->head_dim;
        for (uint32_t row = 0; row < n_rows; row += ROWS_MAX)
            for (uint32_t h = 0; h < layer->n_kv_heads; h++) {
                assert(call->n_blocks < metadata->workspace->n_blocks_max);
                metadata->workspace->blocks[call->n_blocks++] = (struct row_block){
                    .sequence = s,
                    .kv_head = h,
                    .row = row,
                    .n_rows = n_rows - row < ROWS_MAX ? n_rows - row : ROWS_MAX,
                };
            }
    }
    return work;
}

/* Whether the blocks' ranges become tasks of their own, and where their partials lie. */
static void plan_split(struct call *call, uint32_t n_threads)
{
    struct attention_workspace *workspace = call->metadata->workspace;
    uint32_t n_rows = 0;
    uint32_t n_ranges = 0;
    uint32_t row = 0;
    call->n_tasks = call->n_blocks;
    if (n_threads == 1 || call->n_blocks >= BLOCKS_PER_THREAD * n_threads)
        return;
    for (uint32_t b = 0; b < call->n_blocks; b++) {
        uint32_t first, end;
        block_ranges(call, &workspace->blocks[b], &first, &end);
        workspace->first_rows[b] = row;
        atomic_store_explicit(&workspace->ranges_left[b], end - first, memory_order_relaxed);
        row += (end - first) * workspace->blocks[b].n_rows;
        n_rows += workspace->blocks[b].n_rows;
        n_ranges += end - first;
    }
    if (n_rows > SPLIT_ROWS_MAX || n_ranges == call->n_blocks)
        return;
    call->is_split = true;
    call->n_tasks = n_ranges;
}

/* The partial of one range of a block, while its ranges lie side by side. */
static struct partial range_partial(const struct call *call, uint32_t b, uint32_t range)
{
    const struct attention_workspace *workspace = call->metadata->workspace;
    uint32_t n_rows = workspace->blocks[b].n_rows;
    uint32_t head_dim = call->layer->head_dim;
    size_t row = workspace->first_rows[b] + (size_t)range * n_rows;
    return attend_partial_at(workspace->partials + attend_partial_floats(head_dim, row), head_dim,
                             n_rows);
}

static void finish_split_block(const struct call *call, uint32_t b, uint32_t n_ranges)
{
    const struct row_block *block = &call->metadata->workspace->blocks[b];
    struct partial total = range_partial(call, b, 0);
    for (uint32_t range = 1; range < n_ranges; range++) {
        struct partial next = range_partial(call, b, range);
        attend_merge(block->n_rows, call->layer->head_dim, &next, &total);
    }
    attend_store(call->layer, call->metadata, call->io, block, &total);
}

static void run_split_task(const struct call *call, uint32_t task, struct attend_scratch *scratch)
{
    struct attention_workspace *workspace = call->metadata->workspace;
    uint32_t first, end, b;
    for (b = 0;; b++) {
        block_ranges(call, &workspace->blocks[b], &first, &end);
        if (task < end - first)
            break;
        task -= end - first;
    }
    const struct row_block *block = &workspace->blocks[b];
    struct partial partial = range_partial(call, b, task);
    attend_load_q(call->layer, call->metadata, call->io, block, scratch);
    attend_range(call->layer, call->metadata, block, first + task, scratch, &partial);
    if (atomic_fetch_sub_explicit(&workspace->ranges_left[b], 1, memory_order_acq_rel) == 1)
        finish_split_block(call, b, end - first);
}

static void run_block(const struct call *call, uint32_t b, struct attend_scratch *scratch)
{
    const struct row_block *block = &call->metadata->workspace->blocks[b];
    uint32_t first, end;
    block_ranges(call, block, &first, &end);
    attend_load_q(call->layer, call->metadata, call->io, block, scratch);
    attend_range(call->layer, call->metadata, block, first, scratch, &scratch->total);
    for (uint32_t range = first + 1; range < end; range++) {
        attend_range(call->layer, call->metadata, block, range, scratch, &scratch->range);
        attend_merge(block->n_rows, call->layer->head_dim, &scratch->range, &scratch->total);
    }
    attend_store(call->layer, call->metadata, call->io, block, &scratch->total);
}

/* Takes tasks until none is left. Index names a scratch: one runner has it at a time. */
static void run_tasks(void *arg, uint32_t index)
{
    struct call *call = arg;
    const struct attention_workspace *workspace = call->metadata->workspace;
    struct attend_scratch scratch = attend_scratch_at(
        workspace->scratches + index * workspace->scratch_floats, call->layer->head_dim);
    for (;;) {
        uint32_t task = atomic_fetch_add_explicit(&call->next_task, 1, memory_order_relaxed);
        if (task >= call->n_tasks)
            return;
        if (call->is_split)
            run_split_task(call, task, &scratch);
        else /* the last blocks of a prompt see most keys: they go first */
            run_block(call, call->n_blocks - 1 - task, &scratch);
    }
}

static void clear_output(const struct call *call)
{
    size_t bytes = (size_t)call->layer->n_heads * call->layer->head_dim * sizeof(float);
    for (uint32_t token = 0; token < call->metadata->n_tokens; token++)
        memset(call->io->output + token * call->io->output_stride, 0, bytes);
}

static enum status forward(const struct attention *attention,
                           const struct attention_metadata *metadata, const struct attention_io *io)
{
    struct call call = {.layer = &attention->layer, .metadata = metadata, .io = io};
    kv_update(attention, metadata, io);
    if (metadata->is_dummy) {
        clear_output(&call);
        return STATUS_OK;
    }
    uint64_t work = plan_blocks(&call);
    uint32_t n_threads = parallel_threads(attention->pool, work);
    assert(n_threads <= metadata->workspace->n_threads);
    plan_split(&call, n_threads);
    parallel_run(attention->pool, work, n_threads < call.n_tasks ? n_threads : call.n_tasks,
                 run_tasks, &call);
    return STATUS_OK;
}

const struct attention_backend cpu_attention = {
    .name = "cpu",
    .create = create,
    .destroy = destroy,
    .metadata_create = metadata_create,
    .metadata_destroy = metadata_destroy,
    .metadata_prepare = host_metadata_prepare,
    .kv_update = kv_update,
    .forward = forward,
};
