/*
 * rearranged_weights - copies of the tensors whose elements lie otherwise in the files: transposed, Q, K and V of each head
 * side by side, stored less 1 or as another function of them, or quantized (quantized_source.h). Others stay where they are mapped.
 *
 * Thread: made on one; immutable afterwards.
 */
#pragma once

#include "base/status.h"
#include "model/weights/weights.h"

struct thread_pool;

struct rearranged_weights {
    uint8_t *memory; /* [bytes] owned; the tensors point into it */
    size_t bytes;
};

/* Rewrites the tensors of weights that have a source; afterwards they have none. threads NULL: the caller alone.
 * NO_MEMORY with a sentence. */
MUST_CHECK enum status rearranged_weights_make(struct thread_pool *threads, struct weights *weights,
                                               uint32_t n_layers, uint32_t n_experts,
                                               struct rearranged_weights *rearranged_out,
                                               struct error *error);
void rearranged_weights_finish(struct rearranged_weights *rearranged); /* a zeroed one is fine */
