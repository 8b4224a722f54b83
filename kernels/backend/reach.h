/*
 * reach - how far things reach that lie a stride apart, in 64 bits or not at all.
 *
 * Thread: any.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* inner and `steps` strides behind it; false: over 64 bits. */
static inline bool reach(uint64_t stride, uint64_t steps, uint64_t inner, uint64_t *span_out)
{
    uint64_t outer;
    return !__builtin_mul_overflow(stride, steps, &outer) &&
           !__builtin_add_overflow(outer, inner, span_out);
}
