/*
 * reach - computes the extent of elements with a stride, with a check that it fits in 64 bits.
 *
 * Thread: any.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* inner plus `steps` strides. False: it does not fit in 64 bits. */
static inline bool reach(uint64_t stride, uint64_t steps, uint64_t inner, uint64_t *span_out)
{
    uint64_t outer;
    return !__builtin_mul_overflow(stride, steps, &outer) &&
           !__builtin_add_overflow(outer, inner, span_out);
}
