/*
 * geometry - what two workers must agree on before a KV block crosses.
 *
 *     block = [layer][K, V][kv_head][token][dim]      elements of dtype, contiguous
 *
 * Thread: any (plain data).
 */
#pragma once

#include "base/status.h"
#include "kvcache/numerics.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum kv_dtype { KV_F32, KV_BF16, KV_F16 };

struct geometry {
    uint32_t n_layers;
    uint32_t n_kv_heads;
    uint32_t head_dim;     /* elements */
    uint32_t block_tokens; /* a power of two, 8 .. 128 */
    enum kv_dtype dtype;
    uint64_t model_digest[2]; /* of the config and the weights: equal models have equal KV, */
    char numerics
        [NUMERICS_ID_MAX]; /* if they are computed alike; "": an older worker does not say */
};

size_t kv_dtype_bytes(enum kv_dtype dtype);
const char *kv_dtype_name(enum kv_dtype dtype); /* "bf16" */
MUST_CHECK enum status kv_dtype_parse(const char *name, enum kv_dtype *dtype_out);

/* INVALID_ARGUMENT with the field and its value: a zero, no power of two, or a block over 1 GiB. */
MUST_CHECK enum status geometry_check(const struct geometry *geometry, struct error *error);
uint64_t geometry_block_bytes(const struct geometry *geometry);
uint32_t geometry_blocks(const struct geometry *geometry, uint32_t n_tokens); /* rounded up */

/* Whether KV of theirs can be used by who has ours, and allows allow_numerics beside its own id.
 * GEOMETRY_MISMATCH with the first field that differs and both values. */
MUST_CHECK enum status geometry_match(const struct geometry *ours, const struct geometry *theirs,
                                      const char *allow_numerics, struct error *error);
