#include "kernels/blocks.h"

#include <assert.h>
#include <math.h>

static float half_at(const uint8_t *bytes)
{
    return f16_to_f32((uint16_t)(bytes[0] | bytes[1] << 8));
}

static void set_all(float *values, uint32_t n, float value)
{
    for (uint32_t i = 0; i < n; i++)
        values[i] = value;
}

/* 32 numbers of 4 bits: the low halves of 16 bytes, then the high ones. */
static void take_nibbles(const uint8_t *bytes, uint32_t n_bytes, int8_t *numbers_out)
{
    for (uint32_t i = 0; i < n_bytes; i++) {
        numbers_out[i] = (int8_t)(bytes[i] & 0xf);
        numbers_out[n_bytes + i] = (int8_t)(bytes[i] >> 4);
    }
}

/* Adds a fifth bit to 32 numbers: bit i of a little-endian word. */
static void add_fifth_bits(const uint8_t *bytes, int8_t *numbers)
{
    for (uint32_t i = 0; i < 32; i++)
        numbers[i] = (int8_t)(numbers[i] | (bytes[i / 8] >> i % 8 & 1) << 4);
}

static void subtract(int8_t *numbers, uint32_t n, int8_t value)
{
    for (uint32_t i = 0; i < n; i++)
        numbers[i] = (int8_t)(numbers[i] - value);
}

/* ---- blocks of 32 ---- */

static void take_q8_0(const uint8_t *block, struct block_numbers *out)
{
    memcpy(out->numbers, block + 2, 32);
    set_all(out->factors, 2, half_at(block));
}

static void take_q4_0(const uint8_t *block, struct block_numbers *out)
{
    take_nibbles(block + 2, 16, out->numbers);
    subtract(out->numbers, 32, 8);
    set_all(out->factors, 2, half_at(block));
}

static void take_q4_1(const uint8_t *block, struct block_numbers *out)
{
    take_nibbles(block + 4, 16, out->numbers);
    set_all(out->factors, 2, half_at(block));
    set_all(out->offsets, 2, half_at(block + 2));
    out->has_offsets = true;
}

static void take_q5_0(const uint8_t *block, struct block_numbers *out)
{
    take_nibbles(block + 6, 16, out->numbers);
    add_fifth_bits(block + 2, out->numbers);
    subtract(out->numbers, 32, 16);
    set_all(out->factors, 2, half_at(block));
}

static void take_q5_1(const uint8_t *block, struct block_numbers *out)
{
    take_nibbles(block + 8, 16, out->numbers);
    add_fifth_bits(block + 4, out->numbers);
    set_all(out->factors, 2, half_at(block));
    set_all(out->offsets, 2, half_at(block + 2));
    out->has_offsets = true;
}

