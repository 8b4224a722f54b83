/* gemm: agrees with float64 whatever the sizes, strides and alignment, and a row's bits depend on
 * n_in alone. */
#include "base/thread_pool.h"
#include "kernels/kernels.h"
#include "tests/kernels/support/attention_list.h"
#include "tests/kernels/support/gemm_parts.h"
#include "tests/kernels/support/guarded.h"
#include "tests/kernels/support/values.h"
#include "tests/runner/one_thread.h"

#include <criterion/criterion.h>
#include <string.h>

struct product {
    uint32_t n_tokens, n_in, n_out, pad; /* pad: floats between rows of x and y, NaN */
    enum dtype dtype;
    bool has_bias, accumulate;
};

struct operands {
    struct guarded x, w, bias, y, workspace;
    struct gemm gemm;
};

static size_t rows_floats(uint32_t n_rows, uint32_t n, uint32_t pad)
{
    return n_rows ? (size_t)n_rows * (n + pad) - pad : 0;
}

static void fill(enum dtype dtype, void *array, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++)
        dtype_store(dtype, array, i, values_at(seed, i / 1000, i % 1000));
}

static struct operands operands_create(const struct product *product)
{
    struct operands op;
    uint32_t x_stride = product->n_in + product->pad;
    uint32_t y_stride = product->n_out + product->pad;
    size_t w_bytes = dtype_bytes(product->dtype);
    op.x = guarded_create(rows_floats(product->n_tokens, product->n_in, product->pad) *
                          sizeof(float));
    op.y = guarded_create(rows_floats(product->n_tokens, product->n_out, product->pad) *
                          sizeof(float));
    op.w = guarded_create((size_t)product->n_in * product->n_out * w_bytes);
    op.bias = guarded_create(product->n_out * w_bytes);
    op.workspace = guarded_create(gemm_workspace_most(product->n_tokens, product->n_in));
    for (uint32_t t = 0; t < product->n_tokens; t++)
        for (uint32_t i = 0; i < product->n_in; i++)
            ((float *)op.x.data)[(size_t)t * x_stride + i] = values_at(1, t, i);
    fill(product->dtype, op.w.data, (size_t)product->n_in * product->n_out, 2);
    fill(product->dtype, op.bias.data, product->n_out, 3);
    for (uint32_t t = 0; product->accumulate && t < product->n_tokens; t++)
        for (uint32_t o = 0; o < product->n_out; o++)
            ((float *)op.y.data)[(size_t)t * y_stride + o] = values_at(4, t, o);
    op.gemm = (struct gemm){
        .x = op.x.data,
        .x_stride = x_stride,
        .w = op.w.data,
        .w_dtype = product->dtype,
        .bias = product->has_bias ? op.bias.data : NULL,
        .bias_dtype = product->dtype,
        .y = op.y.data,
        .y_stride = y_stride,
        .n_tokens = product->n_tokens,
        .n_in = product->n_in,
        .n_out = product->n_out,
        .accumulate = product->accumulate,
        .workspace = op.workspace.data,
        .workspace_bytes = gemm_workspace_most(product->n_tokens, product->n_in)};
    return op;
}

static void operands_destroy(struct operands *op)
{
    guarded_destroy(&op->x);
    guarded_destroy(&op->w);
    guarded_destroy(&op->bias);
    guarded_destroy(&op->y);
    guarded_destroy(&op->workspace);
}

static double expected_at(const struct operands *op, const struct product *product, uint32_t t,
                          uint32_t o)
{
    double sum = product->accumulate ? (double)values_at(4, t, o) : 0;
    if (product->has_bias)
        sum += (double)dtype_load(product->dtype, op->bias.data, o);
    for (uint32_t i = 0; i < product->n_in; i++)
        sum += (double)values_at(1, t, i) *
               (double)dtype_load(product->dtype, op->w.data, (size_t)o * product->n_in + i);
    return sum;
}

