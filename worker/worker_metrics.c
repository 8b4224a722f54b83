#include "worker/worker_metrics.h"

METRICS_DEFINE(worker_metrics, WORKER_METRICS)

struct gauge *worker_metrics_load_progress(struct metrics *metrics)
{
    return metrics_gauge(metrics, "kvferry_model_load_progress_ratio", "",
                         "Part of the model that has been loaded.");
}

void worker_metrics_blocks(const struct worker_metrics *metrics,
                           const uint32_t blocks[BLOCK_STATES], uint32_t n_blocks)
{
    gauge_set(metrics->blocks_free, blocks[BLOCK_FREE]);
    gauge_set(metrics->blocks_active, blocks[BLOCK_ACTIVE]);
    gauge_set(metrics->blocks_cached, blocks[BLOCK_CACHED]);
    gauge_set(metrics->blocks_pinned, blocks[BLOCK_PINNED]);
    gauge_set(metrics->blocks_inbound, blocks[BLOCK_INBOUND]);
    gauge_set(metrics->blocks_quarantined, blocks[BLOCK_QUARANTINED]);
    uint32_t idle = blocks[BLOCK_FREE] + blocks[BLOCK_CACHED];
    gauge_set(metrics->usage, n_blocks ? (double)(n_blocks - idle) / n_blocks : 0);
}

void counter_follow(struct counter *counter, uint64_t total, uint64_t *last_inout)
{
    if (total > *last_inout)
        counter_add(counter, total - *last_inout);
    *last_inout = total;
}
