#include "gen_worker/gen_metrics.h"

#include <assert.h>

METRICS_DEFINE(gen_series, GEN_METRICS)

void gen_metrics_init(struct gen_metrics *metrics, struct metrics *registry)
{
    *metrics = (struct gen_metrics){0};
    worker_metrics_init(&metrics->common, registry);
    gen_series_init(&metrics->series, registry);
    status_counters_init(&metrics->ended, registry, "kvferry_decodes_total",
                         "Decodes requested from this worker, by how they ended.");
    status_counters_init_failures(&metrics->transfer_failures, registry,
                                  "kvferry_kv_transfer_failures_total",
                                  "KV transfers that failed, by reason.");
}

void gen_metrics_transport(struct gen_metrics *metrics, struct metrics *registry,
                           const char *transport)
{
    transfer_bytes_init(&metrics->received, registry, transport, "received");
}

static double seconds(uint64_t us)
{
    return (double)us / 1e6;
}

void gen_metrics_ended(const struct gen_metrics *metrics, const struct gen_finish *finish)
{
    const struct gen_timing *timing = &finish->timing;
    histogram_observe(metrics->series.queue, seconds(timing->wait_us));
    if (timing->kv_tokens_received > 0) {
        histogram_observe(metrics->series.transfer, seconds(timing->transfer_us));
        histogram_observe(metrics->series.commit, seconds(timing->commit_us));
    }
    if (timing->prefill_us > 0 && finish->place != GEN_PLACE_CONTEXT_WORKER)
        histogram_observe(metrics->common.prefill, seconds(timing->prefill_us));
    status_counters_add(&metrics->ended, finish->status);
}

static void count_places(struct gen_metrics *metrics, const struct gen_engine_stats *stats)
{
    struct counter *const counters[GEN_PLACES] = {
        [GEN_PLACE_CONTEXT_WORKER] = metrics->series.place_context,
        [GEN_PLACE_SHORT_PROMPT] = metrics->series.place_short_prompt,
        [GEN_PLACE_PREFIX_CACHED] = metrics->series.place_prefix_cached,
        [GEN_PLACE_NO_CONTEXT_WORKER] = metrics->series.place_no_context,
        [GEN_PLACE_PAIR_UNFIT] = metrics->series.place_pair_unfit,
        [GEN_PLACE_HAND_OVERS_FULL] = metrics->series.place_full,
        [GEN_PLACE_CONTEXT_WORKERS_FULL] = metrics->series.place_contexts_full,
        [GEN_PLACE_HAND_OVER_FAILED] = metrics->series.place_fell_back,
    };
    for (enum gen_place place = GEN_PLACE_CONTEXT_WORKER; place < GEN_PLACES; place++)
        counter_follow(counters[place], stats->prompts[place], &metrics->last.prompts[place]);
}

static void count_step(struct gen_metrics *metrics, const struct gen_engine_stats *stats,
                       uint64_t step_ns)
{
    struct gen_totals *last = &metrics->last;
    if (stats->steps == last->steps)
        return;
    assert(stats->steps > last->steps && "of one engine, in order");
    bool has_decoded = stats->steps_decode != last->steps_decode;
    uint64_t n_prompt = stats->prompt_tokens_computed - last->computed;
    histogram_observe(metrics->series.step, seconds(step_ns / NS_PER_US));
    if (has_decoded)
        histogram_observe(metrics->series.batch, stats->batch_sequences);
    histogram_observe(metrics->common.batch_tokens,
                      (double)(n_prompt + (has_decoded ? stats->batch_sequences : 0)));
    last->steps = stats->steps;
    last->steps_decode = stats->steps_decode;
}

static void count_handovers(struct gen_metrics *metrics, const struct gen_engine_stats *stats)
{
    struct gen_totals *last = &metrics->last;
    counter_follow(metrics->series.committed, stats->handovers_committed, &last->committed);
    counter_follow(metrics->series.failed, stats->handovers_failed, &last->failed);
    for (enum status status = STATUS_OK + 1; status < STATUS_COUNT; status++)
        counter_follow(metrics->transfer_failures.of[status], stats->handovers_failed_by[status],
                       &last->failed_by[status]);
    counter_follow(metrics->series.tokens_received, stats->kv_tokens_received,
                   &last->tokens_received);
    counter_follow(metrics->series.tokens_recomputed, stats->kv_tokens_recomputed,
                   &last->tokens_recomputed);
}

static void count_tokens(struct gen_metrics *metrics, const struct gen_engine_stats *stats)
{
    struct gen_totals *last = &metrics->last;
    const struct worker_metrics *common = &metrics->common;
    counter_follow(common->evictions, stats->blocks_evicted, &last->evictions);
    counter_follow(common->computed, stats->prompt_tokens_computed, &last->computed);
    counter_follow(common->cached, stats->prompt_tokens_cached, &last->cached);
    counter_follow(common->remote, stats->prompt_tokens_remote, &last->remote);
    counter_follow(common->prefix_hit, stats->prompt_tokens_cached, &last->prefix_hit);
    counter_follow(common->prefix_query, stats->prefix_query_tokens, &last->prefix_query);
    counter_follow(metrics->series.generated, stats->generated_tokens, &last->generated);
    counter_follow(metrics->series.drafted, stats->draft_tokens, &last->drafted);
    counter_follow(metrics->series.accepted, stats->draft_tokens_accepted, &last->accepted);
    counter_follow(metrics->series.pauses, stats->pauses, &last->pauses);
    counter_follow(metrics->series.tokens_again, stats->tokens_again, &last->tokens_again);
    counter_follow(metrics->series.rows_fetched, stats->rows_fetched, &last->rows_fetched);
    counter_follow(metrics->common.rows_not_finite, stats->rows_not_finite, &last->rows_not_finite);
}

void gen_metrics_update(struct gen_metrics *metrics, const struct gen_engine_stats *stats,
                        uint64_t bytes_received, uint64_t step_ns)
{
    assert(metrics->received.counter && "gen_metrics_transport comes first");
    count_step(metrics, stats, step_ns);
    worker_metrics_blocks(&metrics->common, stats->blocks, stats->n_blocks);
    gauge_set(metrics->common.blocks_unowned, stats->blocks_unowned);
    uint32_t n_running = stats->reserved + stats->fetching + stats->committing +
                         stats->local_prefill + stats->decoding;
    gauge_set(metrics->series.running, n_running);
    gauge_set(metrics->series.waiting, stats->queued + stats->paused);
    gauge_set(metrics->series.paused, stats->paused);
    gauge_set(metrics->series.waiting_tokens, (double)stats->waiting_tokens);
    compat_metrics_update(&metrics->compat, stats->queued + stats->paused, n_running,
                          gauge_value(metrics->common.usage));
    count_tokens(metrics, stats);
    count_handovers(metrics, stats);
    count_places(metrics, stats);
    counter_follow(metrics->received.counter, bytes_received, &metrics->received.last);
}
