/*
 * worker_options - the options of a worker: its configuration rows, and values of its role.
 *
 * Thread: any (plain data).
 */
#pragma once

#include "text/constraint/constraint.h"
#include "worker_common/worker_config.h"

#include <stdbool.h>
#include <stdint.h>

struct worker_options {
    const char *folder;
    const char *served_model_name;
    uint32_t max_context_tokens;
    uint32_t kv_block_tokens;
    uint32_t kv_blocks;
    uint64_t kv_memory;
    uint32_t kv_sharers;
    uint64_t kv_room; /* memory of the machine before them; 0: as when this worker starts */
    enum worker_kv_dtype kv_dtype;
    const char *kv_scales; /* path; NULL: "" */
    bool kv_scrub;
    uint32_t kv_events_max;
    uint64_t kv_host_memory;
    const char *kv_disk, *kv_disk_part; /* NULL: "" */
    uint64_t kv_disk_size;
    enum kv_manager_choice kv_manager;
    bool prefix_cache;
    enum weight_format weights;
    struct config_list adapters; /* name=folder */
    uint32_t adapter_rank_max;
    const char *adapter_folder; /* NULL: "" */
    uint64_t adapter_memory;    /* 0: any */
    uint32_t prefill_chunk_tokens;
    uint32_t prefill_batch_tokens;
    uint32_t threads;
    const char *cpu_kernels, *attention_kernels;
    enum context_math context_math;
    enum block_activations block_activations;
    struct attention_switches attention;
    const char *attention_window; /* model_options */
    bool force_window;
    uint32_t sink_tokens; /* worker_sinks.h */
    const char *device;   /* NULL: "cpu" */
    uint64_t device_memory;
    enum worker_device_math device_math;
    bool pin;
    enum worker_cpu_placement cpu_placement;
    enum kv_driver kv_transport;
    enum worker_kv_network kv_network;
    const char *ucx_net_devices;
    const char *ucx_port_range;
    uint32_t peers_max;
    uint32_t pieces_max;
    uint32_t kv_unproven_max;
    uint64_t kv_proof_ms;
    struct constraint_limits constraints;
    uint32_t constraint_queue_max;
    /* Set by the role, not from the common rows. */
    uint32_t sequences_max;     /* in a batch */
    uint32_t step_tokens_max;   /* of all sequences in a batch */
    bool is_read_from;          /* other workers read its pool */
    uint32_t conversions_max;   /* transfers whose KV it converts; 0: it converts none */
    const char *allow_numerics; /* ids besides its own; NULL: it receives no KV */
    const char *draft_model;    /* worker_draft.h; NULL, "": none */
    uint64_t draft_memory;
    enum weight_format draft_weights;
};
