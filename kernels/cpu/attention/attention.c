/*
 * attention - the attention back end of the CPU: writes K and V of a step, then runs the tasks of its plan.
 */
#include "kernels/attention_features.h"
#include "kernels/backend/attention_io_check.h"
#include "kernels/backend/attention_metadata.h"
#include "kernels/backend/position_bias.h"
#include "kernels/cpu/attention/attend.h"
#include "kernels/cpu/attention/attend_whole.h"
#include "kernels/cpu/attention/dummy.h"
#include "kernels/cpu/attention/kv_update_step.h"
#include "kernels/cpu/attention/output.h"
#include "kernels/cpu/attention/plan.h"
#include "kernels/cpu/parallel.h"

#include <assert.h>
#include <stdlib.h>

/* A table of T5's bias for each distance, because a bucket costs a logarithm. */
static enum status create_distances(struct attention *attention, struct error *error)
{
    const struct attention_config *config = &attention->host.config;
    const struct attention_bias *bias = &config->bias;
    const int64_t furthest = bias->distance_max;
    const size_t n = 2 * (size_t)bias->distance_max + 1;
    if (!bias->buckets)
        return STATUS_OK;
    attention->distance_biases = calloc(config->n_heads, n * sizeof *attention->distance_biases);
    if (!attention->distance_biases)
        return attention_layer_no_memory(config, error);
    for (int64_t distance = -furthest; distance <= furthest; distance++) {
        uint32_t bucket = t5_bucket(distance, bias->n_buckets, bias->distance_max,
                                    bias->is_bidirectional);
        for (uint32_t head = 0; head < config->n_heads; head++)
            attention->distance_biases[head * n + (size_t)(distance + furthest)] =
                bias->buckets[(size_t)head * bias->n_buckets + bucket];
    }
    return STATUS_OK;
}

static void destroy(struct attention *attention)
{
    if (!attention)
        return;
    free(attention->distance_biases);
    attention_layer_finish(&attention->host);
    free(attention);
}

static enum status create(const struct attention_config *config, struct thread_pool *pool,
                          struct attention **attention_out, struct error *error)
{
    struct attention *attention = calloc(1, sizeof *attention);
    if (!attention)
        return attention_layer_no_memory(config, error);
    attention->pool = pool;
    enum status status = attention_layer_init(config, &attention->host, error);
    if (status == STATUS_OK)
        status = create_distances(attention, error);
    if (status != STATUS_OK) {
        destroy(attention);
        return status;
    }
    *attention_out = attention;
    return STATUS_OK;
}

static void metadata_destroy(struct attention_metadata *metadata)
{
    if (!metadata)
        return;
    workspace_destroy(metadata->workspace);
    attention_metadata_destroy(metadata);
}

static enum status metadata_create(const struct attention_limits *limits, struct thread_pool *pool,
                                   struct attention_metadata **metadata_out, struct error *error)
{
    struct attention_metadata *metadata;
    TRY(attention_metadata_create(limits, pool, &metadata, error));
    enum status status = workspace_create(&metadata->limits, pool ? thread_pool_size(pool) : 1,
                                          &metadata->workspace, error);
    if (status != STATUS_OK) {
        metadata_destroy(metadata);
        return status;
    }
    *metadata_out = metadata;
    return STATUS_OK;
}

static enum status kv_update(const struct attention *attention,
                             const struct attention_metadata *metadata,
                             const struct attention_io *io, struct error *error)
{
    struct attention_call call = {.attention = attention, .metadata = metadata, .io = io};
    TRY(attention_io_check_kv(&attention->host, metadata, io, error));
    kv_update_step(&call, NULL);
    return STATUS_OK;
}

/* The data that the threads of one call of forward share. */
struct running {
    struct attention_call call;
    struct plan plan;
    atomic_uint next_task;
};

/* The partial of one range of a split block. */
static struct partial range_partial(const struct attention_call *call,
                                    const struct row_block *block, uint32_t range)
{
    const uint32_t head_dim = call->attention->host.config.head_dim;
    size_t row = block->first_partial + (size_t)range * block->n_rows;
    return attend_partial_at(call->metadata->workspace->partials +
                                 attend_partial_floats(head_dim, row),
                             head_dim, block->n_rows);
}

static void finish_split_block(const struct attention_call *call, const struct row_block *block)
{
    assert(block_n_ranges(block) > 1);
    struct partial total = range_partial(call, block, 0);
    for (uint32_t range = 1; range < block_n_ranges(block); range++) {
        struct partial next = range_partial(call, block, range);
        attend_merge(block->n_rows, call->attention->host.config.head_dim, &next, &total);
    }
    output_block(call, block, &total);
}

