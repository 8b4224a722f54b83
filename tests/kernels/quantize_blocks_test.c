/* quantize_blocks: rounded blocks are near their values, never worse than the plain rounding, and the same from any source and with
 * any number of threads. */
#include "base/thread_pool.h"
#include "kernels/blocks.h"
#include "kernels/quantize_blocks.h"
#include "tests/kernels/support/values.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 70, COLUMNS = 352, N = ROWS * COLUMNS, BLOCK = 32 };

static const enum dtype TYPES[] = {DTYPE_Q8_0, DTYPE_Q4_1};
#define EACH_TYPE(type) for (size_t type = 0; type < sizeof TYPES / sizeof *TYPES; type++)

static float values[N], back[N];
static uint8_t blocks[N * 2];

/* Rows of other magnitudes: from subnormal in F16 to thousands. */
static void fill(void)
{
    for (uint32_t row = 0; row < ROWS; row++)
        for (uint32_t i = 0; i < COLUMNS; i++)
            values[row * COLUMNS + i] = ldexpf(values_at(7, row, i), (int)(row % 36) - 24) +
                                        (row % 5 == 0 ? ldexpf(1.0F, (int)(row % 36) - 24) : 0.0F);
}

static void round_trip(enum dtype dtype, enum dtype source_dtype, const void *source)
{
    memset(blocks, 0xee, sizeof blocks);
    quantize_blocks(NULL, dtype, ROWS, COLUMNS, source_dtype, source, blocks);
    blocks_to_f32(dtype, blocks, N, back);
    const size_t bytes = dtype_array_bytes(dtype, N);
    cr_assert_eq(blocks[bytes], 0xee);
    cr_assert_eq(blocks_first_not_finite(dtype, blocks, N / BLOCK), N / BLOCK);
}

/* Of the range from low to high in steps, as GGML rounds: d and m in F16, each number the nearest. */
static double plain_error(enum dtype dtype, const float *block)
{
    float low = block[0], high = block[0];
    double sum = 0.0;

    for (uint32_t i = 1; i < BLOCK; i++) {
        low = fminf(low, block[i]);
        high = fmaxf(high, block[i]);
    }
    const bool is_q8 = dtype == DTYPE_Q8_0;
    const float d = f16_to_f32(f16_from_f32(is_q8 ? fmaxf(-low, high) / 127 : (high - low) / 15));
    const float m = is_q8 ? 0.0F : f16_to_f32(f16_from_f32(low));
    for (uint32_t i = 0; i < BLOCK; i++) {
        float number = d > 0 ? rintf((block[i] - m) / d) : 0.0F;
        number = fminf(fmaxf(number, is_q8 ? -127.0F : 0.0F), is_q8 ? 127.0F : 15.0F);
        const double error = (double)block[i] - (double)(d * number + m);
        sum += error * error;
    }
    return sum;
}

Test(quantize_blocks, no_block_is_worse_than_by_plain_rounding)
{
    fill();
    EACH_TYPE(type)
    {
        double ours = 0.0, plain = 0.0;
        round_trip(TYPES[type], DTYPE_F32, values);
        for (uint32_t b = 0; b < N / BLOCK; b++) {
            const float *block = values + (size_t)b * BLOCK;
            double error = 0.0, spread = 0.0;
            const double bound = plain_error(TYPES[type], block);
            for (uint32_t i = 0; i < BLOCK; i++) {
                const double off = (double)block[i] - (double)back[b * BLOCK + i];
                error += off * off;
                spread = fmax(spread, fabs((double)block[i]));
            }
            cr_assert_leq(error, bound * 1.0001 + spread * spread * 1e-9, "%s, block %u",
                          dtype_name(TYPES[type]), b);
            ours += error / (spread * spread);
            plain += bound / (spread * spread);
        }
        if (TYPES[type] == DTYPE_Q4_1)
            cr_expect_lt(ours, 0.95 * plain, "%g of %g", ours, plain); /* what the search is for */
    }
}

