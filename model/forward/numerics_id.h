/*
 * numerics_id - makes the id of all settings that decide the bits of KV on a worker (kvcache/numerics.h).
 *
 * Equal ids mean equal bits: instruction sets with the same order of sums share the name "fma", whatever their vector
 * width. An unknown set keeps its own name, so a new set matches no other one until its bits have been compared.
 * tests/model/forward/numerics_test.c computes KV with every set of the machine and compares.
 *
 * The name of a GPU has its architecture: tensor cores of different architectures may round partial sums differently,
 * and no two have been shown to be equal. The number of processors has no effect.
 *
 * Other settings change no bit (threads, chunks, batches, splits), or are in the geometry (the model, the cache's
 * dtype). The length of chunks depends on the speed of the machine (schedule/pace.h), and on what the cache has: attention's
 * MATH_INT8 would see it, but for the blocks and windows that forward_create takes with it (enum context_math).
 *
 * Thread: any; no state.
 */
#pragma once

#include "kvcache/numerics.h"
#include "model/forward/forward.h"
#include "model/model.h"

/* Incremented when a change of this program changes the bits of KV. */
#define NUMERICS_VERSION 3

struct numerics_parts {
    const char *kernels;   /* set that computes the products: the name in struct kernels */
    const char *attention; /* set that computes the attention: attention_backend_set */
    enum context_math math;
    enum weight_format weights;
    enum block_activations activations;
    bool stores_scores;    /* forward_stores_scores */
    bool has_sinks;        /* K is cached before RoPE */
    uint32_t architecture; /* of a device with kernels of its own: device_traits; 0: a host */
};

void numerics_id_format(const struct numerics_parts *parts, char id_out[NUMERICS_ID_MAX]);

/* The id for the kernels of this model. options: its math, activations and attention are read. */
void numerics_id_of_model(const struct model *model, const struct forward_options *options,
                          enum weight_format weights, char id_out[NUMERICS_ID_MAX]);
