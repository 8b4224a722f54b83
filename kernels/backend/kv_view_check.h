/*
 * kv_view_check - checks the strides of a cache: parts must not overlap, and the end must fit in 64 bits.
 *
 * Thread: any.
 */
#pragma once

#include "kernels/attention.h"

/* If a view of one layer has layer_stride 0, all layers use it in turn. */
static inline bool kv_view_has_layer(const struct kv_view *kv, uint32_t layer_index)
{
    return layer_index < kv->n_layers || (kv->n_layers == 1 && kv->layer_stride == 0);
}

/* INVALID_ARGUMENT: base is NULL; rows of K, `row` bytes each, overlap; V, the next layer or the next block
 * begins inside them; or the end does not fit in 64 bits. Strides that are not needed (with one layer, one block,
 * one token) are not read. */
MUST_CHECK enum status kv_view_check(const struct kv_view *kv, uint32_t n_kv_heads, uint64_t row,
                                     struct error *error);

/* For a device, which reads whole elements. INVALID_ARGUMENT: base or a stride is no multiple of the bytes of an
 * element. */
MUST_CHECK enum status kv_view_check_alignment(const struct kv_view *kv, uint32_t n_kv_heads,
                                               size_t element, struct error *error);
