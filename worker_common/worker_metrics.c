#include "worker_common/worker_metrics.h"

#include "worker_common/adapter_set.h"

#include <assert.h>
#include <stdio.h>

METRICS_DEFINE(worker_metrics, WORKER_METRICS)

struct gauge *worker_metrics_load_progress(struct metrics *metrics)
{
    return metrics_gauge(metrics, "kvferry_model_load_progress_ratio", "",
                         "Share of the model that is loaded.");
}

void worker_metrics_kernels(struct metrics *metrics, const struct process_kernels *kernels,
                            char labels_out[WORKER_KERNEL_LABELS_MAX])
{
    const int n = snprintf(labels_out, WORKER_KERNEL_LABELS_MAX,
                           "products=%s,attention=%s,chosen_by=%s", kernels->products,
                           kernels->attention, kernels->chosen_by);
    assert(n > 0 && n < WORKER_KERNEL_LABELS_MAX);
    gauge_set(metrics_gauge(metrics, KERNELS_INFO_NAME, labels_out, KERNELS_INFO_HELP), 1);
}

void worker_metrics_capacity(const struct worker_metrics *metrics,
                             const struct worker_capacity *capacity)
{
    gauge_set(metrics->blocks_max, capacity->n_blocks);
    gauge_set(metrics->block_tokens, capacity->block_tokens);
    gauge_set(metrics->sequences_max, capacity->sequences_max);
    gauge_set(metrics->queue_max, capacity->queue_max);
}

void transfer_bytes_init(struct transfer_bytes *bytes, struct metrics *metrics,
                         const char *transport, const char *direction)
{
    snprintf(bytes->labels, sizeof bytes->labels, "transport=%s,direction=%s", transport,
             direction);
    assert(!bytes->counter && "a worker has one transport");
    bytes->counter = metrics_counter(metrics, "kvferry_kv_transfer_bytes_total", bytes->labels,
                                     KV_TRANSFER_BYTES_HELP);
    bytes->last = 0;
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
    assert(idle <= n_blocks);
    gauge_set(metrics->usage, n_blocks ? (double)(n_blocks - idle) / n_blocks : 0);
}

void worker_metrics_data_port(const struct worker_metrics *metrics,
                              const struct transport *transport, struct port_figures *last_inout)
{
    struct counter *const refused[PORT_REFUSALS] = {
        [PORT_PROOF] = metrics->port_proof,
        [PORT_PROOF_TIME] = metrics->port_proof_time,
        [PORT_UNPROVEN_LIMIT] = metrics->port_unproven_limit,
        [PORT_STRANGER] = metrics->port_stranger,
        [PORT_RESOURCES] = metrics->port_resources,
    };
    struct port_figures now;
    port_counts_read(&transport->port, &now);
    gauge_set(metrics->port_unproven, now.n_unproven);
    gauge_set(metrics->port_proven, now.n_proven);
    for (int i = 0; i < PORT_REFUSALS; i++)
        counter_follow(refused[i], now.refused[i], &last_inout->refused[i]);
    counter_follow(metrics->port_bad_messages, now.bad_messages, &last_inout->bad_messages);
}

void worker_metrics_adapters(const struct worker_metrics *metrics, struct adapter_set *adapters)
{
    gauge_set(metrics->adapters, adapter_set_count(adapters));
    gauge_set(metrics->adapter_bytes, (double)adapter_set_bytes(adapters));
}

void counter_follow(struct counter *counter, uint64_t total, uint64_t *last_inout)
{
    if (total > *last_inout)
        counter_add(counter, total - *last_inout);
    *last_inout = total;
}
