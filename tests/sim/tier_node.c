/* The tier of a simulated worker. */
#include "tests/sim/tier_node.h"

#include "base/clock.h"
#include "tests/sim/tier_disk.h"

#include <stdlib.h>

static void on_piece(void *arg)
{
    struct worker_node *worker = arg;
    worker->cluster->wire.nodes[worker->node].is_due = true;
}

/* Not in crowds, where a prompt must be computed by a context worker. */
static bool has_tier(const struct worker_node *worker, bool is_paged)
{
    const struct plan *plan = worker->cluster->plan;
    return plan->prefix_cache && plan->seed % 3 != 1 && is_paged && plan->kind != PLAN_CROWD &&
           plan->kind != PLAN_AGAIN;
}

void tier_node_start(struct worker_node *worker, const struct geometry *geometry, bool is_paged)
{
    const size_t block_bytes = geometry_block_bytes(geometry);
    worker->tier_next_ns = TIMELINE_NEVER;
    if (!has_tier(worker, is_paged))
        return;
    const uint64_t seed = worker->cluster->plan->seed * 31 + worker->node;
    if (!worker->disk)
        worker->disk = tier_disk_create(seed, 16 + (uint32_t)(seed % 300), block_bytes);
    const struct kv_tier_options options = {
        .ops = &TIER_DISK_OPS,
        .store = worker->disk,
        .block_bytes = block_bytes,
        .stores_max = 2 + (uint32_t)(seed % 64),
        .pieces_max = prefix_tier_pieces_min(geometry),
        .keys_max = prefix_tier_keys_max(geometry, plan_context_tokens(worker->cluster->plan)),
        .wipes = seed % 2,
    };
    if (kv_tier_create(&options, &worker->tier) != STATUS_OK)
        abort();
    kv_tier_on_piece(worker->tier, on_piece, worker);
}

uint64_t tier_node_limit_ns(const struct worker_node *worker)
{
    return (1 + worker->cluster->plan->seed % 60) * NS_PER_MS;
}

bool tier_node_run(struct worker_node *worker)
{
    const uint64_t now_ns = worker->cluster->timeline.now_ns;
    if (!worker->tier || worker->tier_next_ns > now_ns)
        return false;
    const bool has_done = kv_tier_work(worker->tier);
    worker->tier_next_ns = has_done ? now_ns + tier_disk_delay_ns(worker->disk) : TIMELINE_NEVER;
    return has_done;
}

void tier_node_collect(struct worker_node *worker, const struct prefix_tier_figures *figures)
{
    struct totals *totals = worker->cluster->totals;
    totals->tier_stored += figures->tier.n_stored;
    totals->tier_dropped += figures->tier.n_dropped;
    totals->tier_restored += figures->tokens;
    totals->tier_late += figures->n_late;
    totals->tier_missed += figures->tier.n_missed;
}
