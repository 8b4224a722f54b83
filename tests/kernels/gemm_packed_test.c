/* packed INT8 weights: the formula of kernel_set.h whatever the sizes, and the same bits on every set, for
 * any number of tokens and threads. */
#include "base/thread_pool.h"
#include "kernels/kernels.h"
#include "tests/kernels/support/attention_list.h"
#include "tests/kernels/support/emulated.h"
#include "tests/kernels/support/gemm_parts.h"
#include "tests/kernels/support/guarded.h"
#include "tests/kernels/support/values.h"
#include "tests/runner/one_thread.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

struct product {
    uint32_t n_tokens, n_in, n_out, pad; /* pad: floats between rows of x and y, NaN */
    bool is_grouped, has_bias, accumulate, has_workspace;
};

struct operands {
    struct guarded x, y, bias, w, scales, packed, workspace;
    struct gemm gemm;
};

static uint32_t group_len(const struct product *product)
{
    return product->is_grouped ? 32 : product->n_in;
}

static size_t rows_bytes(uint32_t n_rows, uint32_t n, uint32_t pad)
{
    return (n_rows ? (size_t)n_rows * (n + pad) - pad : 0) * sizeof(float);
}

/* Every 50th row is zero: a token or a weight row without a largest element. */
static float x_at(uint32_t t, uint32_t i)
{
    return t % 50 == 49 ? 0 : values_at(1, t, i) * (i % 37 == 5 ? 20.0f : 1.0f);
}

static void fill(const struct product *product, struct operands *op)
{
    uint32_t n_in = product->n_in, pad = product->pad;
    for (uint32_t t = 0; t < product->n_tokens; t++) {
        for (uint32_t i = 0; i < n_in; i++)
            ((float *)op->x.data)[(size_t)t * (n_in + pad) + i] = x_at(t, i);
        for (uint32_t o = 0; product->accumulate && o < product->n_out; o++)
            ((float *)op->y.data)[(size_t)t * (product->n_out + pad) + o] = values_at(4, t, o);
    }
    for (size_t i = 0; i < (size_t)n_in * product->n_out; i++)
        ((int8_t *)op->w.data)[i] = (int8_t)(values_hash(i) % 255 - 127);
    size_t n_scales = (size_t)product->n_out * (n_in / group_len(product));
    for (size_t i = 0; i < n_scales; i++)
        ((float *)op->scales.data)[i] = 0.001f * (float)(1 + values_hash(i) % 9);
    for (uint32_t o = 0; o < product->n_out; o++)
        ((float *)op->bias.data)[o] = values_at(3, 0, o);
}

static struct operands operands_create(const struct kernels *kernels, const struct product *product)
{
    struct operands op;
    uint32_t n_in = product->n_in, n_out = product->n_out, pad = product->pad;
    op.x = guarded_create(rows_bytes(product->n_tokens, n_in, pad));
    op.y = guarded_create(rows_bytes(product->n_tokens, n_out, pad));
    op.bias = guarded_create(n_out * sizeof(float));
    op.w = guarded_create((size_t)n_in * n_out);
    op.scales = guarded_create((size_t)n_out * (n_in / group_len(product)) * sizeof(float));
    fill(product, &op);
    op.gemm = (struct gemm){.x = op.x.data,
                            .x_stride = n_in + pad,
                            .w = op.w.data,
                            .w_dtype = DTYPE_INT8,
                            .w_scales = op.scales.data,
                            .w_scale_rows = 1,
                            .w_scale_columns = group_len(product),
                            .bias = product->has_bias ? op.bias.data : NULL,
                            .bias_dtype = DTYPE_F32,
                            .y = op.y.data,
                            .y_stride = n_out + pad,
                            .n_tokens = product->n_tokens,
                            .n_in = n_in,
                            .n_out = n_out,
                            .accumulate = product->accumulate};
    op.workspace = guarded_create(gemm_workspace_bytes(kernels, product->n_tokens, n_in));
    if (product->has_workspace) {
        op.gemm.workspace = op.workspace.data;
        op.gemm.workspace_bytes = gemm_workspace_bytes(kernels, product->n_tokens, n_in);
    }
    op.packed = guarded_create(kernels->gemm_packed_bytes(&op.gemm));
    kernels->gemm_pack(NULL, &op.gemm, op.packed.data);
    op.gemm.w = op.packed.data;
    op.gemm.w_scales = NULL;
    op.gemm.w_is_packed = true;
    return op;
}

static void operands_destroy(struct operands *op)
{
    guarded_destroy(&op->x);
    guarded_destroy(&op->y);
    guarded_destroy(&op->bias);
    guarded_destroy(&op->w);
    guarded_destroy(&op->scales);
    guarded_destroy(&op->packed);
    guarded_destroy(&op->workspace);
}

