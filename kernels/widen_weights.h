/*
 * widen_weights - weights of a model's files as float32, some at a time, for those that round them; what these have in common.
 *
 * Thread: any; no state.
 */
#pragma once

#include "kernels/blocks.h"

#include <assert.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

/* FOR_AVX2: of a function that is compiled a second time; has_avx2: whether it may run. */
#ifdef __x86_64__
#define FOR_AVX2 __attribute__((target("avx2")))
static inline bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2");
}
#else
#define FOR_AVX2
static inline bool has_avx2(void)
{
    return false;
}
#endif

/* n weights from `first` on. source: F32, BF16, F16, or blocks, of which `first` and n are whole ones. The loops are those that
 * compilers make vectors of. */
static inline void widen_weights(enum dtype dtype, const void *source, size_t first, uint32_t n,
                                 float *wide_out)
{
    const uint16_t *halves = (const uint16_t *)source + first;
    assert(dtype <= DTYPE_F16 || dtype_is_blocks(dtype));
    if (dtype_is_blocks(dtype)) {
        blocks_to_f32(dtype, (const uint8_t *)source + dtype_array_bytes(dtype, first), n,
                      wide_out);
    } else if (dtype == DTYPE_F32) {
        memcpy(wide_out, (const float *)source + first, n * sizeof *wide_out);
    } else if (dtype == DTYPE_BF16) {
        for (uint32_t i = 0; i < n; i++) {
            const union {
                uint32_t bits;
                float value;
            } wide = {.bits = (uint32_t)halves[i] << 16};
            wide_out[i] = wide.value;
        }
    } else {
        for (uint32_t i = 0; i < n; i++)
            wide_out[i] = f16_to_f32(halves[i]);
    }
}
