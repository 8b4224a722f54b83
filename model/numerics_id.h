/*
 * numerics_id - makes the id of everything that decides the bits of KV on a worker (kvcache/numerics.h).
 *
 * Equal ids mean equal bits: instruction sets with the same order of sums share the name "fma", whatever their vector
 * width. An unknown set has its own name, so a new set is paired with no other until its bits have been compared.
 * tests/model/numerics_test.c computes KV with every set of the machine and compares.
 *
 * The name of a GPU has its architecture: tensor cores of different architectures may round partial sums differently,
 * and no two have been shown to be equal. The number of processors has no effect.
 *
 * Other settings change no bit (threads, chunks, batches, splits), or are in the geometry (the model, the cache's
 * dtype). Chunks are as long as a machine is fast (schedule/pace.h): a math whose bits depend on them, as attention's
 * MATH_INT8, is none of enum context_math, and could be one only with a fixed chunk that its id says.
 *
 * Thread: any; no state.
 */
#pragma once

#include "kvcache/numerics.h"
#include "model/forward.h"
#include "model/model.h"

/* Incremented when a change of this program changes the bits of KV. */
#define NUMERICS_VERSION 1

struct numerics_parts {
    const char *kernels;   /* set that computes the products: struct kernels' name */
    const char *attention; /* set that computes the attention: attention_backend_set */
    enum context_math math;
    enum weight_format weights;
    uint32_t architecture; /* of a device with kernels of its own: device_traits; 0: a host */
};

void numerics_id_format(const struct numerics_parts *parts, char id_out[NUMERICS_ID_MAX]);

/* The id for the kernels of that model. */
void numerics_id_of_model(const struct model *model, enum context_math math,
                          enum weight_format weights, char id_out[NUMERICS_ID_MAX]);
