/*
 * attention - the attention operator on the device that is bound to the thread (device_bound).
 *
 *     cuda             what is best for the layer and the step
 *     cuda_masked      attention_masked.cuh: CUDA cores, everything
 *     cuda_reference   attention_reference.cuh: a row a warp
 *
 * All are called "cuda" and give the same bits. A layer and a metadata belong to the device that was bound when they were
 * created. Where a feature's field says "host", it is read at creation; everything else in a configuration, and every
 * tensor, is an address of the device.
 *
 * Thread: as kernels/attention.h.
 */
#pragma once

#include "kernels/attention.h"

extern const struct attention_backend cuda_attention;
extern const struct attention_backend cuda_attention_masked;
extern const struct attention_backend cuda_attention_reference;

/* The names above; NULL or empty: cuda_attention. NULL: there is no such one. */
const struct attention_backend *cuda_attention_named(const char *name);