/* Runs one task of split block b. */
static void run_share(const struct attend *attend, uint32_t b, uint32_t task)
{
    const struct attention_workspace *workspace = attend->call->metadata->workspace;
    const struct row_block *block = attend->block;
    uint32_t range = task * block->task_ranges;
    uint32_t end = range + block->task_ranges;
    assert(block->is_split && range < block_n_ranges(block));
    for (end = end < block_n_ranges(block) ? end : block_n_ranges(block); range < end; range++) {
        struct partial partial = range_partial(attend->call, block, range);
        attend_range(attend, block_first_range(block) + range, &partial);
    }
    if (atomic_fetch_sub_explicit(&workspace->tasks_left[b], 1, memory_order_acq_rel) == 1)
        finish_split_block(attend->call, block);
}

static void run_ranges(const struct attend *attend, struct attend_scratch *scratch)
{
    const struct row_block *block = attend->block;
    const uint32_t head_dim = attend->call->attention->host.config.head_dim;
    uint32_t first = block_first_range(block);
    attend_clear(block->n_rows, head_dim, &scratch->total);
    for (uint32_t range = first; range < first + block_n_ranges(block); range++) {
        attend_range(attend, range, &scratch->range);
        attend_merge(block->n_rows, head_dim, &scratch->range, &scratch->total);
    }
    output_block(attend->call, block, &scratch->total);
}

static bool stores_scores(const struct attention_call *call, const struct row_block *block)
{
    enum attention_path path = call->attention->host.config.path;
    return call->metadata->sequences[block->sequence].phase == PHASE_CONTEXT &&
           (path == PATH_UNFUSED || path == PATH_SHORT);
}

static void run_task(const struct running *running, uint32_t task, struct attend_scratch *scratch)
{
    const struct attention_workspace *workspace = running->call.metadata->workspace;
    uint32_t b = 0;
    for (uint32_t end = running->plan.n_blocks; b + 1 < end;) { /* searches the block of task */
        uint32_t middle = (b + end) / 2;
        if (workspace->blocks[middle].first_task <= task)
            b = middle;
        else
            end = middle;
    }
    const struct row_block *block = &workspace->blocks[b];
    assert(block->first_task <= task);
    struct attend attend;
    attend_init(&running->call, block, workspace->staged, scratch, &attend);
    if (block->is_split) {
        run_share(&attend, b, task - block->first_task);
    } else if (stores_scores(&running->call, block)) {
        attend_whole(&attend, &scratch->total);
        output_block(&running->call, block, &scratch->total);
    } else {
        run_ranges(&attend, scratch);
    }
}

/* Takes tasks until none is left. index is the number of a scratch, which only one thread uses at a time. The last
 * blocks of a prompt come first, because they see most keys. */
static void run_tasks(void *arg, uint32_t index)
{
    struct running *running = arg;
    struct attend_scratch scratch = workspace_scratch(running->call.metadata, index);
    for (;;) {
        uint32_t task = atomic_fetch_add_explicit(&running->next_task, 1, memory_order_relaxed);
        if (task >= running->plan.n_tasks)
            return;
        run_task(running, running->plan.n_tasks - 1 - task, &scratch);
    }
}

/* Each thread needs a scratch of the metadata. */
static enum status check_threads(const struct attention *attention,
                                 const struct attention_metadata *metadata, struct error *error)
{
    const uint32_t n_threads = attention->pool ? thread_pool_size(attention->pool) : 1;
    if (n_threads <= metadata->workspace->n_threads)
        return STATUS_OK;
    return error_set(error, STATUS_INVALID_ARGUMENT,
                     "the layer's pool has %u threads, the metadata was created for %u", n_threads,
                     metadata->workspace->n_threads);
}

static enum status forward(const struct attention *attention,
                           const struct attention_metadata *metadata, const struct attention_io *io,
                           struct error *error)
{
    struct running running = {.call = {.attention = attention, .metadata = metadata, .io = io}};
    TRY(attention_io_check(&attention->host, metadata, io, error));
    TRY(check_threads(attention, metadata, error));
    if (metadata->is_dummy) {
        dummy_run(&running.call);
        return STATUS_OK;
    }
    kv_update_step(&running.call, metadata->workspace->staged);
    if (metadata->n_dummies > 0)
        output_empty(&running.call, metadata->token_starts[metadata_n_real_sequences(metadata)]);
    running.plan = plan_make(&running.call);
    uint32_t n_threads = parallel_threads(attention->pool, running.plan.work);
    assert(n_threads <= metadata->workspace->n_threads);
    parallel_run(attention->pool, running.plan.work,
                 n_threads < running.plan.n_tasks ? n_threads : running.plan.n_tasks, run_tasks,
                 &running);
    if (metadata->workspace->staged)
        kv_update_from_staged(&running.call, metadata->workspace->staged);
    return STATUS_OK;
}

const struct attention_backend cpu_attention = {
    .name = "cpu",
    .features = ATTENTION_FEATURES_ALL,
    .create = create,
    .destroy = destroy,
    .metadata_create = metadata_create,
    .metadata_destroy = metadata_destroy,
    .metadata_prepare = attention_metadata_prepare,
    .metadata_make_static = attention_metadata_make_static,
    .metadata_arena_bytes = attention_metadata_arena_bytes,
    .metadata_use_arena = attention_metadata_use_arena,
    .kv_update = kv_update,
    .forward = forward,
};
