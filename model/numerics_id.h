/*
 * numerics_id - makes the id of what decides the bits of KV on one worker (kvcache/numerics.h).
 *
 * Ids are equal where bits are: sets of instructions that add in one order have one name, "fma", however
 * many numbers they take at a time. A set that this file does not know has its own name, so that a new one
 * is paired with nothing until somebody has shown that it may be. tests/model/numerics_test.c computes KV
 * with every set of the machine and compares.
 *
 * A GPU is named with its architecture: what a tensor core keeps of a sum while it adds is not the same on all of them, and nobody
 * has shown for two of them that it is. How many processors it has changes nothing.
 *
 * What is not in it changes no bit (threads, chunks, batches, splits), or is in the geometry beside it (the
 * model, the cache's dtype). Chunks are as long as a machine is fast (schedule/pace.h): a math whose bits depend on them, as
 * attention's MATH_INT8, is none of enum context_math, and could be one only with a fixed chunk that its id says.
 *
 * Thread: any; no state.
 */
#pragma once

#include "kvcache/numerics.h"
#include "model/forward.h"
#include "model/model.h"

/* Goes up when a change of this program changes the bits of KV. */
#define NUMERICS_VERSION 1

struct numerics_parts {
    const char *kernels;   /* set that computes the products: struct kernels' name */
    const char *attention; /* set that computes the attention: attention_backend_set */
    enum context_math math;
    enum weight_format weights;
    uint32_t architecture; /* of a device with kernels of its own: device_traits; 0: a host */
};

void numerics_id_format(const struct numerics_parts *parts, char id_out[NUMERICS_ID_MAX]);

/* Of what that model computes with. */
void numerics_id_of_model(const struct model *model, enum context_math math,
                          enum weight_format weights, char id_out[NUMERICS_ID_MAX]);
