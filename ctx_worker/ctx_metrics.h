/*
 * ctx_metrics - the metrics that only a context worker has.
 *
 * Thread: ctx_metrics_update on the engine thread, after each step; the rest any.
 */
#pragma once

#include "base/metrics/status_counters.h"
#include "ctx_worker/ctx_engine.h"
#include "worker_common/compat_metrics.h"
#include "worker_common/worker_metrics.h"

#define CTX_METRICS(X)                                                                             \
    X(GAUGE, running, "kvferry_prefills_running", "",                                              \
      "Prefills that run: computed now, or done and kept until their KV blocks were fetched.")     \
    X(GAUGE, waiting, "kvferry_prefills_waiting", "", "Prefills that wait for a slot.")            \
    X(GAUGE, waiting_tokens, "kvferry_prefills_waiting_tokens", "",                                \
      "Prompt tokens that are still to be computed, of waiting and of running prefills.")          \
    X(HISTOGRAM(BUCKETS_LATENCY), queue, "kvferry_prefill_queue_seconds", "",                      \
      "Time that a prefill waited for a slot.")                                                    \
    X(COUNTER, pieces_refused, "kvferry_kv_pieces_refused_total", "",                              \
      "KV reads refused because a generation worker had too many at one time.")                    \
    X(COUNTER, commits, "kvferry_kv_commits_total", "result=ok",                                   \
      "Commits of KV transfers that were answered.")                                               \
    X(COUNTER, commits_refused, "kvferry_kv_commits_total", "result=refused",                      \
      "Commits of KV transfers that were answered.")                                               \
    X(COUNTER, expired, "kvferry_kv_leases_expired_total", "",                                     \
      "KV transfers that ended by a timeout or without a commit while their blocks were "          \
      "reserved.")                                                                                 \
    X(HISTOGRAM(BUCKETS_LATENCY), step, STEP_SECONDS_NAME, "phase=context", STEP_SECONDS_HELP)

METRICS_DECLARE(ctx_series, CTX_METRICS);

struct ctx_metrics {
    struct worker_metrics common;
    struct compat_metrics compat; /* off unless initialised */
    struct ctx_series series;
    struct status_counters ended;
    struct transfer_bytes sent;                   /* from ctx_metrics_transport on */
    char kernel_labels[WORKER_KERNEL_LABELS_MAX]; /* the registry borrows them */
    struct ctx_totals {
        uint64_t computed, cached, prefix_query, prefix_hit, pieces_refused, commits,
            commits_refused, expired, evictions, rows_not_finite;
        uint64_t steps;
    } last; /* of the last update */
};

/* metrics must outlive registry. */
void ctx_metrics_init(struct ctx_metrics *metrics, struct metrics *registry);
/* The transport's name, when it is known; before the first update. */
void ctx_metrics_transport(struct ctx_metrics *metrics, struct metrics *registry,
                           const char *transport);

void ctx_metrics_update(struct ctx_metrics *metrics, const struct ctx_engine_stats *stats,
                        const struct kv_sender *sender, uint64_t step_ns);
