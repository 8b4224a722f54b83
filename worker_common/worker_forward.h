/*
 * worker_forward - the forward pass of a worker's engine, created before the pool, because its measured memory decides
 * the size of the pool (kv_plan.h).
 *
 * Thread: main; the engine's afterwards.
 */
#pragma once

#include "kvcache/geometry.h"
#include "model/forward/forward.h"
#include "worker_common/worker_options.h"

struct worker_step {
    uint32_t tokens_max;               /* query tokens of all sequences */
    uint32_t sequences_max;            /* in a step */
    uint32_t context_tokens;           /* of one sequence */
    const struct kv_scales *kv_scales; /* for a cache of 8 bits */
    enum context_math context_math;
    enum block_activations block_activations;
    struct attention_switches attention;
    uint32_t adapter_rank_max;   /* 0: no adapters */
    struct thread_pool *threads; /* NULL: the caller alone */
    struct device *device;
};

/* The dtype of the cache for kv_dtype and weights of that type; auto: that of the weights. */
enum kv_dtype worker_kv_dtype(enum worker_kv_dtype wanted, enum dtype weights);
enum dtype worker_element_dtype(enum kv_dtype dtype);     /* as kernels know it */
enum cache_dtype worker_cache_dtype(enum kv_dtype dtype); /* as the forward pass does */
/* The forward options for KV of that geometry. */
struct forward_options worker_forward_options(const struct geometry *geometry,
                                              const struct worker_step *step);

/* Creates and warms up the pass, without a pool (see forward_attach). Borrows model, threads and device until
 * forward_destroy. Fails as forward_create; DEVICE_LOST: in the warm-up. */
MUST_CHECK enum status worker_forward_create(const struct model *model,
                                             const struct geometry *geometry,
                                             const struct worker_step *step, struct error *error,
                                             struct forward **forward_out);