static float scale_of(const float *x, uint32_t n)
{
    float most = 0;
    for (uint32_t i = 0; i < n; i++)
        most = fmaxf(most, fabsf(x[i]));
    return most;
}

/* Rounded to counts, and how far the true product may lie from it. */
static double expected_at(const struct operands *op, const struct product *product, uint32_t t,
                          uint32_t o, double *exact_out, double *rounding_out)
{
    uint32_t len = group_len(product), n_groups = product->n_in / len;
    const float *x = (const float *)op->x.data + (size_t)t * op->gemm.x_stride;
    const int8_t *w = (const int8_t *)op->w.data + (size_t)o * product->n_in;
    double sum = 0;
    *exact_out = *rounding_out = 0;
    for (uint32_t g = 0; g < n_groups; g++) {
        float most = scale_of(x + g * len, len);
        float inverse = most > 0 ? 127 / most : 0;
        double w_scale = (double)((const float *)op->scales.data)[(size_t)o * n_groups + g];
        for (uint32_t i = g * len; i < (g + 1) * len; i++) {
            double weight = w[i] * w_scale;
            sum += (double)nearbyintf(x[i] * inverse) * (double)(most / 127) * weight;
            *exact_out += (double)x[i] * weight;
            *rounding_out += 0.5001 * (double)most / 127 * fabs(weight);
        }
    }
    return sum;
}

static void check_product(const struct kernels *kernels, const struct product *product)
{
    struct operands op = operands_create(kernels, product);
    kernels->gemm(NULL, &op.gemm, 1);
    for (uint32_t t = 0; t < product->n_tokens; t++) {
        const float *y = (const float *)op.y.data + t * op.gemm.y_stride;
        for (uint32_t o = 0; o < product->n_out; o++) {
            double exact, rounding;
            double sum = expected_at(&op, product, t, o, &exact, &rounding);
            double rest = (product->has_bias ? (double)values_at(3, 0, o) : 0) +
                          (product->accumulate ? (double)values_at(4, t, o) : 0);
            cr_assert(fabs((double)y[o] - sum - rest) <= 1e-5 * (1 + 0.1 * rounding + fabs(sum)),
                      "%s %u x %u -> %u: y[%u][%u] is %g, not %g", kernels->name, product->n_tokens,
                      product->n_in, product->n_out, t, o, (double)y[o], sum + rest);
            cr_assert(fabs((double)y[o] - exact - rest) <= rounding + 1e-5 * (1 + fabs(exact)));
        }
        for (uint32_t o = 0; t + 1 < product->n_tokens && o < product->pad; o++)
            cr_assert(isnan(y[product->n_out + o]), "%s wrote between rows", kernels->name);
    }
    operands_destroy(&op);
}

static const uint32_t token_counts[] = {0,  1,  2,  3,  4,  5,  6,  7,  8,   9,   12,  13,
                                        15, 16, 17, 31, 33, 64, 65, 67, 130, 191, 193, 389};
static const uint32_t in_sizes[] = {1,  2,  3,  4,   5,   31,  32,   33,
                                    63, 64, 65, 100, 128, 576, 1000, 1312};
static const uint32_t out_sizes[] = {1, 2, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 100};

#define COUNT(array) (sizeof array / sizeof array[0])

static struct product product_at(uint32_t i, uint64_t *state)
{
    struct product product = {
        .n_tokens = token_counts[i % COUNT(token_counts)],
        .n_in = in_sizes[values_below(state, COUNT(in_sizes))],
        .n_out = out_sizes[values_below(state, COUNT(out_sizes))],
        .pad = values_below(state, 3) * 3,
        .is_grouped = values_below(state, 2),
        .has_bias = values_below(state, 2),
        .accumulate = values_below(state, 2),
        .has_workspace = values_below(state, 2),
    };
    if (product.is_grouped)
        product.n_in = (product.n_in + 31) / 32 * 32;
    return product;
}

/* The implementations that have packed products. */
static uint32_t packing_list(const struct kernels *list_out[EMULATED_MAX])
{
    const struct kernels *all[EMULATED_MAX];
    uint32_t n = 0, n_all = emulated_list(all);
    for (uint32_t k = 0; k < n_all; k++)
        if (all[k]->gemm_pack)
            list_out[n++] = all[k];
    return n;
}

Test(gemm_packed, agrees_with_its_formula_at_every_boundary, .description = ONE_THREAD)
{
    const struct kernels *list[EMULATED_MAX];
    uint32_t n = packing_list(list);
    uint64_t state = 9;
    for (uint32_t k = 0; k < n; k++)
        for (uint32_t i = 0; i < 250; i++) {
            struct product product = product_at(i, &state);
            check_product(list[k], &product);
        }
}

