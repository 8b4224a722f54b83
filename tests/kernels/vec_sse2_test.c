/* Vectors of SSE2, which has few of the instructions that the others are made of: rounding, widening and what becomes of NaN are
 * those of plain C. */
#ifdef __x86_64__
#define SET_SSE2
#include "kernels/cpu/vector/vec.h"

#include <criterion/criterion.h>
#include <math.h>

#define COUNT(array) (sizeof array / sizeof array[0])

static const float numbers[] = {
    0,          -0.0f,         0.5f,        -0.5f,         1.5f,    2.5f,     -2.5f,    0.49999997f,
    126.5f,     -127.5f,       0x1p-149f,   -0x1p-126f,    0x1p22f, 1e30f,    -1e30f,   4194303.5f,
    4194304.5f, 8388607.5f,    -8388607.5f, 8388608,       8388609, 0x1p24f,  INFINITY, -INFINITY,
    NAN,        0x1.fffffep0f, -0x1.8p1f,   0x1.000002p0f, 3.4e38f, -3.4e38f, 87.3f,    -87.3f,
};

static void expect_same(const char *what, float got, float expected)
{
    cr_expect((isnan(got) && isnan(expected)) || memcmp(&got, &expected, sizeof got) == 0,
              "%s: %a, not %a", what, (double)got, (double)expected);
}

Test(vec_sse2, rounds_to_nearest_even_and_keeps_signs_and_large_numbers)
{
    for (size_t i = 0; i < COUNT(numbers); i++) {
        float got[LANES];
        vec_store(got, vec_round(vec_set(numbers[i])));
        for (uint32_t lane = 0; lane < LANES; lane++)
            expect_same("round", got[lane], nearbyintf(numbers[i]));
    }
}

Test(vec_sse2, widens_every_value_of_a_narrow_type)
{
    static const enum dtype types[] = {DTYPE_BF16, DTYPE_F16, DTYPE_INT8, DTYPE_E4M3};
    for (size_t t = 0; t < COUNT(types); t++) {
        const uint32_t n = dtype_is_8bit(types[t]) ? 256 : 65536;
        for (uint32_t first = 0; first < n; first += LANES) {
            union {
                uint8_t bytes[LANES];
                uint16_t halves[LANES];
                float widest[LANES]; /* of what vec_load_as may load */
            } array;
            float got[LANES];
            for (uint32_t lane = 0; lane < LANES; lane++)
                if (dtype_is_8bit(types[t]))
                    array.bytes[lane] = (uint8_t)(first + lane);
                else
                    array.halves[lane] = (uint16_t)(first + lane);
            vec_store(got, vec_load_as(types[t], &array));
            for (uint32_t lane = 0; lane < LANES; lane++)
                expect_same(dtype_name(types[t]), got[lane], dtype_load(types[t], &array, lane));
        }
    }
}

Test(vec_sse2, compares_as_plain_c_does)
{
    for (size_t i = 0; i < COUNT(numbers); i++)
        for (size_t j = 0; j < COUNT(numbers); j++) {
            const float x = numbers[i], y = numbers[j];
            float got[LANES];
            vec_store(got, vec_max(vec_set(x), vec_set(y)));
            expect_same("max", got[5], x > y ? x : y);
            vec_store(got, vec_min(vec_set(x), vec_set(y)));
            expect_same("min", got[6], x < y ? x : y);
            vec_store(got, vec_choose_below(vec_set(x), vec_set(y), vec_set(1), vec_set(2)));
            expect_same("choose", got[7], x < y ? 1 : 2);
            vec_store(got, vec_zero_below(vec_set(x), vec_set(y), vec_set(x)));
            expect_same("zero", got[8], x < y ? 0 : x);
        }
}

/* Lanes i and i + 8, then 4, 2 and 1 apart. */
Test(vec_sse2, adds_lanes_by_the_tree_of_every_set)
{
    float lanes[LANES], tree[LANES];
    for (uint32_t lane = 0; lane < LANES; lane++)
        tree[lane] = lanes[lane] = 1 / (float)(1 + (lane * 7 + 3) % LANES);
    for (uint32_t apart = LANES / 2; apart > 0; apart /= 2)
        for (uint32_t lane = 0; lane < apart; lane++)
            tree[lane] += tree[lane + apart];
    expect_same("sum", vec_sum(vec_load(lanes)), tree[0]);
}

Test(vec_sse2, finds_the_largest_in_any_lane)
{
    for (uint32_t lane = 0; lane < LANES; lane++) {
        float lanes[LANES];
        vec_store(lanes, vec_set(-2));
        lanes[lane] = -1;
        expect_same("largest", vec_largest(vec_load(lanes)), -1);
    }
}

Test(vec_sse2, stores_counts_and_scales_by_powers_of_two)
{
    float counts[LANES], scaled[LANES];
    int8_t stored[LANES];
    for (uint32_t lane = 0; lane < LANES; lane++)
        counts[lane] = (float)((int)lane * 17 - 128);
    vec_store_int8(stored, vec_load(counts));
    vec_store(scaled, vec_scale2(vec_set(-1.25f), vec_min(vec_load(counts), vec_set(100))));
    for (uint32_t lane = 0; lane < LANES; lane++) {
        cr_expect_eq(stored[lane], (int)counts[lane]);
        if (counts[lane] > -126)
            expect_same("scale", scaled[lane], ldexpf(-1.25f, (int)fminf(counts[lane], 100)));
    }
    vec_store(scaled, vec_scale2(vec_set(NAN), vec_set(NAN)));
    cr_expect(isnan(scaled[15]));
}

/* (1 + e)(1 - e) - 1 is -e^2: nothing is left of it if the product is rounded. */
Test(vec_sse2, rounds_a_product_before_it_is_added)
{
    float got[LANES];
    vec_store(got, vec_fma(vec_set(1 + 0x1p-13f), vec_set(1 - 0x1p-13f), vec_set(-1)));
    expect_same("product", got[0], 0);
    expect_same("once rounded", fmaf(1 + 0x1p-13f, 1 - 0x1p-13f, -1), -0x1p-26f);
}

Test(vec_sse2, e_to_the_x_is_within_two_units_in_the_last_place)
{
    for (float x = -87.2f; x < 88; x += 0.01f) {
        float got[LANES];
        vec_store(got, vec_exp(vec_set(x)));
        const double expected = exp((double)x);
        cr_assert_leq(fabs((double)got[3] - expected), expected * 2 * 0x1p-23, "e^%a", (double)x);
    }
    float got[LANES];
    vec_store(got, vec_exp(vec_set(NAN)));
    cr_expect(isnan(got[0]));
    vec_store(got, vec_exp(vec_set(-INFINITY)));
    cr_expect_eq(got[0], 0);
}
#endif
