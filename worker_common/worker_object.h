/*
 * worker_object - what a worker of either role is made of. Its functions are in worker.h and worker_pool.h.
 *
 * Thread: main; what it has is handed to the engine and transfer threads, and back before worker_unload.
 */
#pragma once

#include "device/device.h"
#include "engine/encoder_line.h"
#include "kvcache/block_pool.h"
#include "kvcache/prefix_tree.h"
#include "process/process.h"
#include "worker_common/adapter_set.h"
#include "worker_common/drafter.h"
#include "worker_common/identity_codec.h"
#include "worker_common/kv_plan.h"
#include "worker_common/worker_forward.h"
#include "worker_common/worker_kv_scales.h"
#include "worker_common/worker_metrics.h"
#include "worker_common/worker_options.h"
#include "worker_common/worker_tier_state.h"

#include <sched.h>

/* How the sets of kernels were chosen. */
enum worker_kernels_chosen {
    WORKER_KERNELS_DEFAULT,
    WORKER_KERNELS_CONFIGURED,
    WORKER_KERNELS_MEASURED
};

/* Names for model_options; NULL or empty: the default. */
struct worker_kernels {
    const char *products, *attention;
    enum worker_kernels_chosen chosen;
};

struct worker {
    struct process *process; /* borrowed */
    struct model *model;
    const struct model_config *config; /* part of model */
    struct kv_scales kv_scales;        /* of a cache of 8 bits */
    struct thread_pool *threads;
    cpu_set_t engine_cpus;          /* of the engine thread, which computes, too; empty: any */
    struct process_kernels kernels; /* what computes, as the state shows it */
    struct device *device;
    struct forward *forward;
    struct transport *transport;
    struct device_memory pool_memory;
    struct device_memory on_paper[2]; /* of a plan_device (worker_paper.h) */
    struct block_pool *pool;
    struct model *draft_model;    /* NULL: none */
    struct drafter *drafter;      /* the engine's, until that is destroyed; NULL: none */
    struct adapter_set *adapters; /* NULL: none may be there */
    uint32_t adapter_rank_max;    /* of the forward pass */
    struct constraint_desk *desk; /* the engine's, until that is destroyed */
    struct worker_tier tier;      /* behind the prefix cache */
    struct prefix_key prefix_key; /* for blocks with the worker's own numerics */
    uint32_t context_tokens;      /* with an encoder, of a line */
    struct encoder_line line;
    uint32_t n_blocks;
    uint64_t room_bytes;      /* memory of the machine before this worker and its sharers started */
    struct kv_plan pool_plan; /* how the number of blocks was chosen */
    struct kv_taken taken;    /* other memory when the pool was sized */
    uint32_t context_blocks;  /* of one whole context */
    uint32_t step_blocks;     /* that are kept aside for a step */
    uint64_t table_bytes;     /* what is kept of cached blocks, in memory of the host */
    uint64_t draft_bytes;     /* of the drafter, by a plan without weights; else measured */
    uint64_t draft_mapped_bytes; /* of its weights */
    uint64_t stage_bytes;        /* for blocks that are converted; taken when they come */
    struct worker_identity identity;
    struct model_card card;
    const char *allow_numerics; /* the options' */
    bool kv_convert;            /* it converts KV that it receives */
};

/* Tokens of a step, or of a prompt in it: with an encoder at least a whole line, which is computed at once. */
static inline uint32_t worker_step_tokens(const struct worker *worker, uint32_t wanted)
{
    const uint32_t block_tokens = worker->identity.geometry.block_tokens;
    if (worker->line.text_max == 0)
        return wanted;
    const uint32_t n = worker->context_tokens + block_tokens;
    return wanted + (n - n % block_tokens);
}

static inline struct cache_step worker_cache_step(const struct worker *worker,
                                                  const struct worker_options *options)
{
    return (struct cache_step){.n_tokens = worker_step_tokens(worker, options->step_tokens_max),
                               .n_sequences = options->sequences_max,
                               .context_tokens = worker->context_tokens};
}

static inline struct worker_step worker_step_of(const struct worker *worker,
                                                const struct worker_options *options)
{
    return (struct worker_step){
        .tokens_max = worker_step_tokens(worker, options->step_tokens_max),
        .sequences_max = options->sequences_max,
        .context_tokens = worker->context_tokens,
        .kv_scales = &worker->kv_scales,
        .context_math = options->context_math,
        .block_activations = options->block_activations,
        .attention = options->attention,
        .adapter_rank_max = worker->adapter_rank_max,
        .threads = worker->threads,
        .device = worker->device,
    };
}
