/*
 * worker_metrics - the metrics of both workers: blocks by state, steps, prompt tokens, data port.
 *
 * Engines keep totals; counter_follow adds the increase of a total to the metric, which so never
 * falls.
 *
 * Thread: worker_metrics_blocks: the engine thread. worker_metrics_data_port: main, because peers
 * also connect while no engine runs. counter_follow: the thread of its total.
 */
#pragma once

#include "base/metrics/metrics.h"
#include "kvcache/block_pool.h"
#include "kvtransfer/transport/transport.h"
#include "process/event_streams.h"
#include "process/process_state.h"

#define DATA_PORT_CONNECTIONS_HELP                                                                 \
    "Connections to the data port (transports unix and tls), by whether they are authenticated."
#define DATA_PORT_REFUSED_HELP                                                                     \
    "Connections to the data port that were closed before they were authenticated, by reason: "    \
    "\"stranger\" (am-tcp: the host is not that of a known worker, or the user is another), "      \
    "\"proof\" (authentication failed or was interrupted), \"proof_time\" (longer than "           \
    "kv_proof_ms), \"unproven_limit\" (more than kv_unproven_max), \"resources\" (no "             \
    "descriptor or memory)."

#define DATA_PORT_METRICS(X)                                                                       \
    X(GAUGE, port_unproven, "kvferry_data_port_connections", "state=unproven",                     \
      DATA_PORT_CONNECTIONS_HELP)                                                                  \
    X(GAUGE, port_proven, "kvferry_data_port_connections", "state=proven",                         \
      DATA_PORT_CONNECTIONS_HELP)                                                                  \
    X(COUNTER, port_stranger, "kvferry_data_port_refused_total", "reason=stranger",                \
      DATA_PORT_REFUSED_HELP)                                                                      \
    X(COUNTER, port_proof, "kvferry_data_port_refused_total", "reason=proof",                      \
      DATA_PORT_REFUSED_HELP)                                                                      \
    X(COUNTER, port_proof_time, "kvferry_data_port_refused_total", "reason=proof_time",            \
      DATA_PORT_REFUSED_HELP)                                                                      \
    X(COUNTER, port_unproven_limit, "kvferry_data_port_refused_total", "reason=unproven_limit",    \
      DATA_PORT_REFUSED_HELP)                                                                      \
    X(COUNTER, port_resources, "kvferry_data_port_refused_total", "reason=resources",              \
      DATA_PORT_REFUSED_HELP)                                                                      \
    X(COUNTER, port_bad_messages, "kvferry_data_port_bad_messages_total", "",                      \
      "Messages that were dropped: malformed, or from an unknown worker.")

#define KERNELS_INFO_NAME "kvferry_kernels_info"
#define KERNELS_INFO_HELP                                                                          \
    "The sets of kernels that compute, in the labels, and how they were chosen: \"default\", "     \
    "\"configured\" or \"measured\"; the value is always 1."

#define PROMPT_TOKENS_HELP                                                                         \
    "Prompt tokens of this worker, by where their KV came from: computed here, its prefix cache, " \
    "or a context worker."

#define STEP_SECONDS_NAME "kvferry_step_seconds"
#define STEP_SECONDS_HELP                                                                          \
    "Time of a step that computed, by the phase of the worker; a step of a generation worker may " \
    "compute parts of prompts, too."

#define KV_TRANSFER_BYTES_HELP "Bytes of KV blocks transferred, verified or not."

#define TIER_BLOCKS_HELP  "KV blocks that left the prefix cache and are kept, by tier."
#define TIER_BYTES_HELP   "Bytes of KV blocks that are kept, by tier; a file counts with whole pages."
#define TIER_HITS_HELP    "KV blocks that were read for waiting requests, by tier."
#define TIER_REMOVED_HELP "KV blocks that were removed to keep the size of a tier."
#define TIER_NOT_KEPT_HELP                                                                         \
    "KV blocks that were evicted and not kept, by reason: \"full\" (those before were not "        \
    "written "                                                                                     \
    "yet), \"origins\" (their KV came from several context workers)."
#define TIER_ERRORS_HELP                                                                           \
    "KV blocks that kv_disk has lost, by kind: \"full\" (the disk, or a limit of the process), "   \
    "\"io\" (any other failure), \"corrupt\" (length or digest), \"foreign\" (of another model), " \
    "\"missing\" (the file was removed). Each is computed again."

