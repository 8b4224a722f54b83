/*
 * weight_types - the bytes of a model's tensors by their type.
 *
 * Thread: any; no state.
 */
#pragma once

#include "model/weights/weights.h"

/* Indexed by enum dtype; a tied head counts once, a packed matrix as INT8, and scales with their matrix. */
void weight_types_count(const struct weights *weights, uint32_t n_layers, uint32_t n_experts,
                        uint64_t bytes_out[DTYPE_LAST + 1]);
