/*
 * adapter - a LoRA adapter of one model, read from a folder of PEFT: for some matrices W of its layers y = W x + scale B (A x).
 *
 *     module of PEFT     A [rank][n_in], B [n_out][rank]
 *     fused matrices     Q, K and V (or gate and up) share an A; each has its rows of B
 *
 * Supported are decoders on a host whose attention has K and V of heads, from safetensors files: Q, K, V and output of attention,
 * gate, up and down of an MLP. What else has an adapter is refused by name, and so are models with latents, recurrent state, a gate
 * of attention's output or an encoder, GGUF files, and devices with kernels of their own.
 *
 * Thread: immutable once loaded; holders are counted by any thread.
 */
#pragma once

#include "base/hash.h"
#include "base/status.h"
#include "kernels/dtype.h"

#include <stdbool.h>
#include <stdint.h>

struct adapter;
struct model;

enum adapter_part {
    ADAPTER_Q,
    ADAPTER_K,
    ADAPTER_V,
    ADAPTER_O,
    ADAPTER_GATE,
    ADAPTER_UP,
    ADAPTER_DOWN,
    ADAPTER_PARTS,
};

struct low_rank {
    const void *a; /* [rank][n_in]; NULL: nothing is added */
    const void *b; /* [n_out][rank] */
    enum dtype a_dtype, b_dtype;
    uint32_t rank, n_in, n_out;
    float scale;
};

struct adapter_limits {
    uint32_t rank_max;  /* 0: ADAPTER_RANK_MAX */
    uint64_t bytes_max; /* of the matrices in memory; 0: UINT64_MAX */
};

/* The model outlives no adapter: only its digest and shapes are read here. limits NULL: all zero. NOT_FOUND, IO_FAILED, CORRUPT
 * (malformed), UNSUPPORTED (well-formed, but not computed here), INVALID_ARGUMENT (beyond the limits) with a sentence; NO_MEMORY.
 * The caller is its one holder. */
MUST_CHECK enum status adapter_load(const char *folder, const struct model *model,
                                    const struct adapter_limits *limits, struct error *error,
                                    struct adapter **adapter_out);
/* UNSUPPORTED: why no adapter of this model is supported. */
MUST_CHECK enum status adapter_check_model(const struct model *model, struct error *error);

struct adapter *adapter_share(struct adapter *adapter); /* NULL is fine */
void adapter_release(struct adapter *adapter);          /* NULL is fine */

/* More than one holder. */
bool adapter_is_shared(const struct adapter *adapter);

/* What it adds to a matrix. NULL: nothing. */
const struct low_rank *adapter_part(const struct adapter *adapter, uint32_t layer,
                                    enum adapter_part part);
uint32_t adapter_rank(const struct adapter *adapter); /* the largest */
uint64_t adapter_bytes(const struct adapter *adapter);
uint32_t adapter_matrices(const struct adapter *adapter); /* of the model that it changes */
/* Equal digests mean: equal names, types, shapes and bytes of all tensors, equal ranks and scales, and the same model (digest). */
struct hash128 adapter_digest(const struct adapter *adapter);
