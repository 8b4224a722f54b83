/*
 * reference - the oracle: computes the formulas of kernel_set.h literally, with sums in float64, on one thread.
 */
#pragma once

#include "kernels/kernel_set.h"

extern const struct kernels kernels_reference;

void reference_rotary(struct thread_pool *pool, const struct rotary *rotary);
void reference_kv_update(struct thread_pool *pool, const struct kv_update *update);
