#include "ctx_worker/ctx_metrics.h"

#include <assert.h>

METRICS_DEFINE(ctx_series, CTX_METRICS)

void ctx_metrics_init(struct ctx_metrics *metrics, struct metrics *registry)
{
    *metrics = (struct ctx_metrics){0};
    worker_metrics_init(&metrics->common, registry);
    ctx_series_init(&metrics->series, registry);
    status_counters_init(&metrics->ended, registry, "kvferry_prefills_total",
                         "Prefills requested from this worker, by how they ended.");
}

void ctx_metrics_transport(struct ctx_metrics *metrics, struct metrics *registry,
                           const char *transport)
{
    transfer_bytes_init(&metrics->sent, registry, transport, "sent");
}

static void count_step(struct ctx_metrics *metrics, const struct ctx_engine_stats *stats,
                       uint64_t step_ns)
{
    assert(stats->steps >= metrics->last.steps && "totals only grow");
    if (stats->steps == metrics->last.steps)
        return;
    assert(stats->prompt_tokens_computed > metrics->last.computed && "a counted step has computed");
    histogram_observe(metrics->series.step, (double)step_ns / (double)NS_PER_S);
    histogram_observe(metrics->common.batch_tokens,
                      (double)(stats->prompt_tokens_computed - metrics->last.computed));
    metrics->last.steps = stats->steps;
}

static void follow(struct ctx_metrics *metrics, const struct ctx_engine_stats *stats)
{
    struct ctx_totals *last = &metrics->last;
    const struct worker_metrics *common = &metrics->common;
    counter_follow(common->evictions, stats->blocks_evicted, &last->evictions);
    counter_follow(common->rows_not_finite, stats->rows_not_finite, &last->rows_not_finite);
    counter_follow(common->computed, stats->prompt_tokens_computed, &last->computed);
    counter_follow(common->cached, stats->prompt_tokens_cached, &last->cached);
    counter_follow(common->prefix_hit, stats->prompt_tokens_cached, &last->prefix_hit);
    counter_follow(common->prefix_query, stats->prefix_query_tokens, &last->prefix_query);
    counter_follow(metrics->series.commits, stats->commits_ok, &last->commits);
    counter_follow(metrics->series.commits_refused, stats->commits_refused, &last->commits_refused);
    counter_follow(metrics->series.expired, stats->leases_expired, &last->expired);
}

void ctx_metrics_update(struct ctx_metrics *metrics, const struct ctx_engine_stats *stats,
                        const struct kv_sender *sender, uint64_t step_ns)
{
    assert(metrics->sent.counter && "the transport is known before the first step");
    assert(stats->prompt_tokens_cached <= stats->prefix_query_tokens);
    count_step(metrics, stats, step_ns);
    worker_metrics_blocks(&metrics->common, stats->blocks, stats->n_blocks);
    gauge_set(metrics->common.blocks_unowned, stats->blocks_unowned);
    uint32_t n_running = stats->computing + stats->sealed;
    gauge_set(metrics->series.running, n_running);
    gauge_set(metrics->series.waiting, stats->queued);
    gauge_set(metrics->series.waiting_tokens, (double)stats->waiting_tokens);
    compat_metrics_update(&metrics->compat, stats->queued, n_running,
                          gauge_value(metrics->common.usage));
    follow(metrics, stats);
    counter_follow(metrics->sent.counter, kv_sender_bytes_sent(sender), &metrics->sent.last);
    counter_follow(metrics->series.pieces_refused, kv_sender_pieces_refused(sender),
                   &metrics->last.pieces_refused);
}
