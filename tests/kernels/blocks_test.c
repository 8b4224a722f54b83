/* blocks: products and embeddings with blocks of GGML are those of their values, in every set. */
#include "kernels/blocks.h"
#include "kernels/kernels.h"
#include "tests/kernels/support/emulated.h"
#include "tests/kernels/support/guarded.h"
#include "tests/kernels/support/values.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_IN_MAX = 1024 + 256, N_OUT = 21, TOKENS_MAX = 35 };

/* Random bytes with F16 scales and E8M0 exponents that are finite and not large. */
static void fill(enum dtype dtype, uint8_t *blocks, size_t n_blocks, uint64_t seed)
{
    static const uint16_t AT[][2] = {
        {0, UINT16_MAX}, {0, UINT16_MAX},   {0, 2}, {0, UINT16_MAX}, {0, 2},
        {80, 82},        {108, UINT16_MAX}, {0, 2}, {0, 2},          {208, UINT16_MAX},
    };
    const struct block_shape shape = dtype_block_shape(dtype);
    for (size_t b = 0; b < n_blocks; b++) {
        uint8_t *block = blocks + b * shape.bytes;
        for (uint32_t i = 0; i < shape.bytes; i++)
            block[i] = (uint8_t)(int)(values_at(seed, (uint32_t)b, i) * 977);
        if (dtype == DTYPE_MXFP4) {
            block[0] = (uint8_t)(118 + b % 7);
            continue;
        }
        if (dtype > DTYPE_MXFP4) {
            const float scale = 0.01f * values_at(seed + 1, (uint32_t)b, 0);
            memcpy(block, &scale, sizeof scale);
            block[4] = dtype == DTYPE_Q4_ZERO ? (uint8_t)(b % 16) : block[4];
            continue;
        }
        for (uint32_t i = 0; i < 2 && AT[dtype - DTYPE_Q8_0][i] != UINT16_MAX; i++) {
            const uint16_t half = f16_from_f32(0.01f * values_at(seed + 1, (uint32_t)b, i));
            memcpy(block + AT[dtype - DTYPE_Q8_0][i], &half, sizeof half);
        }
    }
}

struct sizes {
    enum dtype dtype;
    uint32_t n_tokens, n_in;
    bool x_is_int8;
};

static void multiply(const struct kernels *kernels, struct sizes sizes, const void *w,
                     const void *x, bool has_workspace, float *y)
{
    const size_t bytes = gemm_workspace_bytes(kernels, sizes.n_tokens, sizes.n_in);
    void *workspace = aligned_alloc(64, bytes + 64 - bytes % 64);
    const struct gemm gemm = {.x = x,
                              .x_stride = sizes.n_in,
                              .x_is_int8 = sizes.x_is_int8,
                              .w = w,
                              .w_dtype = sizes.dtype,
                              .y = y,
                              .y_stride = N_OUT,
                              .n_tokens = sizes.n_tokens,
                              .n_in = sizes.n_in,
                              .n_out = N_OUT,
                              .workspace = has_workspace ? workspace : NULL,
                              .workspace_bytes = has_workspace ? bytes : 0};
    struct error error = {""};
    cr_assert_eq(gemm_check(&gemm, &error), STATUS_OK, "%s", error.text);
    kernels->gemm(NULL, &gemm, 1);
    free(workspace);
}

/* 2^-16 or 2^-8 of the largest of 32 elements of x, and what float32 rounds of its sums. */
static double bound_of(const float *x, const float *w, struct sizes sizes)
{
    const double rounding = 0.51 / (sizes.x_is_int8 ? 127 : 32639);
    double bound = 1e-30;
    for (uint32_t k = 0; k < sizes.n_in; k += 32) {
        double largest = 0, sum = 0;
        for (uint32_t i = k; i < k + 32; i++) {
            largest = fmax(largest, fabs((double)x[i]));
            sum += fabs((double)w[i]);
        }
        bound += sum * largest * (rounding + 1e-6);
    }
    return bound;
}

/* y against float64 sums of the values of the blocks. */
static void check_near(const char *name, struct sizes sizes, const float *x, const float *wide,
                       const float *y)
{
    for (uint32_t i = 0; i < sizes.n_tokens * N_OUT; i++) {
        const float *token = x + (size_t)(i / N_OUT) * sizes.n_in;
        const float *row = wide + (size_t)(i % N_OUT) * sizes.n_in;
        double sum = 0;
        for (uint32_t k = 0; k < sizes.n_in; k++)
            sum += (double)token[k] * (double)row[k];
        const double bound = bound_of(token, row, sizes);
        cr_assert_leq(fabs((double)y[i] - sum), bound,
                      "%s, %s, n_in %u, %u tokens, y[%u] is %g, expected %g within %g", name,
                      dtype_name(sizes.dtype), sizes.n_in, sizes.n_tokens, i, (double)y[i], sum,
                      bound);
    }
}