/* The products of n_in normal numbers add up to about sqrt(n_in). */
static void check_product(const struct kernels *kernels, const struct product *product)
{
    struct operands op = operands_create(product);
    kernels->gemm(NULL, &op.gemm, 1);
    for (uint32_t t = 0; t < product->n_tokens; t++) {
        const float *y = (const float *)op.y.data + t * op.gemm.y_stride;
        for (uint32_t o = 0; o < product->n_out; o++) {
            double expected = expected_at(&op, product, t, o);
            double bound = 1e-5 * (1 + sqrt(product->n_in) + fabs(expected));
            cr_assert(fabs((double)y[o] - expected) <= bound,
                      "%s %u x %u -> %u %s: y[%u][%u] is %g, not %g", kernels->name,
                      product->n_tokens, product->n_in, product->n_out, dtype_name(product->dtype),
                      t, o, (double)y[o], expected);
        }
        for (uint32_t o = 0; t + 1 < product->n_tokens && o < product->pad; o++)
            cr_assert(isnan(y[product->n_out + o]), "%s wrote between rows", kernels->name);
    }
    operands_destroy(&op);
}

static const uint32_t token_counts[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 12, 63, 64, 65, 67, 130};
static const uint32_t in_sizes[] = {1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 48, 100, 1024, 1040};
static const uint32_t out_sizes[] = {1, 2, 3, 5, 6, 7, 8, 9, 13, 16, 17, 24, 49};

#define COUNT(array) (sizeof array / sizeof array[0])

Test(gemm, agrees_with_float64_at_every_boundary, .description = ONE_THREAD)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n = kernels_list(list, KERNELS_MAX);
    uint64_t state = 9;
    for (uint32_t k = 0; k < n; k++)
        for (uint32_t i = 0; i < 400; i++) {
            struct product product = {
                .n_tokens = token_counts[i % COUNT(token_counts)],
                .n_in = in_sizes[values_below(&state, COUNT(in_sizes))],
                .n_out = out_sizes[values_below(&state, COUNT(out_sizes))],
                .pad = values_below(&state, 3) * 3,
                .dtype = (enum dtype)values_below(&state, 3),
                .has_bias = values_below(&state, 2),
                .accumulate = values_below(&state, 2),
            };
            check_product(list[k], &product);
        }
}

Test(gemm, long_rows_are_blocked_without_losing_products, .description = ONE_THREAD)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n = kernels_list(list, KERNELS_MAX);
    for (uint32_t k = 1; k < n; k++)
        for (enum dtype dtype = DTYPE_F32; dtype <= DTYPE_F16; dtype++)
            for (uint32_t n_in = 2047; n_in <= 3075; n_in += 257) {
                struct product product = {
                    .n_tokens = 21, .n_in = n_in, .n_out = 13, .dtype = dtype};
                check_product(list[k], &product);
            }
}

static void check_parts(const struct kernels *kernels, const struct kernels *other,
                        struct thread_pool *pool, const struct product *product)
{
    struct operands whole = operands_create(product);
    struct operands parts = operands_create(product);
    gemm_check_parts(kernels, pool, &whole.gemm, other, &parts.gemm);
    operands_destroy(&whole);
    operands_destroy(&parts);
}

/* One set rounds products; the matrix unit adds those of BF16 weights in an order of its own. */
static bool gives_bits_of(const struct kernels *kernels, const struct kernels *other,
                          enum dtype dtype)
{
    bool is_amx = strcmp(kernels->name, "amx_bf16") == 0;
    if (rounds_products(kernels->name) != rounds_products(other->name))
        return false;
    return dtype != DTYPE_BF16 || is_amx == (strcmp(other->name, "amx_bf16") == 0);
}

/* Whole by set k, in parts by set k and by the next set that gives its bits. That holds all sets of these bits against each other,
 * as equality is transitive. Under a sanitizer by the next alone: each set computes parts even so. */
static void check_others(const struct kernels *const *list, uint32_t n, uint32_t k,
                         struct thread_pool *pool, const struct product *product)
{
#ifndef KVFERRY_SANITIZED
    check_parts(list[k], list[k], pool, product);
#endif
    for (uint32_t i = 1; i < n; i++) {
        const struct kernels *other = list[1 + (k - 1 + i) % (n - 1)];
        if (gives_bits_of(list[k], other, product->dtype)) {
            check_parts(list[k], other, pool, product);
            return;
        }
    }
}

#ifdef KVFERRY_SANITIZED_THREAD /* threads meet in the same way in all of them */
enum { N_PRODUCTS = 12 };
#else
enum { N_PRODUCTS = 60 };
#endif

