/*
 * gen_metrics - the metrics that only a generation worker has.
 *
 * Thread: gen_metrics_update on the engine thread, after each step; the histograms of decodes from
 * gen_service, on the same thread; ended by any.
 */
#pragma once

#include "base/metrics/status_counters.h"
#include "gen_worker/gen_engine.h"
#include "worker_common/compat_metrics.h"
#include "worker_common/worker_metrics.h"

#define GEN_METRICS(X)                                                                             \
    X(GAUGE, running, "kvferry_decodes_running", "",                                               \
      "Decodes that run: their prompt is fetched or computed, or they generate tokens.")           \
    X(GAUGE, waiting, "kvferry_decodes_waiting", "", "Decodes that wait for a slot.")              \
    X(GAUGE, waiting_tokens, "kvferry_decodes_waiting_tokens", "",                                 \
      "Prompt tokens of the decodes that wait for a slot.")                                        \
    X(GAUGE, paused, "kvferry_decodes_paused", "",                                                 \
      "Paused decodes: they gave their KV blocks back and wait for new ones; they also count as "  \
      "waiting.")                                                                                  \
    X(COUNTER, pauses, "kvferry_decode_pauses_total", "",                                          \
      "Pauses of decodes, to free KV blocks for older ones.")                                      \
    X(COUNTER, tokens_again, "kvferry_decode_tokens_again_total", "",                              \
      "Tokens whose KV was computed or fetched again after a pause.")                              \
    X(COUNTER, generated, "kvferry_generated_tokens_total", "", "Tokens generated.")               \
    X(COUNTER, drafted, "kvferry_draft_tokens_total", "",                                          \
      "Tokens of replies that were guessed, with speculate.")                                      \
    X(COUNTER, accepted, "kvferry_draft_tokens_accepted_total", "",                                \
      "Guessed tokens that were right and kept: each saved a pass.")                               \
    X(COUNTER, rows_fetched, "kvferry_logit_rows_fetched_total", "",                               \
      "Rows of logits copied whole from a GPU: sampling needed more than the candidates it "       \
      "selected, or more tokens had penalties than fit into a step.")                              \
    X(COUNTER, tokens_received, "kvferry_kv_tokens_received_total", "",                            \
      "Prompt tokens whose KV was received, verified and committed.")                              \
    X(COUNTER, tokens_recomputed, "kvferry_kv_tokens_recomputed_total", "",                        \
      "Prompt tokens computed here after their KV transfer had failed.")                           \
    X(COUNTER, committed, "kvferry_kv_handovers_total", "result=committed",                        \
      "KV transfers, by how they ended.")                                                          \
    X(COUNTER, failed, "kvferry_kv_handovers_total", "result=failed",                              \
      "KV transfers, by how they ended.")                                                          \
    X(COUNTER, place_context, "kvferry_prompts_total", "place=context_worker",                     \
      "Prompts, by where they were computed: on a context worker, or the reason why here.")        \
    X(COUNTER, place_short_prompt, "kvferry_prompts_total", "place=short_prompt",                  \
      "Prompts, by where they were computed: on a context worker, or the reason why here.")        \
    X(COUNTER, place_prefix_cached, "kvferry_prompts_total", "place=prefix_cached",                \
      "Prompts, by where they were computed: on a context worker, or the reason why here.")        \
    X(COUNTER, place_no_context, "kvferry_prompts_total", "place=no_context_worker",               \
      "Prompts, by where they were computed: on a context worker, or the reason why here.")        \
    X(COUNTER, place_pair_unfit, "kvferry_prompts_total", "place=pair_unfit",                      \
      "Prompts, by where they were computed: on a context worker, or the reason why here.")        \
    X(COUNTER, place_full, "kvferry_prompts_total", "place=hand_overs_full",                       \
      "Prompts, by where they were computed: on a context worker, or the reason why here.")        \
    X(COUNTER, place_fell_back, "kvferry_prompts_total", "place=hand_over_failed",                 \
      "Prompts, by where they were computed: on a context worker, or the reason why here.")        \
    X(COUNTER, place_contexts_full, "kvferry_prompts_total", "place=context_workers_full",         \
      "Prompts, by where they were computed: on a context worker, or the reason why here.")        \
    X(HISTOGRAM(BUCKETS_LATENCY), transfer, "kvferry_kv_transfer_seconds", "",                     \
      "Time of a KV transfer, from the first ready block to the commit.")                          \
    X(HISTOGRAM(BUCKETS_LATENCY), commit, "kvferry_kv_commit_seconds", "",                         \
      "Time from the request for the commit to the answer of the context worker: the last part "   \
      "of a KV transfer.")                                                                         \
    X(HISTOGRAM(BUCKETS_LATENCY), queue, "kvferry_decode_queue_seconds", "",                       \
      "Time that a decode waited for a slot.")                                                     \
    X(HISTOGRAM(BUCKETS_LATENCY), step, STEP_SECONDS_NAME, "phase=generation", STEP_SECONDS_HELP)  \
    X(HISTOGRAM(BUCKETS_COUNT), batch, "kvferry_batch_sequences", "",                              \
      "Sequences that decoded in a step.")

METRICS_DECLARE(gen_series, GEN_METRICS);

struct gen_metrics {
    struct worker_metrics common;
    struct compat_metrics compat; /* off unless initialised */
    struct gen_series series;
    struct status_counters ended, transfer_failures;
    struct transfer_bytes received;               /* from gen_metrics_transport on */
    char kernel_labels[WORKER_KERNEL_LABELS_MAX]; /* the registry borrows them */
    struct gen_totals {
        uint64_t computed, cached, remote, generated, prefix_query, prefix_hit, tokens_received,
            tokens_recomputed, committed, failed, evictions, pauses, tokens_again, rows_fetched,
            rows_not_finite, drafted, accepted;
        uint64_t steps, steps_decode;
        uint64_t failed_by[STATUS_COUNT];
        uint64_t prompts[GEN_PLACES];
    } last; /* of the last update */
};

/* metrics must outlive registry. */
void gen_metrics_init(struct gen_metrics *metrics, struct metrics *registry);
/* The transport's name, when it is known; before the first update. */
void gen_metrics_transport(struct gen_metrics *metrics, struct metrics *registry,
                           const char *transport);

/* A decode has ended. */
void gen_metrics_ended(const struct gen_metrics *metrics, const struct gen_finish *finish);

void gen_metrics_update(struct gen_metrics *metrics, const struct gen_engine_stats *stats,
                        uint64_t bytes_received, uint64_t step_ns);
