#include "worker_common/kv_plan.h"

#include <assert.h>
#include <inttypes.h>

#define MIB (1 << 20)

const char *kv_plan_rule_text(enum kv_plan_rule rule)
{
    switch (rule) {
    case KV_PLAN_AS_TOLD:
        return "as configured";
    case KV_PLAN_BATCH:
        return "what the batch can use";
    case KV_PLAN_SHARE:
        return "a share of the memory limit";
    case KV_PLAN_DEVICE:
        return "what is left of the part of the device for this worker";
    case KV_PLAN_ROOM:
        return "what other processes leave of the device";
    case KV_PLAN_FREE:
        return "a third of the free memory, for all workers";
    case KV_PLAN_CONTEXT:
        return "one whole context, at most half of the free memory, for all workers";
    case KV_PLAN_LEAST:
        return "256 MiB, the minimum where no cgroup limits memory";
    }
    assert(false && "a rule has a text");
    return "";
}

static enum status check_count(const struct kv_wishes *wishes, uint64_t n_blocks,
                               uint64_t block_bytes, struct error *error)
{
    if (n_blocks == 0 || n_blocks > UINT32_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "kv_memory of %" PRIu64 " bytes makes %" PRIu64 " blocks of %" PRIu64
                         " bytes",
                         wishes->kv_memory, n_blocks, block_bytes);
    return STATUS_OK;
}

/* Whether other processes leave less free memory on the device than this worker's part. */
static bool is_crowded(const struct kv_wishes *wishes)
{
    return wishes->device_room_bytes > 0 && wishes->device_room_bytes < wishes->device_bytes;
}

/* The bytes of device memory for weights, work and pool. 0: the device has no memory of its own. */
static uint64_t device_part(const struct kv_wishes *wishes)
{
    return is_crowded(wishes) ? wishes->device_room_bytes : wishes->device_bytes;
}

/* How to make room: more device memory, or fewer blocks if at least one block fits. */
static const char *advice(const struct kv_wishes *wishes, bool has_block)
{
    if (is_crowded(wishes))
        return has_block
                   ? "lower kv_memory or kv_blocks, or end other processes on the device"
                   : "end what else is on the device, lower prefill_batch_tokens or take weights "
                     "int8";
    return has_block ? "lower kv_memory or kv_blocks, or raise device_memory"
                     : "raise device_memory, lower prefill_batch_tokens or take weights int8";
}

/* The blocks that fit the worker's part of the device beside weights and work. */
static uint64_t blocks_left(const struct kv_wishes *wishes, uint64_t block_bytes)
{
    const uint64_t part = device_part(wishes), taken = wishes->taken.device_bytes;
    const uint64_t step = wishes->pool_step_bytes ? wishes->pool_step_bytes : 1;
    return part > taken ? (part - taken) / step * step / block_bytes : 0;
}

static enum status check_device(const struct kv_wishes *wishes, uint64_t n_blocks,
                                uint64_t block_bytes, struct error *error)
{
    const uint64_t part = device_part(wishes), taken = wishes->taken.device_bytes;
    const uint64_t n_left = blocks_left(wishes, block_bytes);
    if (wishes->device_bytes == 0 || n_left >= n_blocks)
        return STATUS_OK;
    return error_set(
        error, STATUS_NO_MEMORY,
        "%" PRIu64 " KV blocks of %.1f KiB need %.1f MiB of the device beside %.1f MiB "
        "for weights and work, and %s %.1f MiB: %s",
        n_blocks, (double)block_bytes / 1024, (double)n_blocks * (double)block_bytes / MIB,
        (double)taken / MIB,
        is_crowded(wishes) ? "others leave it" : "this worker's part (device_memory) is",
        (double)part / MIB, advice(wishes, n_left > 0));
}