/* Fewer tokens fit a task's memory as rows grow. */
Test(gemm_packed, long_rows_meet_fewer_tokens_at_a_time, .description = ONE_THREAD)
{
    const struct kernels *list[EMULATED_MAX];
    uint32_t n = packing_list(list);
    static const uint32_t sizes[] = {4096, 8000, 24000, 131072};
    for (uint32_t k = 0; k < n; k++)
        for (uint32_t i = 0; i < COUNT(sizes); i++) {
            struct product product = {.n_tokens = 19, .n_in = sizes[i], .n_out = 3};
            for (uint32_t form = 0; form < 4; form++) {
                product.is_grouped = form % 2;
                product.has_workspace = form / 2;
                check_product(list[k], &product);
            }
        }
}

enum { N_PATTERNS = 4 };

/* 1 or -1: all 1, all -1, alternating, alternating by two. */
static int sign_at(uint32_t pattern, uint32_t i)
{
    return pattern < 2 ? 1 - 2 * (int)pattern : 1 - 2 * (int)(i >> (pattern - 2) & 1);
}

/* Token t has the pattern t, row o the pattern o / 4; every count is 127 or -127. */
static void fill_extremes(struct operands *op)
{
    const struct gemm *gemm = &op->gemm;
    for (uint32_t t = 0; t < gemm->n_tokens; t++)
        for (uint32_t i = 0; i < gemm->n_in; i++)
            ((float *)op->x.data)[t * gemm->x_stride + i] = (float)sign_at(t % N_PATTERNS, i);
    for (uint32_t o = 0; o < gemm->n_out; o++) {
        ((float *)op->scales.data)[o] = 0.25f;
        for (uint32_t i = 0; i < gemm->n_in; i++)
            ((int8_t *)
                 op->w.data)[(size_t)o * gemm->n_in + i] = (int8_t)(127 *
                                                                    sign_at(o / 4 % N_PATTERNS, i));
    }
}

static void check_extremes(const struct kernels *kernels, const struct product *product)
{
    struct operands op = operands_create(kernels, product);
    fill_extremes(&op);
    struct gemm weights = op.gemm;
    weights.w = op.w.data;
    weights.w_scales = op.scales.data;
    weights.w_is_packed = false;
    kernels->gemm_pack(NULL, &weights, op.packed.data);
    kernels->gemm(NULL, &op.gemm, 1);
    for (uint32_t t = 0; t < product->n_tokens; t++)
        for (uint32_t o = 0; o < product->n_out; o++) {
            int64_t sum = 0;
            for (uint32_t i = 0; i < product->n_in; i++)
                sum += 127 * 127 * sign_at(t % N_PATTERNS, i) * sign_at(o / 4 % N_PATTERNS, i);
            float expected = (float)sum * (0.25f * (1.0f / 127));
            float y = ((const float *)op.y.data)[(size_t)t * product->n_out + o];
            cr_assert_eq(y, expected, "%s %u x %u: y[%u][%u] is %g, not %g", kernels->name,
                         product->n_tokens, product->n_in, t, o, (double)y, (double)expected);
        }
    operands_destroy(&op);
}

Test(gemm_packed, sums_of_the_largest_counts_are_exact, .description = ONE_THREAD)
{
    const struct kernels *list[EMULATED_MAX];
    uint32_t n = packing_list(list);
    static const uint32_t tokens[] = {1, 4, 5, 18}, sizes[] = {64, 640, 1344, 131072};
    for (uint32_t k = 0; k < n; k++)
        for (uint32_t i = 0; i < COUNT(sizes); i++)
            for (uint32_t t = 0; t < COUNT(tokens); t++) {
                struct product product = {.n_tokens = tokens[t],
                                          .n_in = sizes[i],
                                          .n_out = 4 * N_PATTERNS + 1,
                                          .has_workspace = t % 2};
                check_extremes(list[k], &product);
                product.has_workspace = !product.has_workspace;
                check_extremes(list[k], &product);
            }
}

