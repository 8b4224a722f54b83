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
    /* Blocks: integers of few bits with their scales beside them. Weights only; blocks.h. First those of GGML, as GGUF files
     * store them ... */
    DTYPE_Q8_0,
    DTYPE_Q4_0,
    DTYPE_Q4_1,
    DTYPE_Q5_0,
    DTYPE_Q5_1,
    DTYPE_Q2_K,
    DTYPE_Q3_K,
    DTYPE_Q4_K,
    DTYPE_Q5_K,
    DTYPE_Q6_K,
    DTYPE_MXFP4,
    /* ... then two of ours, made of AWQ, GPTQ and other files at load. */
    DTYPE_Q4_ZERO,
    DTYPE_Q8_FLOAT,
};

#define DTYPE_LAST DTYPE_Q8_FLOAT

/* Whether the type has 8 bits: its values are stored in units of a scale. */
static inline bool dtype_is_8bit(enum dtype dtype)
{
    return dtype == DTYPE_INT8 || dtype == DTYPE_E4M3;
}

/* Whether elements are stored in blocks, which have no element alone. */
static inline bool dtype_is_blocks(enum dtype dtype)
{
    return dtype >= DTYPE_Q8_0;
}

struct block_shape {
    uint16_t elements, bytes;
};

/* Of a type that is blocks. */
static inline struct block_shape dtype_block_shape(enum dtype dtype)
{
    static const struct block_shape SHAPES[] = {
        {32, 34},   {32, 18},   {32, 20},   {32, 22}, {32, 24}, {256, 84}, {256, 110},
        {256, 144}, {256, 176}, {256, 210}, {32, 17}, {32, 21}, {32, 36},
    };
    assert(dtype_is_blocks(dtype) && dtype <= DTYPE_LAST);
    return SHAPES[dtype - DTYPE_Q8_0];
}

#define F16_LARGEST 65504.0f

/* The bytes of one element; not for E2M1 and blocks. */
static inline size_t dtype_bytes(enum dtype dtype)
{
    static const uint8_t bytes[] = {4, 2, 2, 1, 1};
    assert(dtype <= DTYPE_E4M3);
    return bytes[dtype];
}

/* Of blocks: n is a multiple of their elements. */
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

/* Element index of an array, which may have any alignment; not of blocks (block_element). */
float dtype_load(enum dtype dtype, const void *array, size_t index);
void dtype_store(enum dtype dtype, void *array, size_t index, float value);
