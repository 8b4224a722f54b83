/*
 * dtype - the element types of activations, weights and the KV cache, and their scalar conversions.
 *
 * Widening is exact. Narrowing rounds to nearest even; NaN stays NaN (INT8 has none: 0). Overflow
 * becomes infinity in F32, BF16 and F16 and the largest value in the others.
 */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum dtype {
    DTYPE_F32,
    DTYPE_BF16,
    DTYPE_F16,
    DTYPE_INT8, /* -127 .. 127 */
    DTYPE_E4M3, /* 4 bits exponent, 3 mantissa, no infinity: up to 448 (OCP FP8) */
    DTYPE_E2M1, /* two elements a byte, the first in the low half: up to 6 (OCP MX); weights only */
};

/* Whether the type has 8 bits: its values are stored in units of a scale. */
static inline bool dtype_is_8bit(enum dtype dtype)
{
    return dtype == DTYPE_INT8 || dtype == DTYPE_E4M3;
}

#define F16_LARGEST 65504.0f

/* The bytes of one element; not for E2M1. */
static inline size_t dtype_bytes(enum dtype dtype)
{
    static const uint8_t bytes[] = {4, 2, 2, 1, 1};
    assert(dtype <= DTYPE_E4M3);
    return bytes[dtype];
}

size_t dtype_array_bytes(enum dtype dtype, size_t n);
const char *dtype_name(enum dtype dtype); /* "F32", as safetensors spells it */

float bf16_to_f32(uint16_t half);
uint16_t bf16_from_f32(float value);
float f16_to_f32(uint16_t half);
uint16_t f16_from_f32(float value);
float e4m3_to_f32(uint8_t value);
uint8_t e4m3_from_f32(float value);
float e2m1_to_f32(uint8_t value); /* 0 .. 15 */
uint8_t e2m1_from_f32(float value);
float e8m0_to_f32(uint8_t value); /* 2^(value - 127), the scale of 32 E2M1; 255 is NaN */

/* Element index of an array; the array may have any alignment. */
float dtype_load(enum dtype dtype, const void *array, size_t index);
void dtype_store(enum dtype dtype, void *array, size_t index, float value);