Test(gemm, a_row_alone_has_the_bits_it_has_in_a_batch_on_any_set_and_threads)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n = kernels_list(list, KERNELS_MAX);
    struct thread_pool *pool;
    cr_assert_eq(thread_pool_create(3, false, &pool), STATUS_OK);
    uint64_t state = 4;
    for (uint32_t i = 0; i < N_PRODUCTS; i++) {
        struct product product = {
            .n_tokens = 1 + values_below(&state, 140),
            .n_in = 1 + values_below(&state, i % 6 == 0 ? 2600 : 700),
            .n_out = 1 + values_below(&state, 120),
            .dtype = (enum dtype)(i % 3),
            .has_bias = i % 2,
            .accumulate = i % 4 == 0,
        };
        for (uint32_t k = 1; k < n; k++)
            check_others(list, n, k, pool, &product);
    }
    thread_pool_destroy(pool);
}

/* More rows than sums are kept of, more elements than are packed at a time, fewer tokens a task. */
Test(gemm, long_rows_of_many_tokens_and_outputs_have_the_bits_of_a_row_alone,
     .description = ONE_THREAD)
{
    static const struct product products[] = {
        {.n_tokens = 70, .n_in = 1500, .n_out = 1100, .dtype = DTYPE_BF16, .accumulate = true},
        {.n_tokens = 20, .n_in = 5700, .n_out = 1030, .dtype = DTYPE_BF16, .has_bias = true},
        {.n_tokens = 70, .n_in = 5700, .n_out = 40, .dtype = DTYPE_F32},
    };
    const struct kernels *list[KERNELS_MAX];
    uint32_t n = kernels_list(list, KERNELS_MAX);
    for (uint32_t k = 2; k < n; k++)
        for (size_t i = 0; i < COUNT(products); i++)
            check_parts(list[k], list[k], NULL, &products[i]);
}

Test(gemm, weights_may_lie_at_any_even_address)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n = kernels_list(list, KERNELS_MAX);
    struct product product = {.n_tokens = 9, .n_in = 50, .n_out = 11};
    for (product.dtype = DTYPE_F32; product.dtype <= DTYPE_F16; product.dtype++) {
        struct operands op = operands_create(&product);
        size_t w_bytes = 50 * 11 * dtype_bytes(product.dtype);
        struct guarded shifted = guarded_create(w_bytes + 2);
        memcpy(shifted.data, op.w.data, w_bytes);
        struct guarded y = guarded_create(9 * 11 * sizeof(float));
        for (uint32_t k = 1; k < n; k++) {
            list[k]->gemm(NULL, &op.gemm, 1);
            struct gemm gemm = op.gemm;
            gemm.w = shifted.data;
            gemm.y = y.data;
            list[k]->gemm(NULL, &gemm, 1);
            cr_assert_arr_eq(y.data, op.y.data, 9 * 11 * sizeof(float));
        }
        guarded_destroy(&y);
        guarded_destroy(&shifted);
        operands_destroy(&op);
    }
}

Test(gemm, several_products_in_one_call_equal_them_one_by_one)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n = kernels_list(list, KERNELS_MAX);
    struct thread_pool *pool;
    cr_assert_eq(thread_pool_create(2, false, &pool), STATUS_OK);
    for (uint32_t k = 0; k < n; k++)
        for (uint32_t n_tokens = 1; n_tokens <= 70; n_tokens += 23) {
            struct operands one[3], all[3];
            struct gemm gemms[3];
            const size_t bytes = 3 * gemm_workspace_most(n_tokens, 200);
            struct guarded workspace = guarded_create(bytes);
            for (uint32_t i = 0; i < 3; i++) {
                struct product product = {
                    .n_tokens = n_tokens, .n_in = 200, .n_out = 150 + 61 * i, .dtype = DTYPE_BF16};
                one[i] = operands_create(&product);
                all[i] = operands_create(&product);
                list[k]->gemm(NULL, &one[i].gemm, 1);
                gemms[i] = all[i].gemm;
                gemms[i].workspace = workspace.data;
                gemms[i].workspace_bytes = bytes;
            }
            list[k]->gemm(pool, gemms, 3);
            for (uint32_t i = 0; i < 3; i++) {
                cr_assert_arr_eq(all[i].y.data, one[i].y.data,
                                 n_tokens * gemms[i].n_out * sizeof(float));
                operands_destroy(&one[i]);
                operands_destroy(&all[i]);
            }
            guarded_destroy(&workspace);
        }
    thread_pool_destroy(pool);
}
