#include "kernels/dtype.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>

size_t dtype_array_bytes(enum dtype dtype, size_t n)
{
    if (dtype_is_blocks(dtype)) {
        const struct block_shape shape = dtype_block_shape(dtype);
        assert(n % shape.elements == 0);
        return n / shape.elements * shape.bytes;
    }
    return dtype == DTYPE_E2M1 ? (n + 1) / 2 : n * dtype_bytes(dtype);
}

const char *dtype_name(enum dtype dtype)
{
    static const char *const names[] = {
        "F32",  "BF16", "F16",  "I8",   "F8_E4M3", "F4_E2M1", "Q8_0",  "Q4_0",    "Q4_1",    "Q5_0",
        "Q5_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K",    "Q6_K",    "MXFP4", "Q4_ZERO", "Q8_FLOAT"};
    assert(dtype <= DTYPE_LAST);
    return names[dtype];
}

static uint32_t float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float bits_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

float bf16_to_f32(uint16_t half)
{
    return bits_float((uint32_t)half << 16);
}

uint16_t bf16_from_f32(float value)
{
    uint32_t bits = float_bits(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40); /* quiet, or rounding could make it infinite */
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

float f16_to_f32(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t exponent = half >> 10 & 0x1f;
    uint32_t mantissa = half & 0x3ff;
    if (exponent == 31)
        return bits_float(sign | 0x7f800000u | mantissa << 13);
    if (exponent > 0)
        return bits_float(sign | (exponent + 112) << 23 | mantissa << 13);
    float tiny = (float)mantissa * 0x1p-24f; /* subnormal: exact in float32 */
    return sign ? -tiny : tiny;
}

/* Shifts right by n, rounding to nearest even. */
static uint32_t shift_round(uint32_t value, uint32_t n)
{
    uint32_t half = 1u << (n - 1);
    return (value + half - 1 + (value >> n & 1)) >> n;
}

uint16_t f16_from_f32(float value)
{
    uint32_t bits = float_bits(value);
    uint32_t sign = bits >> 16 & 0x8000;
    uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x1ff));
    if (magnitude >= 0x47800000u) /* 65536 and up */
        return (uint16_t)(sign | 0x7c00);
    if (magnitude >= 0x38800000u) /* 2^-14: normal in float16; a carry may reach infinity */
        return (uint16_t)(sign | shift_round(magnitude - 0x38000000u, 13));
    uint32_t exponent = magnitude >> 23;
    if (exponent < 102) /* below half of 2^-24 */
        return (uint16_t)sign;
    return (uint16_t)(sign | shift_round((magnitude & 0x7fffff) | 0x800000, 126 - exponent));
}

float e4m3_to_f32(uint8_t value)
{
    uint32_t sign = (uint32_t)(value & 0x80) << 24;
    uint32_t exponent = value >> 3 & 0xf;
    uint32_t mantissa = value & 7;
    if ((value & 0x7f) == 0x7f)
        return bits_float(sign | 0x7fc00000u);
    if (exponent > 0)
        return bits_float(sign | (exponent + 120) << 23 | mantissa << 20);
    float tiny = (float)mantissa * 0x1p-9f;
    return sign ? -tiny : tiny;
}

uint8_t e4m3_from_f32(float value)
{
    uint32_t bits = float_bits(value);
    uint32_t sign = bits >> 24 & 0x80;
    uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return (uint8_t)(sign | 0x7f);
    if (magnitude >= 0x43e00000u) /* 448 and up */
        return (uint8_t)(sign | 0x7e);
    if (magnitude >= 0x3c800000u) /* 2^-6: normal */
        return (uint8_t)(sign | shift_round(magnitude - 0x3c000000u, 20));
    uint32_t exponent = magnitude >> 23;
    if (exponent < 117) /* below half of 2^-9 */
        return (uint8_t)sign;
    return (uint8_t)(sign | shift_round((magnitude & 0x7fffff) | 0x800000, 141 - exponent));
}

static const float e2m1_values[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};

float e2m1_to_f32(uint8_t value)
{
    float magnitude = e2m1_values[value & 7];
    return value & 8 ? -magnitude : magnitude;
}

/* Rounds to nearest even. */
uint8_t e2m1_from_f32(float value)
{
    static const float limits[7] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5};
    float magnitude = value < 0 ? -value : value;
    uint8_t best = 0;
    while (best < 7 && (magnitude > limits[best] || (magnitude == limits[best] && best % 2 == 1)))
        best++;
    return (uint8_t)(best | (float_bits(value) >> 28 & 8));
}

float e8m0_to_f32(uint8_t value)
{
    if (value == 255)
        return bits_float(0x7fc00000u);
    return value > 0 ? bits_float((uint32_t)value << 23) : 0x1p-127f;
}

static int8_t int8_from_f32(float value)
{
    if (isnan(value))
        return 0;
    return (int8_t)nearbyintf(fminf(127, fmaxf(-127, value)));
}

float dtype_load(enum dtype dtype, const void *array, size_t index)
{
    const uint8_t *bytes = array;
    uint16_t half;
    float value;
    switch (dtype) {
    case DTYPE_F32:
        memcpy(&value, bytes + index * sizeof value, sizeof value);
        return value;
    case DTYPE_BF16:
        memcpy(&half, bytes + index * sizeof half, sizeof half);
        return bf16_to_f32(half);
    case DTYPE_F16:
        memcpy(&half, bytes + index * sizeof half, sizeof half);
        return f16_to_f32(half);
    case DTYPE_INT8:
        return (float)(int8_t)bytes[index];
    case DTYPE_E4M3:
        return e4m3_to_f32(bytes[index]);
    case DTYPE_E2M1:
        return e2m1_to_f32(index % 2 ? bytes[index / 2] >> 4 : bytes[index / 2] & 0xf);
    default:
        break;
    }
    assert(false);
    return NAN;
}

void dtype_store(enum dtype dtype, void *array, size_t index, float value)
{
    uint8_t *bytes = array;
    uint16_t half;
    switch (dtype) {
    case DTYPE_F32:
        memcpy(bytes + index * sizeof value, &value, sizeof value);
        return;
    case DTYPE_BF16:
    case DTYPE_F16:
        half = dtype == DTYPE_BF16 ? bf16_from_f32(value) : f16_from_f32(value);
        memcpy(bytes + index * sizeof half, &half, sizeof half);
        return;
    case DTYPE_INT8:
        bytes[index] = (uint8_t)int8_from_f32(value);
        return;
    case DTYPE_E4M3:
        bytes[index] = e4m3_from_f32(value);
        return;
    case DTYPE_E2M1: {
        uint8_t *pair = &bytes[index / 2];
        uint8_t four = e2m1_from_f32(value);
        *pair = (uint8_t)(index % 2 ? (*pair & 0xf) | four << 4 : (*pair & 0xf0) | four);
        return;
    }
    default:
        break;
    }
    assert(false);
}