/* Every set, with a workspace and without, has the bits of the first one; sse2, which rounds products, is near. */
static void check_sets(struct sizes sizes, const void *w, const float *x, const float *wide)
{
    const struct kernels *list[EMULATED_MAX];
    const uint32_t n_list = emulated_list(list);
    const size_t bytes = (size_t)sizes.n_tokens * N_OUT * sizeof(float);
    float *y = malloc(bytes), *alone = malloc(bytes), *expected = NULL;
    for (uint32_t k = 0; k < n_list; k++) {
        if (sizes.x_is_int8 && strcmp(list[k]->name, "reference") == 0)
            continue; /* it rounds no x */
        multiply(list[k], sizes, w, x, true, y);
        multiply(list[k], sizes, w, x, false, alone);
        if (!expected || strcmp(list[k]->name, "sse2") == 0)
            check_near(list[k]->name, sizes, x, wide, y);
        cr_assert_eq(memcmp(y, alone, bytes), 0, "%s, %s, n_in %u, %u tokens: without a workspace",
                     list[k]->name, dtype_name(sizes.dtype), sizes.n_in, sizes.n_tokens);
        if (strcmp(list[k]->name, "sse2") == 0 || strcmp(list[k]->name, "reference") == 0)
            continue;
        if (!expected)
            expected = memcpy(malloc(bytes), y, bytes);
        cr_assert_eq(memcmp(y, expected, bytes), 0, "%s, %s, n_in %u, %u tokens", list[k]->name,
                     dtype_name(sizes.dtype), sizes.n_in, sizes.n_tokens);
    }
    free(y);
    free(alone);
    free(expected);
}

/* The bits of a token do not depend on those beside it. */
static void check_company(struct sizes sizes, const void *w, const float *x)
{
    float *all = malloc((size_t)sizes.n_tokens * N_OUT * sizeof *all), one[N_OUT];
    const struct kernels *kernels;
    struct error error;
    cr_assert_eq(kernels_select(NULL, &kernels, &error), STATUS_OK);
    multiply(kernels, sizes, w, x, true, all);
    for (uint32_t t = 0; t < sizes.n_tokens; t++) {
        const struct sizes single = {sizes.dtype, 1, sizes.n_in, sizes.x_is_int8};
        multiply(kernels, single, w, x + (size_t)t * sizes.n_in, true, one);
        cr_assert_eq(memcmp(one, all + t * N_OUT, sizeof one), 0, "%s, n_in %u, token %u of %u",
                     dtype_name(sizes.dtype), sizes.n_in, t, sizes.n_tokens);
    }
    free(all);
}

static void check(enum dtype dtype, uint32_t n_in)
{
    static const uint32_t TOKENS[] = {1, 7, TOKENS_MAX};
    const size_t row_bytes = dtype_array_bytes(dtype, n_in);
    struct guarded w = guarded_create(N_OUT * row_bytes);
    struct guarded x = guarded_create(TOKENS_MAX * n_in * sizeof(float));
    float *wide = malloc(N_OUT * n_in * sizeof *wide);
    fill(dtype, w.data, N_OUT * row_bytes / dtype_block_shape(dtype).bytes, (uint64_t)dtype);
    for (uint32_t i = 0; i < TOKENS_MAX * n_in; i++)
        ((float *)x.data)[i] = values_at(3, i / n_in, i % n_in);
    blocks_to_f32(dtype, w.data, (size_t)N_OUT * n_in, wide);
    for (int x_is_int8 = 0; x_is_int8 <= 1; x_is_int8++) {
        for (size_t t = 0; t < sizeof TOKENS / sizeof *TOKENS; t++)
            check_sets((struct sizes){dtype, TOKENS[t], n_in, x_is_int8}, w.data, (float *)x.data,
                       wide);
        check_company((struct sizes){dtype, 13, n_in, x_is_int8}, w.data, (float *)x.data);
    }
    free(wide);
    guarded_destroy(&w);
    guarded_destroy(&x);
}

Test(blocks, products_are_those_of_their_values)
{
    for (enum dtype dtype = DTYPE_Q8_0; dtype <= DTYPE_LAST; dtype++) {
        const uint32_t size = dtype_block_shape(dtype).elements;
        check(dtype, size);
        check(dtype, N_IN_MAX);
        if (size == 32)
            check(dtype, 11 * 32);
    }
}

