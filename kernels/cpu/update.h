/*
 * update - bias, norm and RoPE of a step's new keys, and their way into the cache.
 *
 * Where a cyclic cache would lose keys that earlier queries of the same step still see, K and V wait
 * in a staging area until all rows have attended:
 *
 *     staged   [new key of the step][kv_head][K, V][head_dim]   cache dtype
 */
#pragma once

#include "kernels/cpu/layer.h"

#define update_cache  REST(update_cache)
#define update_staged REST(update_staged)

/* Into the cache; what is_staged into staged instead. staged NULL: everything into the cache. */
void update_cache(const struct attention_call *call, char *staged);
/* Copies what was staged into the cache. */
void update_staged(const struct attention_call *call, const char *staged);

/* From one new key to the next, of K to V. */
static inline size_t staged_head_bytes(const struct host_layer *layer)
{
    return layer->config.head_dim * dtype_bytes(layer->config.cache);
}
static inline size_t staged_stride(const struct host_layer *layer)
{
    return 2 * staged_head_bytes(layer) * layer->config.n_kv_heads;
}
