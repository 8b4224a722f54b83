/*
 * quantized_weights - rounds the matrices of a model's layers and its head while it is loaded: to INT8, or to
 * blocks.
 *
 * Each matrix that a product uses (q, k, v, o, gate, up, down, of experts too; head) is rounded; INT8 is packed for this
 * machine's kernels. Then its pages of the file are released. The embedding (even if the head is tied to
 * it), norms and biases stay as they are.
 *
 * Thread: made on one; immutable afterwards.
 */
#pragma once

#include "base/status.h"
#include "model/weights/weight_format.h"
#include "model/weights/weights.h"

struct quantized_weights {
    uint8_t *
        memory; /* [memory_bytes] owned, in huge pages; data and scales of the tensors point into it */
    size_t memory_bytes;
    uint64_t bytes; /* of the matrices, without what aligns them */
};

/* The bytes of the matrices in the file, for the progress. */
uint64_t quantized_weights_source_bytes(enum weight_format format, const struct weights *weights,
                                        uint32_t n_layers, uint32_t n_experts);

/* Whether the head is rounded; a tied one is not the embedding any more then. */
bool quantized_weights_round_head(enum weight_format format, const struct weights *weights);

/* The bytes of the rounded matrices if they are not packed, as for a device with its own kernels. INVALID_ARGUMENT: as
 * quantized_weights_make. */
MUST_CHECK enum status quantized_weights_bytes(enum weight_format format,
                                               const struct weights *weights, uint32_t n_layers,
                                               uint32_t n_experts, uint64_t *bytes_out,
                                               struct error *error);

struct quantized_weights_options {
    enum weight_format format; /* not AUTO */
    const struct kernels *kernels;
    struct thread_pool *threads; /* NULL: only the caller's thread. The result is the same. */
    void (*on_progress)(void *arg, uint64_t bytes_done); /* bytes of the source; may be NULL */
    void *arg;
};

/* Rewrites the tensors of weights.
 * INVALID_ARGUMENT: groups are wanted, and n_in of a matrix is no multiple of 32. NO_MEMORY. */
MUST_CHECK enum status quantized_weights_make(const struct quantized_weights_options *options,
                                              struct weights *weights, uint32_t n_layers,
                                              uint32_t n_experts,
                                              struct quantized_weights *quantized_out,
                                              struct error *error);
void quantized_weights_finish(struct quantized_weights *quantized); /* a zeroed one is fine */
