#include "gen_worker/gen_metrics.h"

METRICS_DEFINE(gen_metrics, GEN_METRICS)

static void count_places(const struct gen_metrics *metrics, const struct gen_engine_stats *stats,
                         struct gen_totals *last)
{
    struct counter *const counters[GEN_PLACES] = {
        [GEN_PLACE_CONTEXT_WORKER] = metrics->place_context,
        [GEN_PLACE_SHORT_PROMPT] = metrics->place_short_prompt,
        [GEN_PLACE_PREFIX_CACHED] = metrics->place_prefix_cached,
        [GEN_PLACE_NO_CONTEXT_WORKER] = metrics->place_no_context,
        [GEN_PLACE_PAIR_UNFIT] = metrics->place_pair_unfit,
        [GEN_PLACE_HAND_OVERS_FULL] = metrics->place_full,
        [GEN_PLACE_HAND_OVER_FAILED] = metrics->place_fell_back,
    };
    for (enum gen_place place = GEN_PLACE_CONTEXT_WORKER; place < GEN_PLACES; place++)
        counter_follow(counters[place], stats->prompts[place], &last->prompts[place]);
}

void gen_metrics_update(const struct gen_metrics *metrics, const struct worker_metrics *common,
                        const struct gen_engine_stats *stats, uint64_t bytes_received,
                        struct gen_totals *totals_inout)
{
    struct gen_totals *last = totals_inout;
    worker_metrics_blocks(common, stats->blocks, stats->n_blocks);
    gauge_set(common->running, stats->reserved + stats->fetching + stats->committing +
                                   stats->local_prefill + stats->decoding);
    gauge_set(common->waiting, stats->queued);
    counter_follow(common->evictions, stats->blocks_evicted, &last->evictions);
    counter_follow(metrics->computed, stats->prompt_tokens_computed, &last->computed);
    counter_follow(metrics->cached, stats->prompt_tokens_cached, &last->cached);
    counter_follow(metrics->remote, stats->prompt_tokens_remote, &last->remote);
    counter_follow(metrics->generated, stats->generated_tokens, &last->generated);
    counter_follow(metrics->prefix_hit, stats->prompt_tokens_cached, &last->prefix_hit);
    counter_follow(metrics->prefix_query, stats->prefix_query_tokens, &last->prefix_query);
    counter_follow(metrics->bytes_received, bytes_received, &last->bytes_received);
    counter_follow(metrics->tokens_received, stats->kv_tokens_received, &last->tokens_received);
    counter_follow(metrics->tokens_recomputed, stats->kv_tokens_recomputed,
                   &last->tokens_recomputed);
    counter_follow(metrics->committed, stats->handovers_committed, &last->committed);
    counter_follow(metrics->failed, stats->handovers_failed, &last->failed);
    count_places(metrics, stats, last);
    counter_follow(metrics->finished, stats->requests_ok, &last->finished);
    counter_follow(metrics->finished_failed, stats->requests_finished - stats->requests_ok,
                   &last->finished_failed);
}