#define TIER_METRICS(X)                                                                            \
    X(GAUGE, tier_host_blocks, "kvferry_kv_tier_blocks", "tier=host", TIER_BLOCKS_HELP)            \
    X(GAUGE, tier_disk_blocks, "kvferry_kv_tier_blocks", "tier=disk", TIER_BLOCKS_HELP)            \
    X(GAUGE, tier_host_bytes, "kvferry_kv_tier_bytes", "tier=host", TIER_BYTES_HELP)               \
    X(GAUGE, tier_disk_bytes, "kvferry_kv_tier_bytes", "tier=disk", TIER_BYTES_HELP)               \
    X(COUNTER, tier_host_hits, "kvferry_kv_tier_hits_total", "tier=host", TIER_HITS_HELP)          \
    X(COUNTER, tier_disk_hits, "kvferry_kv_tier_hits_total", "tier=disk", TIER_HITS_HELP)          \
    X(COUNTER, tier_host_removed, "kvferry_kv_tier_removed_total", "tier=host", TIER_REMOVED_HELP) \
    X(COUNTER, tier_disk_removed, "kvferry_kv_tier_removed_total", "tier=disk", TIER_REMOVED_HELP) \
    X(COUNTER, tier_stored, "kvferry_kv_tier_stored_total", "",                                    \
      "KV blocks that were written to the first tier.")                                            \
    X(COUNTER, tier_not_kept_full, "kvferry_kv_tier_not_kept_total", "reason=full",                \
      TIER_NOT_KEPT_HELP)                                                                          \
    X(COUNTER, tier_not_kept_origins, "kvferry_kv_tier_not_kept_total", "reason=origins",          \
      TIER_NOT_KEPT_HELP)                                                                          \
    X(COUNTER, tier_tokens, "kvferry_kv_tier_restored_tokens_total", "",                           \
      "Prompt tokens whose KV came back into the prefix cache from a tier.")                       \
    X(COUNTER, tier_restores, "kvferry_kv_tier_restores_total", "",                                \
      "Requests for which KV was read from a tier.")                                               \
    X(COUNTER, tier_late, "kvferry_kv_tier_restores_late_total", "",                               \
      "Of these, those that did not get all of it in kv_restore_ms.")                              \
    X(COUNTER, tier_short, "kvferry_kv_tier_restores_short_total", "",                             \
      "Of these, those that ended at a block that was lost.")                                      \
    X(COUNTER, tier_no_room, "kvferry_kv_tier_no_room_total", "",                                  \
      "KV blocks that were read and found no free KV block.")                                      \
    X(COUNTER, tier_full, "kvferry_kv_tier_errors_total", "kind=full", TIER_ERRORS_HELP)           \
    X(COUNTER, tier_io, "kvferry_kv_tier_errors_total", "kind=io", TIER_ERRORS_HELP)               \
    X(COUNTER, tier_corrupt, "kvferry_kv_tier_errors_total", "kind=corrupt", TIER_ERRORS_HELP)     \
    X(COUNTER, tier_foreign, "kvferry_kv_tier_errors_total", "kind=foreign", TIER_ERRORS_HELP)     \
    X(COUNTER, tier_missing, "kvferry_kv_tier_errors_total", "kind=missing", TIER_ERRORS_HELP)

