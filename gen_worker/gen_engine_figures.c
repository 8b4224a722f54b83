#include "gen_worker/gen_engine_figures.h"

#include <assert.h>

static void count_states(struct gen_engine *engine)
{
    struct gen_engine_stats *stats = &engine->stats;
    uint32_t n[SEQUENCE_LENT + 1] = {0};
    struct schedule_counts counts;
    stats->prefills = 0;
    stats->prefill_tokens = stats->prefill_done_tokens = 0;
    for (uint32_t i = 0; i < engine->options.sequences_max; i++) {
        n[engine->home.sequences[i].state]++;
        sequence_count_prefill(&engine->home.sequences[i], stats);
    }
    stats->reserved = n[SEQUENCE_RESERVED];
    stats->fetching = n[SEQUENCE_FETCHING];
    stats->committing = n[SEQUENCE_COMMITTING];
    stats->local_prefill = n[SEQUENCE_LOCAL_PREFILL];
    stats->decoding = n[SEQUENCE_DECODING];
    stats->paused = n[SEQUENCE_PAUSED];
    const uint32_t n_pending = request_queue_count(&engine->pending);
    stats->queued = request_queue_count(&engine->queue) + n_pending;
    stats->waiting_tokens = request_queue_tokens(&engine->queue);
    stats->quarantined_transfers = handover_set_n_quarantined(&engine->handovers);
    schedule_count(engine->home.schedule, &counts);
    /* While requests wait, a free sequence does not help a new one: blocks are short. More may be paused than queue_max. */
    uint32_t queue_max = engine->options.queue_max;
    stats->room = counts.n_waiting < queue_max ? queue_max - counts.n_waiting : 0;
    if (counts.n_waiting == 0)
        stats->room += n[SEQUENCE_FREE];
    assert(counts.n_waiting + n_pending == stats->queued + stats->paused);
    assert(counts.n_fetching == stats->reserved + stats->fetching + stats->committing);
    assert(counts.n_computing + counts.n_decoding == stats->local_prefill + stats->decoding);
    assert(counts.n_done == 0 && "no reader holds a request after its end");
}

static void look_for_lost_blocks(struct gen_engine *engine, uint64_t now_ns)
{
    struct gen_engine_stats *stats = &engine->stats;
    uint32_t n_running = stats->reserved + stats->fetching + stats->committing +
                         stats->local_prefill + stats->decoding;
    bool is_idle = n_running + stats->quarantined_transfers == 0;
    if (!block_owners_begin(&engine->owners, is_idle, now_ns))
        return;
    for (uint32_t i = 0; i < engine->options.sequences_max; i++)
        block_owners_add_table(&engine->owners, &engine->home.sequences[i].table);
    handover_set_own(&engine->handovers, &engine->owners);
    stats->blocks_unowned = block_owners_count(&engine->owners);
}

void gen_engine_publish(void *arg, uint64_t now_ns)
{
    struct gen_engine *engine = arg;
    struct gen_engine_stats *stats = &engine->stats;
    count_states(engine);
    look_for_lost_blocks(engine, now_ns);
    stats->last_progress_ns = now_ns;
    assert(kv_manager_count(engine->home.manager, BLOCK_PINNED) == 0 &&
           "no reader uses blocks here");
    assert(stats->handovers_committed + stats->handovers_failed <= stats->handovers_started);
    for (enum block_state state = 0; state < BLOCK_STATES; state++)
        stats->blocks[state] = kv_manager_count(engine->home.manager, state);
    stats->n_blocks = kv_manager_size(engine->home.manager);
    stats->kv_bytes_received = kv_receiver_bytes_received(engine->options.receiver);
    stats->is_draining = engine->core.is_draining;
    stats->blocks_evicted = kv_manager_evictions(engine->home.manager);
    prefix_tier_count(engine->home.tier, &stats->tier);
    published_put(&engine->published, stats, sizeof *stats);
}
