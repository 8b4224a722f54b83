/*
 * formats - numbers of 16 and 8 bits as bits, and back: to nearest even; every NaN becomes the one that the device makes.
 */
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

namespace simt
{
static inline uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* What is smaller than a normal number is 0 of its sign. */
static inline float flushed(float value)
{
    return bits_of(value) & 0x7f800000 ? value : float_of(bits_of(value) & 0x80000000);
}

/* What is between two floats: the one of them whose last bit is set. Rounded once more, it is what the number itself is. */
static inline float to_odd(double value, double rest)
{
    float nearest = (float)value;
    const double left = value - (double)nearest + rest;
    uint32_t bits = bits_of(nearest);
    if (left == 0 || left - left != 0 || bits & 1)
        return nearest;
    bits += (left > 0) == (nearest > 0) ? 1u : UINT32_MAX;
    return nearest == 0 ? (left > 0 ? 1 : -1) * float_of(1) : float_of(bits);
}

/* a b + c of numbers of 16 bits, for one rounding to 16 bits. */
static inline float odd_multiply_add(float a, float b, float c)
{
    const double product = (double)a * (double)b, sum = product + (double)c;
    const double of_product = sum - (double)c, of_c = sum - of_product;
    const double rest = (product - of_product) + ((double)c - of_c);
    return to_odd(sum, rest);
}

static inline float bf16_value(uint16_t bits)
{
    return float_of((uint32_t)bits << 16);
}

static inline uint16_t bf16_bits(float value)
{
    uint32_t bits = bits_of(value);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return 0x7fff;
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline float f16_value(uint16_t bits)
{
    const uint32_t magnitude = bits & 0x7fffu, sign = (uint32_t)(bits & 0x8000) << 16;
    if (magnitude > 0x7c00)
        return float_of(0x7fffffff);
    if (magnitude == 0x7c00)
        return float_of(sign | 0x7f800000);
    return float_of(sign | bits_of(float_of(magnitude << 13) * 0x1p112f));
}

static inline uint16_t f16_bits(float value)
{
    const uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000)
        return 0x7fff;
    if (magnitude >= 0x477ff000) /* 65,520: what rounds to infinity */
        return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x38800000) /* 2^-14: counted in units of 2^-24, which are 0.5's last bits */
        return (uint16_t)(sign | (bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f)));
    return (uint16_t)(sign | ((magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13));
}

static inline float e4m3_value(uint8_t bits)
{
    const int exponent = bits >> 3 & 15, mantissa = bits & 7;
    if (exponent == 15 && mantissa == 7)
        return float_of(0x7fffffff);
    const float value = exponent ? ldexpf(1.f + (float)mantissa / 8.f, exponent - 7)
                                 : ldexpf((float)mantissa / 8.f, -6);
    return bits & 0x80 ? -value : value;
}
} // namespace simt
