/*
 * conform_numbers - calls the conversions and functions of one number. A 16-bit value is in the lower half.
 */
#pragma once

#include "kernels/cuda/conform/conform_parameters.h"
#include "kernels/cuda/elements.cuh"

/*
 * Ties: all 65,536 upper halves, each with lower halves at, one below and one above half of the last place of BF16 (16 bits are
 * cut off), of F16 (13 bits, more for small numbers) and, where the upper half allows it, of E4M3 (20).
 */
DEVICE uint32_t conform_input(const struct conform_parameters &p, uint32_t i)
{
    const uint32_t at = i % CONFORM_TIES, bit = at / 3; /* 0, 0x1000, 0x2000, 0x4000, 0x8000 */
    const uint32_t lower = at < 15 ? (bit ? 0x800u << bit : 0) + at % 3 - 1 : 0x3000u;
    return p.step ? p.first + i * p.step : i / CONFORM_TIES << 16 | (lower & 0xffffu);
}

/* Functions that kernels call without a wrapper: those of the C library, and operators. */
DEVICE uint32_t conform_library(uint32_t number, uint32_t bits)
{
    const float v = bits_float(bits), other = bits_float(CONFORM_OTHER(bits));
    switch (number) {
    case CONFORM_quotient:
        return float_bits(v / other);
    case CONFORM_least_largest: /* NaN is quiet, as in all kernels */
        return v == v && other == other
                   ? float_bits(bits & 1 ? fminf(v, other) : fmaxf(rintf(v), fabsf(other)))
                   : float_bits(fminf(bits_float(bits | 0x400000), fabsf(other) * 2.f));
    case CONFORM_expf:
        return float_bits(expf(v));
    case CONFORM_exp2f:
        return float_bits(exp2f(v));
    case CONFORM_logf:
        return float_bits(logf(v));
    default:
        return float_bits(tanhf(v));
    }
}

DEVICE uint32_t conform_wide(uint32_t number, uint32_t bits)
{
    switch (number) {
    case CONFORM_bf16_to_float:
        return float_bits(bf16_to_float((uint16_t)bits));
    case CONFORM_f16_to_float:
        return float_bits(f16_to_float((uint16_t)bits));
    case CONFORM_e4m3_to_float:
        return float_bits(e4m3_to_float((uint8_t)bits));
    case CONFORM_e4m3x2_to_f16x2:
        return e4m3x2_to_f16x2(bits & 0xffff);
    case CONFORM_e2m1_to_float:
        return float_bits(e2m1_to_float(bits & 15));
    case CONFORM_e8m0_to_float:
        return float_bits(e8m0_to_float(bits & 255));
    case CONFORM_multiply_add_bf16x2:
        return multiply_add_bf16x2(bits, CONFORM_OTHER(bits), CONFORM_OTHER(~bits));
    case CONFORM_multiply_add_f16x2:
        return multiply_add_f16x2(bits, CONFORM_OTHER(bits), CONFORM_OTHER(~bits));
    default: /* every choice of four of eight bytes, as far as 16 bits have them */
        return byte_permute(CONFORM_OTHER(bits), ~CONFORM_OTHER(bits + 1), bits & 0x7777);
    }
}

DEVICE uint32_t conform_number(uint32_t number, uint32_t bits)
{
    const float v = bits_float(bits), other = bits_float(CONFORM_OTHER(bits));
    switch (number) {
    case CONFORM_float_to_bf16:
        return float_to_bf16(v);
    case CONFORM_float_to_f16:
        return float_to_f16(v);
    case CONFORM_pack_bf16:
        return pack_bf16(other, v);
    case CONFORM_pack_f16:
        return pack_f16(other, v);
    case CONFORM_float_to_e4m3:
        return float_to_e4m3(v);
    case CONFORM_float_to_int8:
        return float_to_int8(v);
    case CONFORM_float_to_int:
        return (uint32_t)float_to_int(v);
    case CONFORM_bits_float:
        return float_bits(v);
    case CONFORM_reciprocal:
        return float_bits(reciprocal(v));
    case CONFORM_square_root:
        return float_bits(square_root(v));
    case CONFORM_multiply_add:
        return float_bits(multiply_add(bits_float(CONFORM_MODERATE(bits)),
                                       bits_float(CONFORM_MODERATE(CONFORM_OTHER(bits))),
                                       bits_float(CONFORM_MODERATE(~CONFORM_OTHER(bits)))));
    case CONFORM_exp2_fast:
        return float_bits(exp2_fast(v));
    case CONFORM_log2_fast:
        return float_bits(log2_fast(v));
    case CONFORM_quotient:
    case CONFORM_least_largest:
    case CONFORM_expf:
    case CONFORM_exp2f:
    case CONFORM_logf:
    case CONFORM_tanhf:
        return conform_library(number, bits);
    default:
        return conform_wide(number, bits);
    }
}

/* out [n] */
DEVICE void conform_numbers_body(const struct conform_parameters &p)
{
    const uint32_t n_threads = gridDim.x * blockDim.x;
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < p.n; i += n_threads)
        p.out[i] = conform_number(p.number, conform_input(p, i));
}
