/*
 * ctx_metrics - what a context worker counts of its own.
 *
 * Thread: ctx_metrics_update on the engine thread, after each step.
 */
#pragma once

#include "ctx_worker/ctx_engine.h"
#include "worker/worker_metrics.h"

#define CTX_METRICS(X)                                                                             \
    X(COUNTER, computed, "kvferry_prompt_tokens_total", "source=compute",                          \
      "Prompt tokens by where their KV came from.")                                                \
    X(COUNTER, cached, "kvferry_prompt_tokens_total", "source=cache",                              \
      "Prompt tokens by where their KV came from.")                                                \
    X(COUNTER, prefix_query, "kvferry_prefix_query_tokens_total", "",                              \
      "Prompt tokens looked up in the prefix cache.")                                              \
    X(COUNTER, prefix_hit, "kvferry_prefix_hit_tokens_total", "",                                  \
      "Prompt tokens found in the prefix cache.")                                                  \
    X(COUNTER, sent, "kvferry_kv_transfer_bytes_total", "direction=sent",                          \
      "Bytes of KV blocks that crossed.")                                                          \
    X(COUNTER, pieces_refused, "kvferry_kv_pieces_refused_total", "",                              \
      "Pieces that readers asked for beyond what this worker takes of one.")                       \
    X(COUNTER, commits, "kvferry_kv_commits_total", "result=ok", "Commits answered.")              \
    X(COUNTER, commits_refused, "kvferry_kv_commits_total", "result=refused", "Commits answered.") \
    X(COUNTER, expired, "kvferry_kv_tickets_expired_total", "",                                    \
      "Leases that a deadline or a missing commit ended while their blocks were held.")            \
    X(COUNTER, finished, "kvferry_prefills_total", "result=ok", "Prefills by how they ended.")     \
    X(COUNTER, failed, "kvferry_prefills_total", "result=failed", "Prefills by how they ended.")   \
    X(HISTOGRAM(BUCKETS_LATENCY), step, "kvferry_step_seconds", "phase=context",                   \
      "Time of one step that computed.")

METRICS_DECLARE(ctx_metrics, CTX_METRICS);

/* The totals of the last update. */
struct ctx_totals {
    uint64_t computed, cached, prefix_query, prefix_hit, sent, pieces_refused, commits,
        commits_refused, expired, finished, failed, evictions;
    uint64_t steps;
};

void ctx_metrics_update(const struct ctx_metrics *metrics, const struct worker_metrics *common,
                        const struct ctx_engine_stats *stats, const struct kv_sender *sender,
                        struct ctx_totals *totals_inout);
