/*
 * gen_metrics - what a generation worker counts of its own.
 *
 * Thread: gen_metrics_update on the engine thread, after each step; the histograms of requests from
 * gen_service, on the same thread.
 */
#pragma once

#include "gen_worker/gen_engine.h"
#include "worker/worker_metrics.h"

#define GEN_METRICS(X)                                                                             \
    X(COUNTER, computed, "kvferry_prompt_tokens_total", "source=compute",                          \
      "Prompt tokens by where their KV came from.")                                                \
    X(COUNTER, cached, "kvferry_prompt_tokens_total", "source=cache",                              \
      "Prompt tokens by where their KV came from.")                                                \
    X(COUNTER, remote, "kvferry_prompt_tokens_total", "source=remote",                             \
      "Prompt tokens by where their KV came from.")                                                \
    X(COUNTER, generated, "kvferry_generated_tokens_total", "", "Tokens generated.")               \
    X(COUNTER, prefix_query, "kvferry_prefix_query_tokens_total", "",                              \
      "Prompt tokens looked up in the prefix cache.")                                              \
    X(COUNTER, prefix_hit, "kvferry_prefix_hit_tokens_total", "",                                  \
      "Prompt tokens found in the prefix cache.")                                                  \
    X(COUNTER, bytes_received, "kvferry_kv_bytes_received_total", "",                              \
      "Bytes of KV blocks received.")                                                              \
    X(COUNTER, tokens_received, "kvferry_kv_tokens_received_total", "",                            \
      "Prompt tokens whose KV was received, verified and committed.")                              \
    X(COUNTER, tokens_recomputed, "kvferry_kv_tokens_recomputed_total", "",                        \
      "Prompt tokens computed here after their hand-over had failed.")                             \
    X(COUNTER, committed, "kvferry_kv_handovers_total", "result=committed",                        \
      "Hand-overs by how they ended.")                                                             \
    X(COUNTER, failed, "kvferry_kv_handovers_total", "result=failed",                              \
      "Hand-overs by how they ended.")                                                             \
    X(COUNTER, place_context, "kvferry_prompts_total", "place=context_worker",                     \
      "Prompts by where they were computed: by a context worker, or why here.")                    \
    X(COUNTER, place_short_prompt, "kvferry_prompts_total", "place=short_prompt",                  \
      "Prompts by where they were computed: by a context worker, or why here.")                    \
    X(COUNTER, place_prefix_cached, "kvferry_prompts_total", "place=prefix_cached",                \
      "Prompts by where they were computed: by a context worker, or why here.")                    \
    X(COUNTER, place_no_context, "kvferry_prompts_total", "place=no_context_worker",               \
      "Prompts by where they were computed: by a context worker, or why here.")                    \
    X(COUNTER, place_pair_unfit, "kvferry_prompts_total", "place=pair_unfit",                      \
      "Prompts by where they were computed: by a context worker, or why here.")                    \
    X(COUNTER, place_full, "kvferry_prompts_total", "place=hand_overs_full",                       \
      "Prompts by where they were computed: by a context worker, or why here.")                    \
    X(COUNTER, place_fell_back, "kvferry_prompts_total", "place=hand_over_failed",                 \
      "Prompts by where they were computed: by a context worker, or why here.")                    \
    X(COUNTER, finished, "kvferry_requests_total", "result=ok", "Requests by how they ended.")     \
    X(COUNTER, finished_failed, "kvferry_requests_total", "result=failed",                         \
      "Requests by how they ended.")                                                               \
    X(HISTOGRAM(BUCKETS_LATENCY), transfer, "kvferry_kv_transfer_seconds", "",                     \
      "From the first ready event to the commit.")                                                 \
    X(HISTOGRAM(BUCKETS_LATENCY), queue, "kvferry_request_queue_seconds", "stage=generation",      \
      "Wait for a place, here and at the context worker.")                                         \
    X(HISTOGRAM(BUCKETS_LATENCY), step, "kvferry_step_seconds", "phase=generation",                \
      "Time of one step that computed.")                                                           \
    X(HISTOGRAM(BUCKETS_COUNT), batch, "kvferry_batch_sequences", "",                              \
      "Sequences that decoded in a step.")

METRICS_DECLARE(gen_metrics, GEN_METRICS);

/* The totals of the last update. */
struct gen_totals {
    uint64_t computed, cached, remote, generated, prefix_query, prefix_hit, bytes_received,
        tokens_received, tokens_recomputed, committed, failed, finished, finished_failed, evictions;
    uint64_t steps;
    uint64_t prompts[GEN_PLACES];
};

void gen_metrics_update(const struct gen_metrics *metrics, const struct worker_metrics *common,
                        const struct gen_engine_stats *stats, uint64_t bytes_received,
                        struct gen_totals *totals_inout);
