#include "tests/gpu/conform/conform_compare.h"

#include "kernels/dtype.h"

#include <math.h>
#include <stdlib.h>

#define SMALLEST_NORMAL 0x1p-126

enum rule { SAME, ULPS_4, ULPS_5, LOGARITHM, FUSED };

static const struct row {
    enum conform_format format;
    enum rule rule;
} rows[CONFORM_NUMBERS_ALL] = {
#define X(name, format, rule) {CONFORM_##format, rule},
    CONFORM_NUMBERS(X)
#undef X
};

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static bool is_nan16(uint32_t half, uint32_t infinity)
{
    return (half & 0x7fffu) > infinity;
}

bool conform_is_same(enum conform_format format, uint32_t device, uint32_t host)
{
    const uint32_t infinity = format == CONFORM_BF16 ? 0x7f80u : 0x7c00u;
    if (device == host || format == CONFORM_BITS)
        return device == host;
    if (format == CONFORM_FLOAT)
        return isnan(float_of(device)) && isnan(float_of(host));
    for (uint32_t shift = 0; shift < 32; shift += 16) {
        const uint32_t a = device >> shift & 0xffffu, b = host >> shift & 0xffffu;
        if (a != b && !(is_nan16(a, infinity) && is_nan16(b, infinity)))
            return false;
    }
    return true;
}

/* Whole numbers in the order of the floats. */
static int64_t rank(float value)
{
    int32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits < 0 ? -(int64_t)(bits & 0x7fffffff) : bits;
}

static double ulps(float device, float host, double limit)
{
    if (fabs((double)device) < 2 * SMALLEST_NORMAL && fabs((double)host) < 2 * SMALLEST_NORMAL)
        return 0; /* either may count what is smaller as 0 */
    return (double)llabs(rank(device) - rank(host)) / limit;
}

/* Half a last place of the product, where it is rounded, and of the sum. */
static double fused(uint32_t input, float device)
{
    const uint32_t other = CONFORM_OTHER(input);
    const double product = (double)float_of(CONFORM_MODERATE(input)) *
                           (double)float_of(CONFORM_MODERATE(other));
    const double sum = product + (double)float_of(CONFORM_MODERATE(~other));
    return fabs((double)device - sum) / (0x1p-24 * (fabs(product) + fabs(sum)) * 1.0001);
}

double conform_difference(enum conform_number number, uint32_t input, uint32_t device,
                          uint32_t host)
{
    const struct row *row = &rows[number];
    const float a = float_of(device), b = float_of(host);
    if (row->rule == FUSED)
        return fmax(fused(input, a), fused(input, b));
    if (conform_is_same(row->format, device, host))
        return 0;
    if (row->rule == SAME || isnan(a) || isnan(b))
        return INFINITY;
    if (row->rule ==
        LOGARITHM) /* 2^-22 as it is, or of what is larger than 1; the host's own rounding */
        return isinf(a) || isinf(b)
                   ? INFINITY
                   : fabs((double)a - (double)b) / (0x1.4p-22 * fmax(1, fabs((double)b)));
    return ulps(a, b, row->rule == ULPS_4 ? 4 : 5);
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

bool conform_expected(enum conform_number number, uint32_t input, uint32_t *output_out)
{
    const float value = float_of(input), other = float_of(CONFORM_OTHER(input));
    int8_t byte = 0;
    switch (number) {
    case CONFORM_float_to_bf16:
        return *output_out = bf16_from_f32(value), true;
    case CONFORM_float_to_f16:
        return *output_out = f16_from_f32(value), true;
    case CONFORM_pack_bf16:
        return *output_out = bf16_from_f32(other) | (uint32_t)bf16_from_f32(value) << 16, true;
    case CONFORM_pack_f16:
        return *output_out = f16_from_f32(other) | (uint32_t)f16_from_f32(value) << 16, true;
    case CONFORM_float_to_e4m3:
        return *output_out = e4m3_from_f32(value), true;
    case CONFORM_float_to_int8:
        dtype_store(DTYPE_INT8, &byte, 0, value);
        return *output_out = (uint8_t)byte, true;
    case CONFORM_bf16_to_float:
        return *output_out = bits_of(bf16_to_f32((uint16_t)input)), true;
    case CONFORM_f16_to_float:
        return *output_out = bits_of(f16_to_f32((uint16_t)input)), true;
    case CONFORM_e4m3_to_float:
        return *output_out = bits_of(e4m3_to_f32((uint8_t)input)), true;
    case CONFORM_e2m1_to_float:
        return *output_out = bits_of(e2m1_to_f32(input & 15)), true;
    case CONFORM_e8m0_to_float:
        return *output_out = bits_of(e8m0_to_f32((uint8_t)input)), true;
    default:
        return false;
    }
}
