/*
 * kv_update_step - bias, norm and RoPE of a step's new keys, and their way into the cache.
 *
 * Where a cyclic cache would lose keys that earlier queries of the same step still see, K and V wait
 * in a staging area until all rows have attended:
 *
 *     staged   [new key of the step][kv_head][K, V][head_dim]   cache dtype
 */
#pragma once

#include "kernels/cpu/attention/attention_call.h"

#define kv_update_step        REST(kv_update_step)
#define kv_update_from_staged REST(kv_update_from_staged)

/* Into the cache; what is_staged into staged instead. staged NULL: everything into the cache. */
void kv_update_step(const struct attention_call *call, char *staged);
/* Copies what was staged into the cache. */
void kv_update_from_staged(const struct attention_call *call, const char *staged);

/* From one new key to the next, of K to V. */
static inline size_t staged_head_bytes(const struct attention_layer *layer)
{
    return layer->config.head_dim * dtype_bytes(layer->config.cache);
}
static inline size_t staged_stride(const struct attention_layer *layer)
{
    return 2 * staged_head_bytes(layer) * layer->config.n_kv_heads;
}