/* With rows of 160 elements, tokens rounded by rows and by groups take the same bytes. */
Test(gemm_packed, products_of_one_x_share_its_counts_only_if_they_round_it_in_one_way)
{
    const struct kernels *list[EMULATED_MAX];
    uint32_t n = packing_list(list);
    struct thread_pool *pool;
    cr_assert_eq(thread_pool_create(2, false, &pool), STATUS_OK);
    for (uint32_t k = 0; k < n; k++)
        for (uint32_t n_tokens = 1; n_tokens < 40; n_tokens += 6) {
            const struct product rows = {.n_tokens = n_tokens, .n_in = 160, .n_out = 70};
            struct product groups = rows;
            groups.is_grouped = true;
            struct operands want[2] = {operands_create(list[k], &rows),
                                       operands_create(list[k], &groups)};
            struct operands got[3] = {operands_create(list[k], &rows),
                                      operands_create(list[k], &groups),
                                      operands_create(list[k], &rows)};
            const size_t bytes = 2 * gemm_workspace_bytes(list[k], n_tokens, 160);
            struct guarded workspace = guarded_create(bytes);
            struct gemm gemms[3];
            for (uint32_t i = 0; i < 3; i++) {
                gemms[i] = got[i].gemm;
                gemms[i].x = got[0].gemm.x;
                gemms[i].workspace = workspace.data;
                gemms[i].workspace_bytes = bytes;
            }
            list[k]->gemm(pool, gemms, 3);
            for (uint32_t i = 0; i < 3; i++) {
                list[k]->gemm(NULL, &want[i % 2].gemm, 1);
                cr_assert_arr_eq(got[i].y.data, want[i % 2].y.data,
                                 (size_t)n_tokens * 70 * sizeof(float), "%s, %u tokens, product %u",
                                 list[k]->name, n_tokens, i);
                operands_destroy(&got[i]);
            }
            operands_destroy(&want[0]);
            operands_destroy(&want[1]);
            guarded_destroy(&workspace);
        }
    thread_pool_destroy(pool);
}

Test(gemm_packed, threads_pack_what_one_packs)
{
    const struct kernels *list[EMULATED_MAX];
    uint32_t n = packing_list(list);
    struct thread_pool *pool;
    cr_assert_eq(thread_pool_create(2, false, &pool), STATUS_OK);
    for (uint32_t k = 0; k < n; k++)
        for (int is_grouped = 0; is_grouped < 2; is_grouped++) {
            struct product product = {.n_in = 256, .n_out = 300, .is_grouped = is_grouped};
            struct operands op = operands_create(list[k], &product);
            struct gemm weights = op.gemm;
            weights.w = op.w.data;
            weights.w_scales = op.scales.data;
            struct guarded packed = guarded_create(list[k]->gemm_packed_bytes(&weights));
            list[k]->gemm_pack(pool, &weights, packed.data);
            cr_assert_arr_eq(packed.data, op.packed.data, list[k]->gemm_packed_bytes(&weights),
                             "%s", list[k]->name);
            guarded_destroy(&packed);
            operands_destroy(&op);
        }
    thread_pool_destroy(pool);
}

static void check_parts(const struct kernels *kernels, const struct kernels *other,
                        struct thread_pool *pool, const struct product *product)
{
    struct operands whole = operands_create(kernels, product);
    struct operands parts = operands_create(other, product);
    gemm_check_parts(kernels, pool, &whole.gemm, other, &parts.gemm);
    operands_destroy(&whole);
    operands_destroy(&parts);
}

Test(gemm_packed, a_row_has_the_same_bits_alone_on_any_set_and_threads)
{
    const struct kernels *list[EMULATED_MAX];
    uint32_t n = packing_list(list);
    struct thread_pool *pool;
    cr_assert_eq(thread_pool_create(3, false, &pool), STATUS_OK);
    uint64_t state = 4;
    for (uint32_t i = 0; i < 40; i++) {
        struct product product = product_at(i, &state);
        product.n_tokens += 1;
        for (uint32_t k = 0; k < n; k++)
            for (uint32_t other = 0; other < n; other++) {
                bool is_scalar = strcmp(list[k]->name, "scalar") == 0;
                if (is_scalar == (strcmp(list[other]->name, "scalar") == 0) &&
                    rounds_products(list[k]->name) == rounds_products(list[other]->name))
                    check_parts(list[k], list[other], pool, &product);
            }
    }
    thread_pool_destroy(pool);
}

Test(gemm_packed, a_token_with_a_nan_is_nan_and_nobody_else)
{
    const struct kernels *list[EMULATED_MAX];
    uint32_t n = packing_list(list);
    struct product product = {.n_tokens = 20, .n_in = 100, .n_out = 40};
    for (uint32_t k = 0; k < n; k++) {
        struct operands op = operands_create(list[k], &product);
        ((float *)op.x.data)[7 * 100 + 50] = NAN;
        ((float *)op.x.data)[9 * 100 + 1] = INFINITY;
        list[k]->gemm(NULL, &op.gemm, 1);
        for (uint32_t t = 0; t < 20; t++)
            for (uint32_t o = 0; o < 40; o++)
                cr_assert_eq(!isfinite(((const float *)op.gemm.y)[t * 40 + o]), t == 7 || t == 9);
        operands_destroy(&op);
    }
}