/* Twice E2M1, which are whole numbers, in units of half of the scale. 255 is NaN, which no weight may be. */
static void take_mxfp4(const uint8_t *block, struct block_numbers *out)
{
    static const int8_t TWICE[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    take_nibbles(block + 1, 16, out->numbers);
    for (uint32_t i = 0; i < 32; i++)
        out->numbers[i] = TWICE[out->numbers[i]];
    set_all(out->factors, 2, e8m0_to_f32(block[0]) / 2);
}

static float float_at(const uint8_t *bytes)
{
    float value;
    memcpy(&value, bytes, sizeof value);
    return value;
}

static void take_q4_zero(const uint8_t *block, struct block_numbers *out)
{
    take_nibbles(block + 5, 16, out->numbers);
    subtract(out->numbers, 32, (int8_t)block[4]);
    set_all(out->factors, 2, float_at(block));
}

static void take_q8_float(const uint8_t *block, struct block_numbers *out)
{
    memcpy(out->numbers, block + 4, 32);
    set_all(out->factors, 2, float_at(block));
}

/* ---- blocks of 256 ---- */

static void take_q2_k(const uint8_t *block, struct block_numbers *out)
{
    const uint8_t *scales = block, *bytes = block + 16;
    const float d = half_at(block + 80), m = half_at(block + 82);
    for (uint32_t i = 0; i < 256; i++)
        out->numbers[i] = (int8_t)(bytes[i / 128 * 32 + i % 32] >> i / 32 % 4 * 2 & 3);
    for (uint32_t g = 0; g < 16; g++) {
        out->factors[g] = d * (float)(scales[g] & 0xf);
        out->offsets[g] = -(m * (float)(scales[g] >> 4));
    }
    out->has_offsets = true;
}

static void take_q3_k(const uint8_t *block, struct block_numbers *out)
{
    const uint8_t *high = block, *bytes = block + 32, *scales = block + 96;
    const float d = half_at(block + 108);
    for (uint32_t i = 0; i < 256; i++) {
        const int low = bytes[i / 128 * 32 + i % 32] >> i / 32 % 4 * 2 & 3;
        const int has_high = high[i % 32] >> i / 32 & 1;
        out->numbers[i] = (int8_t)(low - (has_high ? 0 : 4));
    }
    for (uint32_t g = 0; g < 16; g++) {
        const int low = scales[g % 8] >> g / 8 * 4 & 0xf;
        const int two = scales[8 + g % 4] >> g / 4 * 2 & 3;
        out->factors[g] = d * (float)((low | two << 4) - 32);
    }
}

/* Eight scales and eight minima of 6 bits each in 12 bytes, one of each for 32 elements. */
static void take_six_bits(const uint8_t *block, struct block_numbers *out)
{
    const uint8_t *bytes = block + 4;
    const float d = half_at(block), m = half_at(block + 2);
    for (uint32_t i = 0; i < 8; i++) {
        const uint32_t j = i % 4;
        const int scale = i < 4 ? bytes[j] & 0x3f : (bytes[8 + j] & 0xf) | (bytes[j] >> 2 & 0x30);
        const int least = i < 4 ? bytes[4 + j] & 0x3f
                                : bytes[8 + j] >> 4 | (bytes[4 + j] >> 2 & 0x30);
        set_all(out->factors + 2 * i, 2, d * (float)scale);
        set_all(out->offsets + 2 * i, 2, -(m * (float)least));
    }
    out->has_offsets = true;
}

static void take_q4_k(const uint8_t *block, struct block_numbers *out)
{
    for (uint32_t i = 0; i < 4; i++)
        take_nibbles(block + 16 + 32 * i, 32, out->numbers + 64 * i);
    take_six_bits(block, out);
}

static void take_q5_k(const uint8_t *block, struct block_numbers *out)
{
    const uint8_t *high = block + 16;
    for (uint32_t i = 0; i < 4; i++)
        take_nibbles(block + 48 + 32 * i, 32, out->numbers + 64 * i);
    for (uint32_t i = 0; i < 256; i++)
        out->numbers[i] = (int8_t)(out->numbers[i] | (high[i % 32] >> i / 32 & 1) << 4);
    take_six_bits(block, out);
}

static void take_q6_k(const uint8_t *block, struct block_numbers *out)
{
    const uint8_t *low = block, *high = block + 128, *scales = block + 192;
    const float d = half_at(block + 208);
    for (uint32_t half = 0; half < 2; half++)
        take_nibbles(low + 64 * half, 64, out->numbers + 128 * half);
    for (uint32_t i = 0; i < 256; i++) {
        const int two = high[i / 128 * 32 + i % 32] >> i / 32 % 4 * 2 & 3;
        out->numbers[i] = (int8_t)((out->numbers[i] | two << 4) - 32);
    }
    for (uint32_t g = 0; g < 16; g++)
        out->factors[g] = d * (float)(int8_t)scales[g];
}

/* ---- all ---- */

void block_take_apart(enum dtype dtype, const void *block, struct block_numbers *numbers_out)
{
    static void (*const TAKE[])(const uint8_t *, struct block_numbers *) = {
        take_q8_0, take_q4_0, take_q4_1, take_q5_0,  take_q5_1,    take_q2_k,     take_q3_k,
        take_q4_k, take_q5_k, take_q6_k, take_mxfp4, take_q4_zero, take_q8_float,
    };
    assert(dtype_is_blocks(dtype) && dtype <= DTYPE_LAST);
    numbers_out->has_offsets = false;
    TAKE[dtype - DTYPE_Q8_0](block, numbers_out);
}

/* Where the F16 numbers of a block are; NONE: there is no second one. */
#define NONE UINT8_MAX

size_t blocks_first_not_finite(enum dtype dtype, const void *blocks, size_t n)
{
    static const uint8_t HALVES[][2] = {
        {0, NONE}, {0, NONE},   {0, 2}, {0, NONE}, {0, 2},
        {80, 82},  {108, NONE}, {0, 2}, {0, 2},    {208, NONE},
    };
    const struct block_shape shape = dtype_block_shape(dtype);
    const uint8_t *block = blocks;
    for (size_t i = 0; i < n; i++, block += shape.bytes) {
        if (dtype == DTYPE_MXFP4) {
            if (block[0] == 255)
                return i;
            continue;
        }
        if (dtype > DTYPE_MXFP4) {
            if (!isfinite(float_at(block)))
                return i;
            continue;
        }
        for (uint32_t h = 0; h < 2 && HALVES[dtype - DTYPE_Q8_0][h] != NONE; h++)
            if ((block[HALVES[dtype - DTYPE_Q8_0][h] + 1] & 0x7c) == 0x7c)
                return i;
    }
    return n;
}

void blocks_to_f32(enum dtype dtype, const void *blocks, size_t n, float *wide_out)
{
    const struct block_shape shape = dtype_block_shape(dtype);
    const uint8_t *block = blocks;
    struct block_numbers numbers;
    assert(n % shape.elements == 0);
    for (size_t at = 0; at < n; at += shape.elements, block += shape.bytes) {
        block_take_apart(dtype, block, &numbers);
        for (uint32_t i = 0; i < shape.elements; i++) {
            const float product = numbers.factors[i / 16] * (float)numbers.numbers[i];
            wide_out[at + i] = numbers.has_offsets ? product + numbers.offsets[i / 16] : product;
        }
    }
}

float block_element(enum dtype dtype, const void *blocks, size_t index)
{
    const struct block_shape shape = dtype_block_shape(dtype);
    float wide[BLOCK_ELEMENTS_MAX];
    blocks_to_f32(dtype, (const uint8_t *)blocks + index / shape.elements * shape.bytes,
                  shape.elements, wide);
    return wide[index % shape.elements];
}
