#include "worker_common/worker_pool.h"

#include "base/log/log.h"
#include "base/memory_room.h"
#include "base/metrics/process_stats.h"
#include "engine/cache_events.h"
#include "kvcache/prefix_tree.h"
#include "worker_common/pool_memory.h"
#include "worker_common/worker_adapters.h"
#include "worker_common/worker_device.h"
#include "worker_common/worker_tier.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MIB (1 << 20)
#define STAGE_LEAST                                                                                \
    (512u << 10) /* so that pieces are under way while a block is put in its place */

uint64_t worker_pool_bytes(const struct worker *worker)
{
    return worker->n_blocks * geometry_block_bytes(&worker->identity.geometry);
}

uint64_t worker_pool_memory(const struct worker_options *options, uint64_t bytes)
{
    return options->is_read_from ? driver_pool_bytes(options->kv_transport, bytes) : bytes;
}

uint64_t worker_stage_bytes(const struct geometry *geometry, uint32_t n_transfers)
{
    const uint64_t block = geometry_block_bytes(geometry) / kv_dtype_bytes(geometry->dtype) *
                           kv_dtype_bytes(KV_F32);
    const uint64_t largest = block / geometry->block_tokens * GEOMETRY_BLOCK_TOKENS_MAX;
    const uint64_t of_all = n_transfers * (block > STAGE_LEAST ? block : STAGE_LEAST);
    return n_transfers == 0 ? 0 : 2 * (of_all > largest ? of_all : largest);
}

struct kv_taken worker_computed_bytes(const struct worker *worker,
                                      const struct worker_options *options)
{
    const struct worker_step step = worker_step_of(worker, options);
    const struct forward_options forward = worker_forward_options(&worker->identity.geometry,
                                                                  &step);
    const uint64_t room = worker_adapters_room(worker, options);
    const uint64_t tier_bytes = worker_tier_bytes(worker, options) + room +
                                adapter_set_bytes(worker->adapters);
    if (worker_device_memory(worker->device) > 0)
        return (struct kv_taken){.process_bytes = KV_START_BYTES + tier_bytes};
    return (struct kv_taken){
        .mapped_bytes = model_weight_bytes(worker->model) + worker->draft_mapped_bytes,
        .process_bytes = KV_START_BYTES + tier_bytes + worker->stage_bytes + worker->draft_bytes +
                         forward_activation_bytes(worker->model, &forward)};
}

struct kv_taken worker_measured_bytes(const struct worker *worker,
                                      const struct worker_options *options)
{
    struct kv_taken taken = worker_computed_bytes(worker, options);
    uint64_t own_bytes;
    if (process_own_bytes(&own_bytes) == STATUS_OK)
        taken = (struct kv_taken){
            .mapped_bytes = model_mapped_bytes(worker->model) + worker->draft_mapped_bytes,
            .process_bytes = kv_plan_round(own_bytes + worker->stage_bytes +
                                           worker_adapters_room(worker, options))};
    else
        log_warn("the kernel does not say how much memory this process has: it is computed");
    if (worker_device_memory(worker->device) > 0)
        taken.device_bytes = device_bytes_taken(worker->device) +
                             forward_graph_bytes(worker->forward);
    log_event(LOG_INFO, NULL, "memory after the warm-up",
              LOG_U64("process_bytes", taken.process_bytes),
              LOG_U64("mapped_weight_bytes", taken.mapped_bytes),
              LOG_U64("activation_bytes", device_bytes(worker->device, DEVICE_ACTIVATIONS)),
              LOG_U64("staging_bytes", device_bytes(worker->device, DEVICE_STAGING)),
              LOG_U64("workspace_bytes", device_bytes(worker->device, DEVICE_WORKSPACE)),
              LOG_U64("graph_bytes", forward_graph_bytes(worker->forward)));
    return taken;
}

/* Whether the pool is in the host's memory, so that the host's limit bounds it. A device that may be a GPU and is not
 * open yet counts as having its own memory. */
static bool is_pool_of_host(const struct worker *worker, const struct worker_options *options)
{
    return worker->device ? worker_device_memory(worker->device) == 0
                          : strcmp(worker_device_name(options), "cpu") == 0;
}

static enum status read_room(struct memory_room *room_out, struct error *error)
{
    if (memory_room_read("", room_out) == STATUS_OK)
        return STATUS_OK;
    return error_set(error, STATUS_IO_FAILED, "/proc/meminfo has no MemAvailable");
}

enum status worker_note_room(struct worker *worker, const struct worker_options *options,
                             struct error *error)
{
    struct memory_room room;
    TRY(read_room(&room, error));
    worker->room_bytes = options->kv_room ? options->kv_room : room.available_bytes;
    return STATUS_OK;
}

uint32_t worker_room_blocks(const struct worker *worker)
{
    return worker->n_blocks > worker->step_blocks ? worker->n_blocks - worker->step_blocks : 0;
}

uint64_t worker_room_tokens(const struct worker *worker)
{
    const struct geometry *geometry = &worker->identity.geometry;
    const uint64_t n_blocks = worker_room_blocks(worker);
    if (cache_groups_is_plain(&geometry->groups))
        return n_blocks * geometry->block_tokens;
    return n_blocks * worker->context_tokens / worker->context_blocks;
}