#define WORKER_METRICS(X)                                                                          \
    X(GAUGE, blocks_free, "kvferry_kv_blocks", "state=free", "KV blocks by state.")                \
    X(GAUGE, blocks_active, "kvferry_kv_blocks", "state=active", "KV blocks by state.")            \
    X(GAUGE, blocks_cached, "kvferry_kv_blocks", "state=cached", "KV blocks by state.")            \
    X(GAUGE, blocks_pinned, "kvferry_kv_blocks", "state=pinned", "KV blocks by state.")            \
    X(GAUGE, blocks_inbound, "kvferry_kv_blocks", "state=inbound", "KV blocks by state.")          \
    X(GAUGE, blocks_quarantined, "kvferry_kv_blocks", "state=quarantined", "KV blocks by state.")  \
    X(GAUGE, usage, "kvferry_kv_cache_usage_ratio", "",                                            \
      "Share of the KV blocks that is neither free nor only cached.")                              \
    X(GAUGE, blocks_unowned, "kvferry_kv_blocks_unowned", "",                                      \
      "KV blocks in use that belong to no request and no transfer: leaked blocks. Checked once a " \
      "second while requests run.")                                                                \
    X(GAUGE, blocks_max, "kvferry_kv_blocks_max", "", "All KV blocks of this worker.")             \
    X(GAUGE, block_tokens, "kvferry_kv_block_tokens", "", "Tokens in a KV block.")                 \
    X(GAUGE, sequences_max, "kvferry_sequences_max", "",                                           \
      "Most requests that can run at one time.")                                                   \
    X(GAUGE, queue_max, "kvferry_queue_max", "", "Most requests that can wait for a slot.")        \
    X(COUNTER, evictions, "kvferry_kv_evictions_total", "",                                        \
      "Blocks evicted from the prefix cache.")                                                     \
    X(COUNTER, rows_not_finite, "kvferry_logit_rows_not_finite_total", "",                         \
      "Rows of logits with a NaN or an infinite maximum: each ended its request with "             \
      "LOGITS_NOT_FINITE.")                                                                        \
    X(COUNTER, prefix_query, "kvferry_prefix_query_tokens_total", "",                              \
      "Prompt tokens looked up in this worker's prefix cache.")                                    \
    X(COUNTER, prefix_hit, "kvferry_prefix_hit_tokens_total", "",                                  \
      "Prompt tokens found in this worker's prefix cache.")                                        \
    X(COUNTER, computed, "kvferry_prompt_tokens_total", "source=compute", PROMPT_TOKENS_HELP)      \
    X(COUNTER, cached, "kvferry_prompt_tokens_total", "source=cache", PROMPT_TOKENS_HELP)          \
    X(COUNTER, remote, "kvferry_prompt_tokens_total", "source=remote", PROMPT_TOKENS_HELP)         \
    X(HISTOGRAM(BUCKETS_DURATION), prefill, "kvferry_prefill_seconds", "",                         \
      "Time in which this worker computed a prompt, from its admission to its last token.")        \
    X(HISTOGRAM(BUCKETS_TOKENS), batch_tokens, "kvferry_batch_tokens", "",                         \
      "Tokens computed in a step.")                                                                \
    TIER_METRICS(X)                                                                                \
    X(GAUGE, adapters, "kvferry_adapters", "", "LoRA adapters that requests may name.")            \
    X(GAUGE, adapter_bytes, "kvferry_adapter_bytes", "",                                           \
      "Memory of LoRA adapters, with those that were unloaded and that requests still have.")      \
    X(COUNTER, kv_events, "kvferry_kv_events_total", "", KV_EVENTS_HELP)                           \
    X(GAUGE, kv_event_streams, "kvferry_kv_event_streams", "", KV_EVENT_STREAMS_HELP)              \
    X(COUNTER, kv_event_overruns, "kvferry_kv_event_overruns_total", "", KV_EVENT_OVERRUNS_HELP)   \
    DATA_PORT_METRICS(X)

METRICS_DECLARE(worker_metrics, WORKER_METRICS);

/* Registered before the model is loaded, earlier than the others. */
struct gauge *worker_metrics_load_progress(struct metrics *metrics);

#define WORKER_KERNEL_LABELS_MAX 128
/* kvferry_kernels_info; registered when the model is loaded. labels_out: the registry borrows them. */
void worker_metrics_kernels(struct metrics *metrics, const struct process_kernels *kernels,
                            char labels_out[WORKER_KERNEL_LABELS_MAX]);

/* Sizes that do not change. */
struct worker_capacity {
    uint32_t n_blocks, block_tokens, sequences_max, queue_max;
};
void worker_metrics_capacity(const struct worker_metrics *metrics,
                             const struct worker_capacity *capacity);

/* kvferry_kv_transfer_bytes_total; registered when the transport is known. */
struct transfer_bytes {
    struct counter *counter;
    char labels[64]; /* the registry borrows them */
    uint64_t last;
};
/* direction: "sent", "received". */
void transfer_bytes_init(struct transfer_bytes *bytes, struct metrics *metrics,
                         const char *transport, const char *direction);

void worker_metrics_blocks(const struct worker_metrics *metrics,
                           const uint32_t blocks[BLOCK_STATES], uint32_t n_blocks);

/* last_inout: the values of the last call, zeros at first. */
void worker_metrics_data_port(const struct worker_metrics *metrics,
                              const struct transport *transport, struct port_figures *last_inout);

struct adapter_set;
void worker_metrics_adapters(const struct worker_metrics *metrics, struct adapter_set *adapters);

/* Adds the increase of total since the last call. */
void counter_follow(struct counter *counter, uint64_t total, uint64_t *last_inout);
