/*
 * weight_types - the bytes of a model's tensors by their type, and those that one token reads.
 *
 * Thread: any; no state.
 */
#pragma once

#include "model/weights/weights.h"

struct weight_counts {
    uint64_t bytes
        [DTYPE_LAST +
         1]; /* by enum dtype; a tied head counts once, a packed matrix as INT8, scales with their matrix */
    uint64_t
        token_bytes; /* read for one token: no embeddings but as a head, and of the experts as many as a token chooses */
};

/* n_chosen: experts that a token chooses, of n_experts. */
void weight_types_count(const struct weights *weights, uint32_t n_layers, uint32_t n_experts,
                        uint32_t n_chosen, struct weight_counts *counts_out);
