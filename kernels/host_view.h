/*
 * host_view - do the strides of a cache make room for what they step over?
 *
 * Thread: any.
 */
#pragma once

#include "kernels/attention.h"

/* Refused: rows of K, `row` bytes each, that overlap, and V, a next layer or a next block that begins
 * inside of them. Strides that lead nowhere (of one layer, one block, one token) are not read. */
MUST_CHECK enum status host_view_check(const struct kv_view *kv, uint32_t n_kv_heads, uint64_t row,
                                       struct error *error);
