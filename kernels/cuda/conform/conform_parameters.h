/*
 * conform_parameters - the arguments of the kernels that call each wrapper of hardware.cuh once: conform.cuh.
 *
 * Every kernel reads words and writes words; the comment of its body says how many, and their meaning. The words of the CTAs
 * follow each other in both arrays.
 */
#pragma once

#include "kernels/cuda/parameters.h"

PARAMETERS_BEGIN

struct conform_parameters {
    const uint32_t *in;
    uint32_t *out;
    uint32_t n;           /* inputs of a sweep over numbers */
    uint32_t number;      /* enum conform_number */
    uint32_t first, step; /* input i is first + i step; step 0: ties, conform_input */
};

PARAMETERS_END

/* The functions of a sweep over 32 bits, their kind, and how the device's result may differ from the host's.
 *     SAME       the same bits; NaN of a float, or of a half of BF16 or F16, is any NaN
 *     ULPS_n     at most n units of the last place; below the smallest normal number 0 is right, too
 *     LOGARITHM  2^-22 of the larger of 1 and the result
 *     FUSED      the product may be rounded before the sum, or not */
#define CONFORM_NUMBERS(X)                                                                         \
    X(float_to_bf16, BF16, SAME)                                                                   \
    X(float_to_f16, F16, SAME)                                                                     \
    X(pack_bf16, BF16, SAME)                                                                       \
    X(pack_f16, F16, SAME)                                                                         \
    X(float_to_e4m3, BITS, SAME)                                                                   \
    X(float_to_int8, BITS, SAME)                                                                   \
    X(float_to_int, BITS, SAME)                                                                    \
    X(bits_float, BITS, SAME)                                                                      \
    X(reciprocal, FLOAT, SAME)                                                                     \
    X(square_root, FLOAT, SAME)                                                                    \
    X(quotient, FLOAT, SAME)                                                                       \
    X(least_largest, FLOAT, SAME)                                                                  \
    X(multiply_add, FLOAT, FUSED)                                                                  \
    X(exp2_fast, FLOAT, ULPS_5)                                                                    \
    X(log2_fast, FLOAT, LOGARITHM)                                                                 \
    X(expf, FLOAT, ULPS_4)                                                                         \
    X(exp2f, FLOAT, ULPS_4)                                                                        \
    X(logf, FLOAT, ULPS_4)                                                                         \
    X(tanhf, FLOAT, ULPS_4)                                                                        \
    X(bf16_to_float, FLOAT, SAME)                                                                  \
    X(f16_to_float, FLOAT, SAME)                                                                   \
    X(e4m3_to_float, FLOAT, SAME)                                                                  \
    X(e4m3x2_to_f16x2, F16, SAME)                                                                  \
    X(e2m1_to_float, FLOAT, SAME)                                                                  \
    X(e8m0_to_float, FLOAT, SAME)                                                                  \
    X(byte_permute, BITS, SAME)                                                                    \
    X(multiply_add_bf16x2, BF16, SAME)                                                             \
    X(multiply_add_f16x2, F16, SAME)

enum conform_number {
#define X(name, format, difference) CONFORM_##name,
    CONFORM_NUMBERS(X)
#undef X
        CONFORM_NUMBERS_ALL
};

#define CONFORM_TIES 16u /* patterns of the lower half, for each of the upper half */

/* A second number, computed from the same bits; and from any bits a number of size 2^-32 .. 2^32. */
#define CONFORM_OTHER(bits)    ((bits)*2654435761u + 0x7f4a7c15u)
#define CONFORM_MODERATE(bits) (((bits)&0x807fffffu) | (95u + ((bits) >> 23) % 64u) << 23)
