/*
 * rounding - rounds numbers to eight bits as kernels/dtype.h does, and stores one element of an array.
 */
#pragma once

#include "kernels/cuda/hardware.cuh"
#include "kernels/dtype.h"

#define WARP 32u

/* Shifts right by n, rounding to nearest even. */
DEVICE uint32_t shift_round(uint32_t value, uint32_t n)
{
    return (value + (1u << (n - 1)) - 1 + (value >> n & 1)) >> n;
}

/* Rounds to nearest even; values beyond 448 become 448. */
DEVICE uint8_t float_to_e4m3(float value)
{
    const uint32_t bits = float_bits(value);
    const uint32_t sign = bits >> 24 & 0x80, magnitude = bits & 0x7fffffffu;
    const uint32_t exponent = magnitude >> 23;
    if (magnitude > 0x7f800000u)
        return (uint8_t)(sign | 0x7f);
    if (magnitude >= 0x43e00000u) /* 448 */
        return (uint8_t)(sign | 0x7e);
    if (magnitude >= 0x3c800000u) /* 2^-6: normal */
        return (uint8_t)(sign | shift_round(magnitude - 0x3c000000u, 20));
    if (exponent < 117) /* below half of 2^-9 */
        return (uint8_t)sign;
    return (uint8_t)(sign | shift_round((magnitude & 0x7fffff) | 0x800000, 141 - exponent));
}

/* NaN becomes 0. */
DEVICE uint8_t float_to_int8(float value)
{
    if (!(value == value))
        return 0;
    return (uint8_t)(int8_t)rintf(fminf(fmaxf(value, -127.f), 127.f));
}

/* The array must be aligned to its elements: the caller has checked it. */
DEVICE void store_element(uint32_t dtype, void *array, uint64_t index, float value)
{
    switch (dtype) {
    case DTYPE_F32:
        ((float *)array)[index] = value;
        return;
    case DTYPE_BF16:
        ((uint16_t *)array)[index] = float_to_bf16(value);
        return;
    case DTYPE_F16:
        ((uint16_t *)array)[index] = float_to_f16(value);
        return;
    case DTYPE_INT8:
        ((uint8_t *)array)[index] = float_to_int8(value);
        return;
    default:
        ((uint8_t *)array)[index] = float_to_e4m3(value);
    }
}
