/*
 * kv_update_step - applies bias, norm and RoPE to a step's new keys and writes them to the cache.
 *
 * A cyclic cache would lose keys that earlier queries of the same step still see. There K and V stay in a staging
 * area until the attention of all rows is done:
 *
 *     staged   [new key of the step][kv_head][K, V][head_dim]   cache dtype
 */
#pragma once

#include "kernels/cpu/attention/attention_call.h"

#define kv_update_step        REST(kv_update_step)
#define kv_update_from_staged REST(kv_update_from_staged)

/* Writes keys of sequences with is_staged to staged, all others to the cache. staged NULL: writes all to the cache. */
void kv_update_step(const struct attention_call *call, char *staged);
/* Copies the staged keys into the cache. */
void kv_update_from_staged(const struct attention_call *call, const char *staged);

/* The bytes from one new key to the next, and from K to V. */
static inline size_t staged_head_bytes(const struct attention_layer *layer)
{
    return layer->config.head_dim * dtype_bytes(layer->config.cache);
}
static inline size_t staged_stride(const struct attention_layer *layer)
{
    return 2 * staged_head_bytes(layer) * layer->config.n_kv_heads;
}
