/* dtype: every code of each type against its definition, rounding between every two neighbours, what
 * overflow and NaN become, and arrays of any alignment. */
#include "kernels/dtype.h"

#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>

#define COUNT(array) (sizeof array / sizeof array[0])

static float load_code(enum dtype dtype, uint32_t code)
{
    uint8_t bytes[4];
    memcpy(bytes, &code, sizeof bytes);
    return dtype_load(dtype, bytes, 0);
}

static uint32_t store_code(enum dtype dtype, float value)
{
    uint32_t code = 0;
    dtype_store(dtype, &code, 0, value);
    return code;
}

/* (1 + m / 2^n) 2^(e - bias), and m / 2^n 2^(1 - bias) where e is 0 */
static double small_float(uint32_t code, uint32_t mantissa_bits, uint32_t exponent_bits)
{
    uint32_t n = 1u << mantissa_bits;
    uint32_t exponent = code >> mantissa_bits & ((1u << exponent_bits) - 1);
    int bias = (1 << (exponent_bits - 1)) - 1;
    double fraction = (double)(code % n) / n;
    double magnitude = exponent > 0 ? ldexp(1 + fraction, (int)exponent - bias)
                                    : ldexp(fraction, 1 - bias);
    return code >> (mantissa_bits + exponent_bits) & 1 ? -magnitude : magnitude;
}

/* Types whose codes ascend with the magnitude, up to the largest finite one. */
static const struct format {
    enum dtype dtype;
    uint32_t sign, largest;
    uint32_t mantissa_bits, exponent_bits; /* 0: whole numbers */
} formats[] = {
    {DTYPE_BF16, 0x8000, 0x7f7f, 7, 8}, {DTYPE_F16, 0x8000, 0x7bff, 10, 5},
    {DTYPE_E4M3, 0x80, 0x7e, 3, 4},     {DTYPE_E2M1, 0x8, 0x7, 1, 2},
    {DTYPE_INT8, 0, 127, 0, 0},
};

Test(dtype, every_code_widens_to_its_value_and_comes_back)
{
    for (size_t f = 0; f < COUNT(formats); f++)
        for (uint32_t code = 0; code <= formats[f].largest; code++)
            for (uint32_t sign = 0; sign <= formats[f].sign; sign += formats[f].sign) {
                const struct format *format = &formats[f];
                double expected = format->mantissa_bits > 0
                                      ? small_float(code | sign, format->mantissa_bits,
                                                    format->exponent_bits)
                                      : code;
                float value = load_code(format->dtype, code | sign);
                cr_assert_eq((double)value, expected, "%s %#x is %g", dtype_name(format->dtype),
                             code | sign, (double)value);
                cr_assert_eq(!!signbit(value), sign != 0);
                cr_assert_eq(store_code(format->dtype, value), code | sign, "%s %#x",
                             dtype_name(format->dtype), code | sign);
                if (format->sign == 0)
                    break;
            }
    for (int value = -127; value <= 127; value++) {
        cr_assert_eq(load_code(DTYPE_INT8, (uint8_t)value), value);
        cr_assert_eq(store_code(DTYPE_INT8, (float)value), (uint8_t)value);
    }
}

static void assert_narrows(const struct format *format, float value, uint32_t code)
{
    uint32_t got = store_code(format->dtype, value);
    cr_assert_eq(got, code, "%s of %.9g is %#x, not %#x", dtype_name(format->dtype), (double)value,
                 got, code);
    if (format->sign == 0)
        return;
    got = store_code(format->dtype, -value);
    cr_assert_eq(got, code | format->sign, "%s of %.9g is %#x", dtype_name(format->dtype),
                 (double)-value, got);
}

/* Codes of neighbours differ by one, so the even one of two is the one with the even code. */
Test(dtype, halves_round_to_even_and_the_rest_to_the_nearest)
{
    for (size_t f = 0; f < COUNT(formats); f++)
        for (uint32_t code = 0; code < formats[f].largest; code++) {
            float low = load_code(formats[f].dtype, code);
            float high = load_code(formats[f].dtype, code + 1);
            float half = low + (high - low) / 2; /* exact */
            assert_narrows(&formats[f], half, code + code % 2);
            assert_narrows(&formats[f], nextafterf(half, -INFINITY), code);
            assert_narrows(&formats[f], nextafterf(half, INFINITY), code + 1);
        }
    cr_assert_eq(store_code(DTYPE_INT8, -2.5f), (uint8_t)-2);
    cr_assert_eq(store_code(DTYPE_INT8, -3.5f), (uint8_t)-4);
}

