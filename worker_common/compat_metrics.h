/*
 * compat_metrics - metrics for inference gateways, under the names that they read.
 *
 * The endpoint picker of Kubernetes' inference gateways reads vLLM's names by default. Only with
 * metrics_compat vllm, because promtool objects to the colons in these names.
 *
 * Thread: update on the engine thread.
 */
#pragma once

#include "base/metrics/metrics.h"

#include <stdbool.h>

#define COMPAT_METRICS(X)                                                                          \
    X(GAUGE, waiting, "vllm:num_requests_waiting", "", "As the worker's own _waiting.")            \
    X(GAUGE, running, "vllm:num_requests_running", "", "As the worker's own _running.")            \
    X(GAUGE, usage, "vllm:kv_cache_usage_perc", "",                                                \
      "As kvferry_kv_cache_usage_ratio: 1 is all of it.")

METRICS_DECLARE(compat_series, COMPAT_METRICS);

struct compat_metrics {
    bool is_on;
    struct compat_series series;
    char labels[64]; /* the registry borrows them */
};

/* compat must outlive the registry; without this call updates do nothing. */
void compat_metrics_init(struct compat_metrics *compat, struct metrics *metrics,
                         uint32_t block_tokens, uint32_t n_blocks);
void compat_metrics_update(const struct compat_metrics *compat, uint32_t waiting, uint32_t running,
                           double usage);