static enum status as_told(const struct kv_wishes *wishes, uint64_t block_bytes,
                           struct kv_plan *plan_out, struct error *error)
{
    uint64_t n_blocks = wishes->kv_blocks ? wishes->kv_blocks : wishes->kv_memory / block_bytes;
    TRY(check_count(wishes, n_blocks, block_bytes, error));
    TRY(check_device(wishes, n_blocks, block_bytes, error));
    *plan_out = (struct kv_plan){.n_blocks = (uint32_t)n_blocks, .rule = KV_PLAN_AS_TOLD};
    return STATUS_OK;
}

uint64_t kv_plan_round(uint64_t bytes)
{
    const uint64_t step = 8 * MIB;
    return (bytes + step - 1) / step * step;
}

static uint64_t process_bytes(const struct kv_wishes *wishes)
{
    return wishes->taken.process_bytes + wishes->table_bytes + KV_LOAD_BYTES;
}

static uint32_t n_sharers(const struct kv_wishes *wishes)
{
    return wishes->n_sharers ? wishes->n_sharers : 1;
}

static uint64_t share_bytes(const struct kv_wishes *wishes)
{
    uint64_t limit = wishes->limit_bytes / n_sharers(wishes);
    uint64_t needs = process_bytes(wishes) + wishes->taken.mapped_bytes;
    return limit > needs ? (limit - needs) / 4 * 3 : 0;
}

/* The blocks of a whole batch, or fewer if this worker's share of the memory limit has fewer. */
static enum status within_limit(const struct kv_wishes *wishes, uint64_t block_bytes,
                                uint64_t batch_blocks, struct kv_plan *plan_out,
                                struct error *error)
{
    uint64_t share = share_bytes(wishes);
    uint64_t n_blocks = share / (block_bytes + wishes->block_table_bytes);
    if (n_blocks == 0)
        return error_set(
            error, STATUS_NO_MEMORY,
            "the cgroup's memory limit of %.1f MiB (%u workers share it) leaves nothing "
            "for KV blocks: weights take %.1f MiB, each process %.1f MiB; raise the limit, or set "
            "kv_memory",
            (double)wishes->limit_bytes / MIB, n_sharers(wishes),
            (double)wishes->taken.mapped_bytes / MIB, (double)process_bytes(wishes) / MIB);
    assert(wishes->limit_bytes > 0 && share < wishes->limit_bytes);
    bool is_batch = batch_blocks <= n_blocks;
    n_blocks = is_batch ? batch_blocks : n_blocks;
    TRY(check_count(wishes, n_blocks, block_bytes, error));
    *plan_out = (struct kv_plan){.n_blocks = (uint32_t)n_blocks,
                                 .rule = is_batch ? KV_PLAN_BATCH : KV_PLAN_SHARE};
    return STATUS_OK;
}

/* The blocks of a whole batch, or fewer if fewer are left in the worker's part of the device or on the device. */
static enum status within_device(const struct kv_wishes *wishes, uint64_t block_bytes,
                                 uint64_t batch_blocks, struct kv_plan *plan_out,
                                 struct error *error)
{
    TRY(check_device(wishes, 1, block_bytes, error));
    const uint64_t n_left = blocks_left(wishes, block_bytes);
    const enum kv_plan_rule rule = batch_blocks <= n_left ? KV_PLAN_BATCH
                                   : is_crowded(wishes)   ? KV_PLAN_ROOM
                                                          : KV_PLAN_DEVICE;
    const uint64_t n_blocks = rule == KV_PLAN_BATCH ? batch_blocks : n_left;
    TRY(check_count(wishes, n_blocks, block_bytes, error));
    *plan_out = (struct kv_plan){.n_blocks = (uint32_t)n_blocks, .rule = rule};
    return STATUS_OK;
}

