/*
 * attention_head - loads, rounds and rotates elements of a head.
 */
#pragma once

#include "kernels/cuda/attention_parameters.h"
#include "kernels/cuda/rounding.cuh"

/* enum attention_math; attention.c asserts that the numbers are equal */
enum {
    MATH_IS_COMPUTE,
    MATH_IS_FP8,
    MATH_IS_INT8,
    MATH_IS_INT8_PV_FP8,
    MATH_IS_BF16,
    MATH_IS_FP16
};

DEVICE bool is_8bit(uint32_t dtype)
{
    return dtype == DTYPE_INT8 || dtype == DTYPE_E4M3;
}

DEVICE uint32_t element_bytes(uint32_t dtype)
{
    return dtype == DTYPE_F32 ? 4 : is_8bit(dtype) ? 1 : 2;
}

/* For tensors and caches: attention.c refuses unaligned addresses, and E2M1. */
DEVICE float load_element(uint32_t dtype, const void *array, uint64_t index)
{
    switch (dtype) {
    case DTYPE_F32:
        return ((const float *)array)[index];
    case DTYPE_BF16:
        return bf16_to_float(((const uint16_t *)array)[index]);
    case DTYPE_F16:
        return f16_to_float(((const uint16_t *)array)[index]);
    case DTYPE_INT8:
        return (float)((const int8_t *)array)[index];
    default:
        return e4m3_to_float(((const uint8_t *)array)[index]);
    }
}

DEVICE float round_e4m3(float value)
{
    return e4m3_to_float(float_to_e4m3(value));
}

/* Limits a number, also an infinity, to the finite range of F16. NaN stays NaN. */
DEVICE float clamp_f16(float value)
{
    if (fabsf(value) > F16_LARGEST)
        value = value > 0 ? F16_LARGEST : -F16_LARGEST;
    return value;
}

DEVICE float round_f16(float value)
{
    return f16_to_float(float_to_f16(clamp_f16(value)));
}

DEVICE float round_bf16(float value)
{
    return bf16_to_float(float_to_bf16(value));
}

/* Rounds value for the math, in units of unit; e4m3_unit is the unit for MATH_FP8. */
DEVICE float round_for_math(uint32_t math, float value, float unit, float e4m3_unit)
{
    if (math == MATH_IS_FP8)
        return round_e4m3(value / e4m3_unit) * e4m3_unit;
    if (math == MATH_IS_BF16)
        return round_bf16(value / unit) * unit;
    if (math == MATH_IS_FP16)
        return round_f16(value / unit) * unit;
    return value;
}

/* Rounds value for MATH_BF16 and MATH_FP16, in units of unit. */
DEVICE uint16_t half_for_math(uint32_t math, float value, float unit)
{
    return math == MATH_IS_BF16 ? float_to_bf16(value / unit)
                                : float_to_f16(clamp_f16(value / unit));
}

DEVICE bool rounds_weights_to_e4m3(uint32_t math)
{
    return math == MATH_IS_FP8 || math == MATH_IS_INT8_PV_FP8;
}

/* p, rounded as for the product with V. */
DEVICE float round_weight(uint32_t math, float p)
{
    if (rounds_weights_to_e4m3(math))
        return round_e4m3(256 * p) / 256;
    if (math == MATH_IS_BF16)
        return round_bf16(p);
    return math == MATH_IS_FP16 ? round_f16(p) : p;
}

/* The other element of the rotated pair of element i. */
DEVICE uint32_t pair_of(const struct attention_parameters &p, uint32_t i)
{
    const uint32_t half = p.n_rotary / 2;
    return p.is_interleaved ? i ^ 1u : i < half ? i + half : i - half;
}

/* Element i of a rotated head, from x and the other element of the pair. */
DEVICE float turn(const struct attention_parameters &p, const float *cos_row, const float *sin_row,
                  uint32_t i, float x, float of_pair)
{
    const uint32_t half = p.n_rotary / 2;
    const uint32_t angle = p.is_interleaved ? i / 2 : i < half ? i : i - half;
    const bool is_low = p.is_interleaved ? i % 2 == 0 : i < half;
    const float along = x * cos_row[angle], across = of_pair * sin_row[angle];
    return is_low ? along - across : along + across;
}
