/*
 * worker_metrics - what both workers count: blocks by state, steps, prompt tokens.
 *
 * Engines keep totals; counter_follow turns a total into additions, so that the metric never falls.
 *
 * Thread: worker_metrics_blocks and counter_follow on the engine thread.
 */
#pragma once

#include "base/metrics.h"
#include "kvcache/block_pool.h"

#define WORKER_METRICS(X)                                                                          \
    X(GAUGE, blocks_free, "kvferry_kv_blocks", "state=free", "KV blocks by state.")                \
    X(GAUGE, blocks_active, "kvferry_kv_blocks", "state=active", "KV blocks by state.")            \
    X(GAUGE, blocks_cached, "kvferry_kv_blocks", "state=cached", "KV blocks by state.")            \
    X(GAUGE, blocks_pinned, "kvferry_kv_blocks", "state=pinned", "KV blocks by state.")            \
    X(GAUGE, blocks_inbound, "kvferry_kv_blocks", "state=inbound", "KV blocks by state.")          \
    X(GAUGE, blocks_quarantined, "kvferry_kv_blocks", "state=quarantined", "KV blocks by state.")  \
    X(GAUGE, usage, "kvferry_kv_cache_usage_ratio", "",                                            \
      "Part of the KV blocks that is neither free nor cached.")                                    \
    X(GAUGE, running, "kvferry_requests_running", "", "Requests with a place in the batch.")       \
    X(GAUGE, waiting, "kvferry_requests_waiting", "", "Requests that wait for a place.")           \
    X(COUNTER, evictions, "kvferry_kv_evictions_total", "", "Blocks evicted from the prefix cache.")

METRICS_DECLARE(worker_metrics, WORKER_METRICS);

/* Registered before the model is loaded, apart from the rest. */
struct gauge *worker_metrics_load_progress(struct metrics *metrics);

void worker_metrics_blocks(const struct worker_metrics *metrics,
                           const uint32_t blocks[BLOCK_STATES], uint32_t n_blocks);

/* Adds what total has grown by since last time. */
void counter_follow(struct counter *counter, uint64_t total, uint64_t *last_inout);
