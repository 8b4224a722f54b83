/* blocks: products and embeddings with blocks of GGML have the bits of those with their values as F32, in every set. */
#include "kernels/blocks.h"
#include "kernels/kernels.h"
#include "tests/kernels/support/guarded.h"
#include "tests/kernels/support/values.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_IN_MAX = 2048 + 256, N_OUT = 37, TOKENS_MAX = 70 };

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
        for (uint32_t i = 0; i < 2 && AT[dtype - DTYPE_Q8_0][i] != UINT16_MAX; i++) {
            const uint16_t half = f16_from_f32(0.01f * values_at(seed + 1, (uint32_t)b, i));
            memcpy(block + AT[dtype - DTYPE_Q8_0][i], &half, sizeof half);
        }
    }
}

static void multiply(const struct kernels *kernels, enum dtype dtype, const void *w, void *y,
                     const void *x, uint32_t n_tokens, uint32_t n_in, void *workspace, size_t bytes)
{
    const struct gemm gemm = {.x = x,
                              .x_stride = n_in,
                              .w = w,
                              .w_dtype = dtype,
                              .y = y,
                              .y_stride = N_OUT,
                              .n_tokens = n_tokens,
                              .n_in = n_in,
                              .n_out = N_OUT,
                              .workspace = workspace,
                              .workspace_bytes = bytes};
    struct error error = {""};
    cr_assert_eq(gemm_check(&gemm, &error), STATUS_OK, "%s", error.text);
    kernels->gemm(NULL, &gemm, 1);
}

static void check(enum dtype dtype, uint32_t n_in)
{
    static const uint32_t TOKENS[] = {1, 2, 5, 16, 33, TOKENS_MAX};
    const struct kernels *list[KERNELS_MAX];
    const uint32_t n_list = kernels_list(list, KERNELS_MAX);
    const size_t row_bytes = dtype_array_bytes(dtype, n_in);
    struct guarded w = guarded_create(N_OUT * row_bytes);
    struct guarded x = guarded_create(TOKENS_MAX * n_in * sizeof(float));
    float *wide = malloc(N_OUT * n_in * sizeof *wide);
    float *y = malloc(TOKENS_MAX * N_OUT * sizeof *y),
          *expected = malloc(TOKENS_MAX * N_OUT * sizeof *y);
    fill(dtype, w.data, N_OUT * row_bytes / dtype_block_shape(dtype).bytes, (uint64_t)dtype);
    for (uint32_t i = 0; i < TOKENS_MAX * n_in; i++)
        ((float *)x.data)[i] = values_at(3, i / n_in, i % n_in);
    blocks_to_f32(dtype, w.data, (size_t)N_OUT * n_in, wide);
    for (uint32_t k = 0; k < n_list; k++) {
        const size_t bytes = gemm_workspace_bytes(list[k], TOKENS_MAX, n_in);
        void *workspace = aligned_alloc(64, bytes + 64 - bytes % 64);
        for (size_t t = 0; t < sizeof TOKENS / sizeof *TOKENS; t++) {
            const size_t y_bytes = TOKENS[t] * N_OUT * sizeof *y;
            multiply(list[k], dtype, w.data, y, x.data, TOKENS[t], n_in, workspace, bytes);
            multiply(list[k], DTYPE_F32, wide, expected, x.data, TOKENS[t], n_in, workspace, bytes);
            cr_assert_eq(memcmp(y, expected, y_bytes), 0, "%s, %s, n_in %u, %u tokens",
                         list[k]->name, dtype_name(dtype), n_in, TOKENS[t]);
        }
        free(workspace);
    }
    free(wide);
    free(y);
    free(expected);
    guarded_destroy(&w);
    guarded_destroy(&x);
}

Test(blocks, products_equal_those_of_their_values)
{
    for (enum dtype dtype = DTYPE_Q8_0; dtype <= DTYPE_LAST; dtype++) {
        const uint32_t size = dtype_block_shape(dtype).elements;
        check(dtype, size);
        check(dtype, 3 * 256);
        check(dtype, N_IN_MAX);
        if (size == 32)
            check(dtype, 11 * 32);
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
    for (enum dtype dtype = DTYPE_Q8_0; dtype <= DTYPE_LAST; dtype++) {
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
    const struct kernels *list[KERNELS_MAX];
    const uint32_t n_list = kernels_list(list, KERNELS_MAX);
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