uint64_t kv_plan_device_bytes(uint64_t memory_bytes, uint64_t device_memory, uint32_t n_sharers)
{
    if (memory_bytes == 0 || device_memory > 0)
        return memory_bytes == 0 ? 0 : device_memory;
    uint64_t part = memory_bytes / 10 * 9 / (n_sharers ? n_sharers : 1);
    return part > 0 ? part : 1;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t beside(uint64_t bytes, uint64_t taken_bytes)
{
    return bytes > taken_bytes ? bytes - taken_bytes : 0;
}

/* The machine's memory for the pools of all workers that share it. */
static uint64_t free_bytes(const struct kv_wishes *wishes)
{
    return beside(wishes->room_bytes,
                  wishes->taken.mapped_bytes + n_sharers(wishes) * process_bytes(wishes));
}

/* The memory for one worker's pool: its share of an nth of all free memory, at most half of what is free now. */
static uint64_t free_part(const struct kv_wishes *wishes, uint32_t n)
{
    const uint64_t now = beside(wishes->left_bytes, wishes->taken.mapped_bytes + KV_LOAD_BYTES);
    return smaller(free_bytes(wishes) / n / n_sharers(wishes), now / 2);
}

/* Blocks of one whole context, and those that a step needs beside. */
struct context_need {
    uint32_t of_one, of_step;
};

static enum status without_limit(const struct kv_wishes *wishes, uint64_t block_bytes,
                                 const struct context_need *need, struct kv_plan *plan_out,
                                 struct error *error)
{
    const uint64_t context_blocks = (uint64_t)need->of_one + need->of_step;
    const uint64_t batch_blocks = (uint64_t)need->of_one * wishes->step.n_sequences + need->of_step;
    const uint64_t least_blocks = KV_MEMORY_LEAST / block_bytes;
    struct kv_plan plan = {.rule = KV_PLAN_FREE, .free_bytes = free_bytes(wishes)};
    const uint64_t with_table = block_bytes + wishes->block_table_bytes;
    uint64_t n_blocks = free_part(wishes, 3) / with_table;
    if (n_blocks < context_blocks) {
        n_blocks = smaller(context_blocks, free_part(wishes, 2) / with_table);
        plan.rule = KV_PLAN_CONTEXT;
    }
    if (n_blocks < least_blocks || n_blocks == 0) {
        n_blocks = least_blocks ? least_blocks : 1;
        plan.rule = KV_PLAN_LEAST;
    }
    if (n_blocks >= batch_blocks) {
        n_blocks = batch_blocks;
        plan.rule = KV_PLAN_BATCH;
    }
    TRY(check_count(wishes, n_blocks, block_bytes, error));
    plan.n_blocks = (uint32_t)n_blocks;
    *plan_out = plan;
    return STATUS_OK;
}

enum status kv_plan_make(const struct geometry *geometry, const struct kv_wishes *wishes,
                         struct kv_plan *plan_out, struct error *error)
{
    uint64_t block_bytes = geometry_block_bytes(geometry);
    const struct context_need need = {
        .of_one = geometry_blocks(geometry, wishes->step.context_tokens),
        .of_step = geometry_step_blocks(geometry, &wishes->step)};
    const uint64_t batch_blocks = (uint64_t)need.of_one * wishes->step.n_sequences + need.of_step;
    assert(block_bytes > 0 && batch_blocks > 0);
    if (wishes->kv_blocks > 0 || wishes->kv_memory > 0)
        return as_told(wishes, block_bytes, plan_out, error);
    if (wishes->device_bytes > 0)
        return within_device(wishes, block_bytes, batch_blocks, plan_out, error);
    if (wishes->limit_bytes > 0)
        return within_limit(wishes, block_bytes, batch_blocks, plan_out, error);
    return without_limit(wishes, block_bytes, &need, plan_out, error);
}

uint32_t kv_plan_context_fit(const struct geometry *geometry, uint64_t bytes, uint32_t n_pools,
                             uint32_t context_tokens)
{
    assert(n_pools > 0);
    const uint64_t n_blocks = bytes / n_pools / geometry_block_bytes(geometry);
    uint32_t least = 0, most = context_tokens / geometry->block_tokens; /* spans; least fits */
    if (n_blocks >= geometry_blocks(geometry, context_tokens))
        return context_tokens;
    while (least < most) {
        const uint32_t middle = least + (most - least + 1) / 2;
        if (geometry_blocks(geometry, middle * geometry->block_tokens) <= n_blocks)
            least = middle;
        else
            most = middle - 1;
    }
    return least * geometry->block_tokens;
}
