#include "kernels/dtype.h"

#include <assert.h>
#include <stdbool.h>

size_t dtype_bytes(enum dtype dtype)
{
    return dtype == DTYPE_F32 ? 4 : 2;
}

const char *dtype_name(enum dtype dtype)
{
    static const char *const names[] = {"F32", "BF16", "F16"};
    assert(dtype <= DTYPE_F16);
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

float dtype_load(enum dtype dtype, const void *array, size_t index)
{
    const char *element = (const char *)array + index * dtype_bytes(dtype);
    if (dtype == DTYPE_F32) {
        float value;
        memcpy(&value, element, sizeof value);
        return value;
    }
    uint16_t half;
    memcpy(&half, element, sizeof half);
    return dtype == DTYPE_BF16 ? bf16_to_f32(half) : f16_to_f32(half);
}

void dtype_store(enum dtype dtype, void *array, size_t index, float value)
{
    char *element = (char *)array + index * dtype_bytes(dtype);
    if (dtype == DTYPE_F32) {
        memcpy(element, &value, sizeof value);
        return;
    }
    uint16_t half = dtype == DTYPE_BF16 ? bf16_from_f32(value) : f16_from_f32(value);
    memcpy(element, &half, sizeof half);
}
