/*
 * worker_forward - the forward pass that a worker's engine runs, made before there is a pool: what it was seen to take
 * decides how large that is (kv_plan.h).
 *
 * Thread: main; the engine's afterwards.
 */
#pragma once

#include "kvcache/geometry.h"
#include "model/forward.h"

struct worker_step {
    uint32_t tokens_max;     /* query tokens of all sequences */
    uint32_t sequences_max;  /* in a step */
    uint32_t context_tokens; /* of one sequence */
    enum context_math context_math;
    struct thread_pool *threads; /* NULL: the caller alone */
    struct device *device;
};

/* Over KV of that geometry. */
struct forward_options worker_forward_options(const struct geometry *geometry,
                                              const struct worker_step *step);

/* Warmed up, without a pool: forward_attach. Borrows model, threads and device until forward_destroy. As forward_create,
 * and DEVICE_LOST by the warm-up. */
MUST_CHECK enum status worker_forward_create(const struct model *model,
                                             const struct geometry *geometry,
                                             const struct worker_step *step, struct error *error,
                                             struct forward **forward_out);
