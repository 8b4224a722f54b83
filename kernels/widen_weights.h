/*
 * widen_weights - weights of a model's files as float32, some at a time, for those that round them.
 *
 * Thread: any; no state.
 */
#pragma once

#include "kernels/dtype.h"

#include <assert.h>
#include <string.h>

/* n weights from `first` on. source: F32, BF16 or F16. The loops are those that compilers make vectors of. */
static inline void widen_weights(enum dtype dtype, const void *source, size_t first, uint32_t n,
                                 float *wide_out)
{
    const uint16_t *halves = (const uint16_t *)source + first;
    assert(dtype <= DTYPE_F16);
    if (dtype == DTYPE_F32) {
        memcpy(wide_out, (const float *)source + first, n * sizeof *wide_out);
    } else if (dtype == DTYPE_BF16) {
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t bits = (uint32_t)halves[i] << 16;
            memcpy(&wide_out[i], &bits, sizeof bits);
        }
    } else {
        for (uint32_t i = 0; i < n; i++)
            wide_out[i] = f16_to_f32(halves[i]);
    }
}