Test(dtype, overflow_is_infinite_or_the_largest)
{
    static const struct {
        enum dtype dtype;
        float value;
        uint32_t code;
    } cases[] = {
        {DTYPE_BF16, FLT_MAX, 0x7f80},   {DTYPE_BF16, -INFINITY, 0xff80},
        {DTYPE_F16, 65519.996f, 0x7bff}, {DTYPE_F16, 65520, 0x7c00},
        {DTYPE_F16, -FLT_MAX, 0xfc00},   {DTYPE_F16, INFINITY, 0x7c00},
        {DTYPE_E4M3, 448.1f, 0x7e},      {DTYPE_E4M3, 480, 0x7e},
        {DTYPE_E4M3, -INFINITY, 0xfe},   {DTYPE_E2M1, 6.1f, 7},
        {DTYPE_E2M1, -1000, 15},         {DTYPE_E2M1, INFINITY, 7},
        {DTYPE_INT8, 127.5f, 127},       {DTYPE_INT8, -128, (uint8_t)-127},
        {DTYPE_INT8, 3e9f, 127},         {DTYPE_INT8, -INFINITY, (uint8_t)-127},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        cr_assert_eq(store_code(cases[i].dtype, cases[i].value), cases[i].code, "%s of %g is %#x",
                     dtype_name(cases[i].dtype), (double)cases[i].value,
                     store_code(cases[i].dtype, cases[i].value));
}

/* The payloads of NaNs: only a top bit, only a bottom bit, all bits. */
Test(dtype, nan_stays_nan_where_there_is_one)
{
    static const uint32_t payloads[] = {0x7fc00000, 0x7f800001, 0xffffffff, 0xff807fff};
    for (size_t i = 0; i < COUNT(payloads); i++) {
        float nan;
        memcpy(&nan, &payloads[i], sizeof nan);
        for (enum dtype dtype = DTYPE_F32; dtype <= DTYPE_F16; dtype++)
            cr_assert(isnan(load_code(dtype, store_code(dtype, nan))), "%s", dtype_name(dtype));
        cr_assert(isnan(load_code(DTYPE_E4M3, store_code(DTYPE_E4M3, nan))));
        cr_assert_eq(store_code(DTYPE_INT8, nan), 0);
        cr_assert_eq(store_code(DTYPE_E2M1, nan) & 7, 0);
    }
    cr_assert(isnan(e4m3_to_f32(0x7f)));
    cr_assert(isnan(e4m3_to_f32(0xff)));
    for (uint32_t code = 0x7c01; code < 0x8000; code++)
        cr_assert(isnan(f16_to_f32((uint16_t)code)));
}

Test(dtype, e8m0_is_a_power_of_two)
{
    for (uint32_t code = 0; code < 255; code++)
        cr_assert_eq((double)e8m0_to_f32((uint8_t)code), ldexp(1, (int)code - 127), "%u", code);
    cr_assert(isnan(e8m0_to_f32(255)));
}

Test(dtype, arrays_may_begin_anywhere)
{
    static const enum dtype dtypes[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16, DTYPE_INT8, DTYPE_E4M3};
    for (size_t d = 0; d < COUNT(dtypes); d++) {
        uint8_t bytes[64];
        memset(bytes, 0xff, sizeof bytes);
        for (size_t i = 0; i < 9; i++)
            dtype_store(dtypes[d], bytes + 1, i, (float)i - 4);
        for (size_t i = 0; i < 9; i++)
            cr_assert_eq(dtype_load(dtypes[d], bytes + 1, i), (float)i - 4);
        size_t end = 1 + dtype_array_bytes(dtypes[d], 9);
        cr_assert_eq(end, 1 + 9 * dtype_bytes(dtypes[d]));
        cr_assert_eq(bytes[0], 0xff);
        cr_assert_eq(bytes[end], 0xff);
    }
}

Test(dtype, two_e2m1_share_a_byte_and_leave_each_other_alone)
{
    uint8_t bytes[3] = {0xff, 0xff, 0xff};
    cr_assert_eq(dtype_array_bytes(DTYPE_E2M1, 5), 3);
    dtype_store(DTYPE_E2M1, bytes, 2, 1.5f);
    cr_assert_eq(bytes[1], 0xf3);
    dtype_store(DTYPE_E2M1, bytes, 3, -2);
    cr_assert_eq(bytes[1], 0xc3);
    cr_assert_eq(bytes[0], 0xff);
    cr_assert_eq(bytes[2], 0xff);
    cr_assert_eq(dtype_load(DTYPE_E2M1, bytes, 2), 1.5f);
    cr_assert_eq(dtype_load(DTYPE_E2M1, bytes, 3), -2.0f);
}
