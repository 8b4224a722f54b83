/*
 * kv_head - one head of K or V of a new token, and the steps from its row to the cache:
 *
 *     stored = round(rotate(norm(row + bias)) / scale)
 *
 * Each back end has one function for them, which the attention operator and kv_update use.
 */
#pragma once

#include "kernels/attention.h"
#include "kernels/dtype.h"

#include <stdbool.h>
#include <stdint.h>

struct attention_layer;
struct kv_update;

struct kv_head {
    uint32_t n;      /* elements: a multiple of 8 up to HEAD_DIM_MAX */
    const void *row; /* [n], any alignment; bias too */
    enum dtype dtype;
    const void *bias; /* [n]; NULL: none */
    enum dtype bias_dtype;
    const float *norm; /* weights [n]; NULL: none */
    float norm_eps;
    const float *cos, *sin; /* [n_rotary / 2] */
    uint32_t n_rotary;      /* the first n_rotary elements are rotated; 0: none */
    bool is_interleaved;
    enum dtype cache;
    float scale; /* of INT8 and E4M3; else not read */
};

struct kv_heads {
    struct kv_head k, v;
};

/* kv head 0 of one token: a new key of a step, or a row of an update. */
struct kv_heads kv_heads_of_step(const struct attention_layer *layer,
                                 const struct attention_metadata *metadata,
                                 const struct attention_io *io, uint32_t key);
struct kv_heads kv_heads_of_update(const struct kv_update *update, uint32_t token, uint64_t row);

/* Moves on to the next kv head of the same token. */
void kv_heads_next(struct kv_heads *heads);
