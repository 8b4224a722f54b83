#include "worker_common/compat_metrics.h"

#include <assert.h>
#include <stdio.h>

METRICS_DEFINE(compat_series, COMPAT_METRICS)

void compat_metrics_init(struct compat_metrics *compat, struct metrics *metrics,
                         uint32_t block_tokens, uint32_t n_blocks)
{
    assert(!compat->is_on && n_blocks > 0 && "its labels never change");
    compat_series_init(&compat->series, metrics);
    snprintf(compat->labels, sizeof compat->labels, "block_size=%u,num_gpu_blocks=%u", block_tokens,
             n_blocks);
    gauge_set(
        metrics_gauge(
            metrics, "vllm:cache_config_info", compat->labels,
            "Tokens in a KV block and number of KV blocks, on any device; the value is always 1."),
        1);
    compat->is_on = true;
}

void compat_metrics_update(const struct compat_metrics *compat, uint32_t waiting, uint32_t running,
                           double usage)
{
    if (!compat->is_on)
        return;
    gauge_set(compat->series.waiting, waiting);
    gauge_set(compat->series.running, running);
    gauge_set(compat->series.usage, usage);
}
