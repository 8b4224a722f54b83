/*
 * quantized_weights - quantizes the matrices of a model's layers and its head to INT8 while it is
 * loaded.
 *
 * Each matrix that a product uses (q, k, v, o, gate, up, down, head) is rounded, packed as this
 * machine's kernels want it, and its pages of the file are given back. The embedding (also when the
 * head is tied to it), norms and biases stay as they are.
 *
 * Thread: made on one; immutable afterwards.
 */
#pragma once

#include "base/status.h"
#include "model/weight_format.h"
#include "model/weights.h"

struct quantized_weights {
    void **matrices; /* [n_matrices] owned; what tensors' data and scales point to */
    uint32_t n_matrices;
    uint64_t bytes;
};

/* The bytes of the matrices in the file, for the progress. */
uint64_t quantized_weights_source_bytes(const struct weights *weights, uint32_t n_layers);

/* What made ones take that are not packed, as where a device has kernels of its own. INVALID_ARGUMENT as make. */
MUST_CHECK enum status quantized_weights_bytes(enum weight_format format,
                                               const struct weights *weights, uint32_t n_layers,
                                               uint64_t *bytes_out, struct error *error);

struct quantized_weights_options {
    enum weight_format format; /* not AUTO */
    const struct kernels *kernels;
    struct thread_pool *threads; /* NULL: the caller alone. The result is the same. */
    void (*on_progress)(void *arg, uint64_t bytes_done); /* the source's; may be NULL */
    void *arg;
};

/* Rewrites the tensors of weights.
 * INVALID_ARGUMENT: n_in of a matrix is no multiple of 32, and groups are wanted. NO_MEMORY. */
MUST_CHECK enum status quantized_weights_make(const struct quantized_weights_options *options,
                                              struct weights *weights, uint32_t n_layers,
                                              struct quantized_weights *quantized_out,
                                              struct error *error);
void quantized_weights_finish(struct quantized_weights *quantized); /* a zeroed one is fine */
