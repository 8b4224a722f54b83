#include "ctx_worker/ctx_metrics.h"

METRICS_DEFINE(ctx_metrics, CTX_METRICS)

void ctx_metrics_update(const struct ctx_metrics *metrics, const struct worker_metrics *common,
                        const struct ctx_engine_stats *stats, const struct kv_sender *sender,
                        struct ctx_totals *totals_inout)
{
    struct ctx_totals *last = totals_inout;
    worker_metrics_blocks(common, stats->blocks, stats->n_blocks);
    gauge_set(common->running, stats->computing + stats->sealed);
    gauge_set(common->waiting, stats->queued);
    counter_follow(common->evictions, stats->blocks_evicted, &last->evictions);
    counter_follow(metrics->computed, stats->prompt_tokens_computed, &last->computed);
    counter_follow(metrics->cached, stats->prompt_tokens_cached, &last->cached);
    counter_follow(metrics->prefix_hit, stats->prompt_tokens_cached, &last->prefix_hit);
    counter_follow(metrics->prefix_query, stats->prefix_query_tokens, &last->prefix_query);
    counter_follow(metrics->sent, kv_sender_bytes_sent(sender), &last->sent);
    counter_follow(metrics->pieces_refused, kv_sender_pieces_refused(sender),
                   &last->pieces_refused);
    counter_follow(metrics->commits, stats->commits_ok, &last->commits);
    counter_follow(metrics->commits_refused, stats->commits_refused, &last->commits_refused);
    counter_follow(metrics->expired, stats->leases_expired, &last->expired);
    counter_follow(metrics->finished, stats->requests_ok, &last->finished);
    counter_follow(metrics->failed, stats->requests_finished - stats->requests_ok, &last->failed);
}
