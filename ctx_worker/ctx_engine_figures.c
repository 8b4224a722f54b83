#include "ctx_worker/ctx_engine_figures.h"

#include <assert.h>

static void count_prompts(struct ctx_engine *engine)
{
    struct ctx_engine_stats *stats = &engine->stats;
    struct schedule_counts counts;
    schedule_count(engine->schedule, &counts);
    const uint32_t n_pending = request_queue_count(&engine->pending);
    stats->queued = request_queue_count(&engine->queue) + n_pending;
    stats->waiting_tokens = ctx_backlog_tokens(&engine->backlog);
    prefill_set_count(&engine->slots, stats);
    /* While prompts wait, a free slot does not help a new one: blocks, or the caller's share of them, are short. */
    stats->room = engine->options.queue_max - counts.n_waiting;
    if (counts.n_waiting == 0)
        stats->room += engine->slots.n - stats->computing - stats->sealed - stats->closing;
    assert(counts.n_waiting + n_pending == stats->queued);
    assert(counts.n_computing + counts.n_done == stats->computing + stats->sealed + stats->closing);
    /* When the device is lost, a prompt that was computed is not sealed. */
    assert(counts.n_computing == stats->computing || device_is_lost(engine->options.device));
}

static void look_for_lost_blocks(struct ctx_engine *engine, uint64_t now_ns)
{
    struct ctx_engine_stats *stats = &engine->stats;
    bool is_idle = stats->computing + stats->sealed + stats->closing == 0;
    if (!block_owners_begin(&engine->owners, is_idle, now_ns))
        return;
    prefill_set_own(&engine->slots, &engine->owners);
    stats->blocks_unowned = block_owners_count(&engine->owners);
}

void ctx_engine_publish(void *arg, uint64_t now_ns)
{
    struct ctx_engine *engine = arg;
    struct ctx_engine_stats *stats = &engine->stats;
    const struct kv_manager *manager = engine->home.manager;
    count_prompts(engine);
    look_for_lost_blocks(engine, now_ns);
    stats->last_progress_ns = now_ns;
    held_transfers_count(&engine->held, &stats->commits_ok, &stats->commits_refused);
    assert(kv_manager_count(manager, BLOCK_INBOUND) == 0 && "nothing is fetched here");
    for (enum block_state state = 0; state < BLOCK_STATES; state++)
        stats->blocks[state] = kv_manager_count(manager, state);
    stats->n_blocks = kv_manager_size(manager);
    stats->is_draining = engine->core.is_draining;
    stats->blocks_evicted = kv_manager_evictions(manager);
    prefix_tier_count(engine->home.tier, &stats->tier);
    published_put(&engine->published, stats, sizeof *stats);
}