static void tell_windows(const struct worker *worker)
{
    const struct geometry *geometry = &worker->identity.geometry;
    const uint64_t state = geometry->groups.n_state * geometry_block_bytes(geometry);
    uint64_t whole, bytes = geometry_sequence_bytes(geometry, worker->context_tokens, &whole);
    if (cache_groups_has_window(&geometry->groups))
        log_info("kv of %u tokens takes %.1f MiB in %u groups of layers; %.1f MiB if layers with a "
                 "window kept all%s",
                 worker->context_tokens, (double)(bytes - state) / MIB,
                 cache_groups_count(&geometry->groups), (double)whole / MIB,
                 state > 0 ? "; both without the recurrent state" : "");
    if (state > 0)
        log_info("a recurrent state takes %.1f MiB of each sequence, and of each snapshot",
                 (double)state / MIB);
}

static void tell_plan(const struct worker *worker, const struct worker_options *options)
{
    const struct kv_plan *plan = &worker->pool_plan;
    const uint32_t n_blocks = worker_room_blocks(worker);
    char rule[192], why[64] = "";
    assert(worker->context_blocks > 0 && plan->n_blocks > 0);
    if (plan->free_bytes > 0)
        snprintf(why, sizeof why, ": %.1f MiB for %u", (double)plan->free_bytes / MIB,
                 options->kv_sharers);
    snprintf(rule, sizeof rule, "%s%s", kv_plan_rule_text(plan->rule), why);
    log_info("kv plan blocks %u of %u tokens, %.1f MiB %s (%s); room for %" PRIu64
             " tokens: %u requests of %u or %u of 512",
             worker->n_blocks, options->kv_block_tokens, (double)worker_pool_bytes(worker) / MIB,
             kv_dtype_name(worker->identity.geometry.dtype), rule, worker_room_tokens(worker),
             n_blocks / worker->context_blocks, worker->context_tokens,
             n_blocks / geometry_blocks(&worker->identity.geometry, 512));
    tell_windows(worker);
    if (n_blocks < worker->context_blocks)
        log_warn("all KV blocks together hold less than one whole context of %u tokens",
                 worker->context_tokens);
}

uint64_t worker_table_bytes(const struct worker *worker, const struct worker_options *options,
                            uint32_t n_blocks)
{
    const struct geometry *geometry = &worker->identity.geometry;
    const uint32_t spans_max = geometry_spans(geometry, worker->context_tokens);
    if (!options->prefix_cache || options->kv_manager == KV_MANAGER_CONTIGUOUS)
        return 0;
    return prefix_tree_bytes(&geometry->groups, n_blocks, spans_max) +
           cache_events_bytes(prefix_tree_nodes(&geometry->groups, n_blocks, spans_max),
                              options->kv_events_max, geometry->block_tokens);
}

enum status worker_plan_blocks(struct worker *worker, const struct worker_options *options,
                               const struct kv_taken *taken, struct error *error)
{
    struct memory_room room;
    TRY(read_room(&room, error));
    const bool is_of_host = is_pool_of_host(worker, options);
    const struct kv_wishes wishes = {
        .step = worker_cache_step(worker, options),
        .kv_blocks = options->kv_blocks,
        .kv_memory = options->kv_memory,
        .limit_bytes = is_of_host ? room.limit_bytes : 0,
        .room_bytes = is_of_host ? worker->room_bytes : 0,
        .left_bytes = room.available_bytes,
        .device_bytes = kv_plan_device_bytes(worker_device_memory(worker->device),
                                             options->device_memory, options->kv_sharers),
        .device_room_bytes = worker_device_room(worker->device),
        .pool_step_bytes = worker_pool_memory(options, 1),
        .taken = *taken,
        .table_bytes = worker_table_bytes(worker, options, 0),
        .block_table_bytes = worker_table_bytes(worker, options, 1) -
                             worker_table_bytes(worker, options, 0),
        .n_sharers = options->kv_sharers,
    };
    assert(worker->context_blocks > 0 && "the geometry is known");
    TRY(kv_plan_make(&worker->identity.geometry, &wishes, &worker->pool_plan, error));
    worker->n_blocks = worker->pool_plan.n_blocks;
    worker->taken = *taken;
    worker->table_bytes = worker_table_bytes(worker, options, worker->n_blocks);
    tell_plan(worker, options);
    return STATUS_OK;
}

enum status worker_create_pool(struct worker *worker, void *memory, uint64_t bytes,
                               struct error *error)
{
    assert(!worker->pool && worker->transport && bytes >= worker_pool_bytes(worker));
    size_t block_bytes = geometry_block_bytes(&worker->identity.geometry);
    struct device_memory *pool = &worker->pool_memory;
    struct memory_room room;
    TRY(worker_device_fits(worker->device, "KV blocks", bytes, error));
    if (worker_device_memory(worker->device) == 0 && memory_room_read("", &room) == STATUS_OK)
        TRY(pool_memory_check(&room, bytes, error));
    enum status status = memory ? device_wrap(worker->device, DEVICE_KV, memory, bytes, pool)
                                : device_allocate(worker->device, DEVICE_KV, bytes, pool);
    if (status == STATUS_NO_MEMORY)
        return device_no_memory(worker->device, "KV blocks", bytes, error);
    if (status == STATUS_OK)
        status = block_pool_create_in(pool->base, worker->n_blocks, block_bytes, &worker->pool);
    if (status != STATUS_OK)
        return error_set(error, status, "%" PRIu64 " bytes of KV blocks: %s", bytes,
                         status_text(status));
    device_touch(worker->device, pool, worker->threads);
    return STATUS_OK;
}