Test(quantize_blocks, values_that_a_block_can_hold_come_back)
{
    EACH_TYPE(type)
    {
        const int most = TYPES[type] == DTYPE_Q8_0 ? 127 : 15;
        for (uint32_t i = 0; i < N; i++) {
            int number = (int)(values_at(3, i / BLOCK, i % BLOCK) * 1000) % (most + 1);
            number = i % BLOCK == 0 ? most : abs(number);
            if (i % BLOCK == 1 && most == 15)
                number = 0;
            values[i] = 0.125F *
                            (float)(most == 127 && i % 2 == 0 && i % BLOCK > 0 ? -number : number) +
                        (most == 15 ? -0.75F : 0.0F);
        }
        round_trip(TYPES[type], DTYPE_F32, values);
        cr_assert_arr_eq(values, back, sizeof values, "%s", dtype_name(TYPES[type]));
    }
}

Test(quantize_blocks, zeros_equal_values_and_huge_ones_are_finite)
{
    static const float cases[] = {0.0F, -0.0F, 1.0F, -3.5F, 1e-12F, 65000.0F, 3e7F, -3e30F};
    EACH_TYPE(type)
    {
        for (uint32_t i = 0; i < N; i++)
            values[i] = cases[i / BLOCK % (sizeof cases / sizeof *cases)];
        round_trip(TYPES[type], DTYPE_F32, values);
        for (uint32_t i = 0; i < 4 * BLOCK; i++)
            cr_expect_float_eq(back[i], values[i], 1e-3F * fabsf(values[i]), "%s, %u: %g",
                               dtype_name(TYPES[type]), i, (double)back[i]);
    }
}

/* 16-bit values, and blocks of 32 and of 256 elements, are what their float32 values are. */
Test(quantize_blocks, the_type_of_the_source_changes_nothing)
{
    static uint16_t halves[N];
    static uint8_t source[N * 2], expected[N * 2];
    fill();
    EACH_TYPE(type)
    {
        for (enum dtype half = DTYPE_BF16; half <= DTYPE_F16; half++) {
            for (uint32_t i = 0; i < N; i++) {
                halves[i] = half == DTYPE_BF16 ? bf16_from_f32(values[i]) : f16_from_f32(values[i]);
                back[i] = half == DTYPE_BF16 ? bf16_to_f32(halves[i]) : f16_to_f32(halves[i]);
            }
            quantize_blocks(NULL, TYPES[type], ROWS, COLUMNS, DTYPE_F32, back, expected);
            round_trip(TYPES[type], half, halves);
            cr_expect_arr_eq(blocks, expected, dtype_array_bytes(TYPES[type], N));
        }
        quantize_blocks(NULL, DTYPE_Q8_0, ROWS, COLUMNS, DTYPE_F32, values, source);
        blocks_to_f32(DTYPE_Q8_0, source, N, back);
        quantize_blocks(NULL, TYPES[type], ROWS, COLUMNS, DTYPE_F32, back, expected);
        round_trip(TYPES[type], DTYPE_Q8_0, source);
        cr_expect_arr_eq(blocks, expected, dtype_array_bytes(TYPES[type], N));
    }
    /* Q4_K of 256 columns: zero blocks with one scale. */
    memset(source, 0, sizeof source);
    quantize_blocks(NULL, DTYPE_Q8_0, 4, 512, DTYPE_Q4_K, source, blocks);
    blocks_to_f32(DTYPE_Q8_0, blocks, 4 * 512, back);
    for (uint32_t i = 0; i < 4 * 512; i++)
        cr_expect_eq(back[i], 0.0F);
}

Test(quantize_blocks, threads_make_the_bytes_that_one_makes)
{
    static uint8_t threaded[N * 2];
    struct thread_pool *pool;
    fill();
    cr_assert_eq(thread_pool_create(3, false, &pool), STATUS_OK);
    EACH_TYPE(type)
    {
        round_trip(TYPES[type], DTYPE_F32, values);
        quantize_blocks(pool, TYPES[type], ROWS, COLUMNS, DTYPE_F32, values, threaded);
        cr_expect_arr_eq(blocks, threaded, dtype_array_bytes(TYPES[type], N));
    }
    thread_pool_destroy(pool);
}
