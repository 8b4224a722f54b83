/*
 * kv_view_check - checks that the strides of a cache are at least as large as what lies between.
 *
 * Thread: any.
 */
#pragma once

#include "kernels/attention.h"

/* In a view of one layer with layer_stride 0, all layers take turns. */
static inline bool kv_view_has_layer(const struct kv_view *kv, uint32_t layer_index)
{
    return layer_index < kv->n_layers || (kv->n_layers == 1 && kv->layer_stride == 0);
}

/* INVALID_ARGUMENT: no base, rows of K, `row` bytes each, that overlap, V, a next layer or a next block
 * that begins inside of them, or an end over 64 bits. Strides that lead nowhere (of one layer, one block,
 * one token) are not read. */
MUST_CHECK enum status kv_view_check(const struct kv_view *kv, uint32_t n_kv_heads, uint64_t row,
                                     struct error *error);

/* Of a device, which reads an element at a time. INVALID_ARGUMENT: base or a stride is no multiple of its bytes. */
MUST_CHECK enum status kv_view_check_alignment(const struct kv_view *kv, uint32_t n_kv_heads,
                                               size_t element, struct error *error);