/* A NaN or an infinity of x shows in all its outputs, and in those of no other token. */
Test(blocks, what_is_not_finite_shows)
{
    enum { N = 512 };
    const struct kernels *list[EMULATED_MAX];
    const uint32_t n_list = emulated_list(list);
    uint8_t w[N_OUT * N / 32 * 20];
    float x[3 * N], y[3 * N_OUT];
    fill(DTYPE_Q4_1, w, N_OUT * N / 32, 4);
    for (uint32_t i = 0; i < 3 * N; i++)
        x[i] = values_at(3, i / N, i % N);
    x[N + 300] = NAN;
    x[2 * N + 33] = INFINITY;
    for (uint32_t k = 0; k < n_list; k++) {
        multiply(list[k], (struct sizes){DTYPE_Q4_1, 3, N, false}, w, x, true, y);
        for (uint32_t i = 0; i < 3 * N_OUT; i++)
            cr_assert_eq(isfinite(y[i]) != 0, i < N_OUT, "%s, y[%u] is %g", list[k]->name, i,
                         (double)y[i]);
    }
}

static void read_exactly(FILE *file, void *out, size_t bytes)
{
    cr_assert_eq(fread(out, 1, bytes, file), bytes);
}

Test(blocks, values_equal_those_of_the_gguf_package)
{
    FILE *file = fopen(KVFERRY_SOURCE_DIR "/tests/golden/blocks/blocks.bin", "rb");
    cr_assert_not_null(file);
    for (enum dtype dtype = DTYPE_Q8_0; dtype <= DTYPE_MXFP4; dtype++) {
        uint32_t counts[2]; /* bytes, elements */
        read_exactly(file, counts, sizeof counts);
        cr_assert_eq(dtype_array_bytes(dtype, counts[1]), counts[0]);
        uint8_t *blocks = malloc(counts[0]);
        float *expected = malloc(counts[1] * sizeof *expected);
        float *values = malloc(counts[1] * sizeof *values);
        read_exactly(file, blocks, counts[0]);
        read_exactly(file, expected, counts[1] * sizeof *expected);
        blocks_to_f32(dtype, blocks, counts[1], values);
        for (uint32_t i = 0; i < counts[1]; i++) {
            cr_assert_eq(values[i], expected[i], "%s, element %u: %a, expected %a",
                         dtype_name(dtype), i, (double)values[i], (double)expected[i]);
            cr_assert_eq(block_element(dtype, blocks, i), expected[i]);
        }
        free(blocks);
        free(expected);
        free(values);
    }
    cr_assert_eq(fgetc(file), EOF);
    fclose(file);
}

Test(blocks, embeddings_equal_their_values)
{
    enum { N = 512, ROWS = 5 };
    static const uint32_t ids[] = {4, 0, 2};
    const struct kernels *list[EMULATED_MAX];
    const uint32_t n_list = emulated_list(list);
    float y[3 * N], wide[ROWS * N];
    for (enum dtype dtype = DTYPE_Q8_0; dtype <= DTYPE_LAST; dtype++) {
        const size_t bytes = dtype_array_bytes(dtype, ROWS * N);
        struct guarded table = guarded_create(bytes);
        fill(dtype, table.data, bytes / dtype_block_shape(dtype).bytes, 9);
        blocks_to_f32(dtype, table.data, ROWS * N, wide);
        for (uint32_t k = 0; k < n_list; k++) {
            list[k]->embedding(NULL, &(struct embedding){.table = table.data,
                                                         .dtype = dtype,
                                                         .ids = ids,
                                                         .y = y,
                                                         .y_stride = N,
                                                         .n_tokens = 3,
                                                         .n = N,
                                                         .n_rows = ROWS});
            for (uint32_t t = 0; t < 3; t++)
                cr_assert_eq(memcmp(y + t * N, wide + ids[t] * N, N * sizeof *y), 0);
        }
        guarded_destroy(&table);
    }
}

Test(blocks, a_product_is_refused_that_divides_a_block)
{
    struct error error;
    struct gemm gemm = {
        .x_stride = 300, .w = "", .w_dtype = DTYPE_Q4_K, .n_in = 300, .n_out = 1, .y_stride = 1};
    cr_assert_eq(gemm_check(&gemm, &error), STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(error.text, "n_in is 300: Q4_K weights need a multiple of 256");
    gemm.n_in = gemm.x_stride = 512;
    gemm.w_scales = "";
    cr_assert_eq(gemm_check(&gemm, &error), STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(error.text, "w_scales is set: Q4_K weights have none");
}
