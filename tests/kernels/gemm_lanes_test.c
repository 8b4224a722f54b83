/* gemm with a workspace: has the bits of a row alone, of a call without a workspace and of the definition in fmaf, for every
 * type of weights and at every boundary of tiles, panels, lanes and blocks. */
#include "base/thread_pool.h"
#include "kernels/kernels.h"
#include "kernels/quantize.h"
#include "tests/kernels/support/attention_list.h"
#include "tests/kernels/support/gemm_parts.h"
#include "tests/kernels/support/guarded.h"
#include "tests/kernels/support/values.h"
#include "tests/runner/one_thread.h"

#include <criterion/criterion.h>
#include <string.h>

enum { MISALIGNED = 2, LANES_OF_A_ROW = 16 };

struct shape {
    uint32_t n_tokens, n_in, n_out, pad;
    enum dtype dtype, bias_dtype;
    bool has_bias, accumulate;
};

struct operands {
    struct guarded x, w, bias, y, workspace, source, scales;
    struct gemm gemm;
};

static void fill(enum dtype dtype, void *array, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++)
        dtype_store(dtype, array, i, values_at(seed, i / 1000, i % 1000));
}

/* Weights of the type; those with scales by quantize. */
static void fill_weights(const struct shape *shape, struct operands *op)
{
    const size_t n = (size_t)shape->n_in * shape->n_out;
    struct quantized quantized;
    struct error error;
    op->scales = op->source = (struct guarded){0};
    op->gemm.w_dtype = shape->dtype;
    if (shape->dtype <= DTYPE_F16) {
        const size_t bytes = n * dtype_bytes(shape->dtype);
        op->w = guarded_create(bytes + MISALIGNED);
        op->gemm.w = (char *)op->w.data + MISALIGNED;
        void *aligned = malloc(bytes);
        fill(shape->dtype, aligned, n, 2);
        memcpy((char *)op->w.data + MISALIGNED, aligned, bytes);
        free(aligned);
        return;
    }
    cr_assert_eq(quantized_init(shape->dtype == DTYPE_INT8   ? QUANTIZE_INT8_ROWS
                                : shape->dtype == DTYPE_E4M3 ? QUANTIZE_E4M3_BLOCKS
                                                             : QUANTIZE_MXFP4,
                                shape->n_out, shape->n_in, &quantized, &error),
                 STATUS_OK);
    op->w = guarded_create(quantized_w_bytes(&quantized));
    op->scales = guarded_create(quantized_scales_bytes(&quantized));
    op->source = guarded_create(n * sizeof(float));
    fill(DTYPE_F32, op->source.data, n, 2);
    quantized.w = op->w.data;
    quantized.scales = op->scales.data;
    quantize(NULL, &quantized, DTYPE_F32, op->source.data);
    op->gemm.w = quantized.w;
    op->gemm.w_scales = quantized.scales;
    op->gemm.w_scale_rows = quantized.scale_rows;
    op->gemm.w_scale_columns = quantized.scale_columns;
}

static struct operands operands_create(const struct shape *shape)
{
    struct operands op;
    const uint32_t x_stride = shape->n_in + shape->pad, y_stride = shape->n_out + shape->pad;
    const size_t bytes = gemm_workspace_most(shape->n_tokens, shape->n_in);
    op.x = guarded_create(((size_t)shape->n_tokens * x_stride - shape->pad) * sizeof(float));
    op.y = guarded_create(((size_t)shape->n_tokens * y_stride - shape->pad) * sizeof(float));
    op.bias = guarded_create(shape->n_out * dtype_bytes(shape->bias_dtype));
    op.workspace = guarded_create(bytes);
    op.gemm = (struct gemm){.x = op.x.data,
                            .x_stride = x_stride,
                            .bias = shape->has_bias ? op.bias.data : NULL,
                            .bias_dtype = shape->bias_dtype,
                            .y = op.y.data,
                            .y_stride = y_stride,
                            .n_tokens = shape->n_tokens,
                            .n_in = shape->n_in,
                            .n_out = shape->n_out,
                            .accumulate = shape->accumulate,
                            .workspace = op.workspace.data,
                            .workspace_bytes = bytes};
    fill_weights(shape, &op);
    fill(shape->bias_dtype, op.bias.data, shape->n_out, 3);
    for (uint32_t t = 0; t < shape->n_tokens; t++) {
        for (uint32_t i = 0; i < shape->n_in; i++)
            ((float *)op.x.data)[(size_t)t * x_stride + i] = values_at(1, t, i);
        for (uint32_t o = 0; shape->accumulate && o < shape->n_out; o++)
            ((float *)op.y.data)[(size_t)t * y_stride + o] = values_at(4, t, o);
    }
    return op;
}

static void operands_destroy(struct operands *op)
{
    struct guarded *all[] = {&op->x, &op->w, &op->bias, &op->y, &op->workspace};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        guarded_destroy(all[i]);
    if (op->scales.map) {
        guarded_destroy(&op->scales);
        guarded_destroy(&op->source);
    }
}

/* The sum of a row by its definition. */
static float defined_at(const struct operands *op, const struct shape *shape, uint32_t t,
                        uint32_t o, const float *row)
{
    float lane[LANES_OF_A_ROW] = {0};
    const uint32_t end = (shape->n_in + LANES_OF_A_ROW - 1) / LANES_OF_A_ROW * LANES_OF_A_ROW;
    const float *x = (const float *)op->x.data + t * op->gemm.x_stride;
    for (uint32_t k = 0; k < end; k++)
        lane[k % LANES_OF_A_ROW] = fmaf(k < shape->n_in ? x[k] : 0, k < shape->n_in ? row[k] : 0,
                                        lane[k % LANES_OF_A_ROW]);
    for (uint32_t apart = LANES_OF_A_ROW / 2; apart > 0; apart /= 2)
        for (uint32_t i = 0; i < apart; i++)
            lane[i] += lane[i + apart];
    float sum = lane[0];
    if (shape->has_bias)
        sum += dtype_load(shape->bias_dtype, op->bias.data, o);
    return shape->accumulate ? values_at(4, t, o) + sum : sum;
}

static void check_definition(const struct kernels *kernels, const struct operands *op,
                             const struct shape *shape)
{
    float *row = malloc(shape->n_in * sizeof *row);
    for (uint32_t o = 0; o < shape->n_out; o += o + 5 < shape->n_out ? 5 : 1) {
        dequantize_row(&op->gemm, o, row);
        for (uint32_t t = 0; t < shape->n_tokens; t += t + 3 < shape->n_tokens ? 3 : 1) {
            const float want = defined_at(op, shape, t, o, row);
            const float *got = (const float *)op->y.data + t * op->gemm.y_stride + o;
            cr_assert_arr_eq(got, &want, sizeof want,
                             "%s %u x %u -> %u %s: y[%u][%u] is %a, not %a", kernels->name,
                             shape->n_tokens, shape->n_in, shape->n_out, dtype_name(shape->dtype),
                             t, o, (double)*got, (double)want);
        }
    }
    free(row);
}

/* A call with a workspace and threads, one without, and each row alone. */
static void check_shape(const struct kernels *kernels, struct thread_pool *pool,
                        const struct shape *shape)
{
    struct operands op = operands_create(shape), plain = operands_create(shape),
                    alone = operands_create(shape);
    const uint32_t width = shape->n_out;
    kernels->gemm(pool, &op.gemm, 1);
    plain.gemm.workspace = NULL;
    kernels->gemm(NULL, &plain.gemm, 1);
    for (uint32_t t = 0; t < shape->n_tokens; t++) {
        const float *y = (const float *)op.y.data + t * op.gemm.y_stride;
        struct gemm one = alone.gemm;
        one.x = (const float *)one.x + t * one.x_stride;
        one.y = (float *)one.y + t * one.y_stride;
        one.n_tokens = 1;
        kernels->gemm(NULL, &one, 1);
        cr_assert_arr_eq(y, one.y, width * sizeof(float), "%s %u x %u -> %u %s: row %u alone",
                         kernels->name, shape->n_tokens, shape->n_in, width,
                         dtype_name(shape->dtype), t);
        cr_assert_arr_eq(y, (const float *)plain.y.data + t * plain.gemm.y_stride,
                         width * sizeof(float), "%s %u x %u -> %u %s: row %u without a workspace",
                         kernels->name, shape->n_tokens, shape->n_in, width,
                         dtype_name(shape->dtype), t);
        for (uint32_t i = 0; t + 1 < shape->n_tokens && i < shape->pad; i++)
            cr_assert(isnan(y[width + i]), "%s wrote between rows", kernels->name);
    }
    const bool is_of_unit = shape->dtype == DTYPE_BF16 && strcmp(kernels->name, "amx_bf16") == 0;
    if (!rounds_products(kernels->name) && !is_of_unit)
        check_definition(kernels, &op, shape);
    operands_destroy(&op);
    operands_destroy(&plain);
    operands_destroy(&alone);
}

static const enum dtype TYPES[] = {DTYPE_F32,  DTYPE_BF16, DTYPE_F16,
                                   DTYPE_INT8, DTYPE_E4M3, DTYPE_E2M1};

#define COUNT(array) (sizeof array / sizeof array[0])

Test(gemm_lanes, have_the_bits_of_their_definition_at_every_boundary)
{
    static const uint32_t outs[] = {15, 16, 17, 31, 32, 33, 48, 65, 129};
    const struct kernels *list[KERNELS_MAX];
    const uint32_t n = kernels_list(list, KERNELS_MAX);
    struct thread_pool *pool;
    cr_assert_eq(thread_pool_create(3, false, &pool), STATUS_OK);
    uint64_t state = 31;
    for (uint32_t k = 1; k < n; k++)
        for (uint32_t n_tokens = 4; n_tokens <= 40; n_tokens++) {
            const enum dtype dtype = TYPES[values_below(&state, COUNT(TYPES))];
            const uint32_t longest = n_tokens % 4 == 0 ? 700 : 50;
            uint32_t n_in = 1 + values_below(&state, longest);
            if (dtype == DTYPE_E2M1)
                n_in = (n_in + 31) / 32 * 32;
            const struct shape shape = {
                .n_tokens = n_tokens,
                .n_in = n_tokens % 2 == 0 && dtype != DTYPE_E2M1 ? n_in % 17 + 1 : n_in,
                .n_out = outs[values_below(&state, COUNT(outs))],
                .pad = values_below(&state, 2) * 3,
                .dtype = dtype,
                .bias_dtype = (enum dtype)values_below(&state, 3),
                .has_bias = values_below(&state, 2),
                .accumulate = values_below(&state, 2),
            };
            check_shape(list[k], pool, &shape);
        }
    thread_pool_destroy(pool);
}

Test(gemm_lanes, have_the_bits_of_their_definition_for_every_type)
{
    const struct kernels *list[KERNELS_MAX];
    const uint32_t n = kernels_list(list, KERNELS_MAX);
    struct thread_pool *pool;
    cr_assert_eq(thread_pool_create(2, false, &pool), STATUS_OK);
    for (uint32_t k = 1; k < n; k++)
        for (size_t i = 0; i < COUNT(TYPES); i++) {
            const struct shape shape = {
                .n_tokens = 23, .n_in = 352, .n_out = 40, .dtype = TYPES[i]};
            check_shape(list[k], pool, &shape);
        }
    thread_pool_destroy(pool);
}

static void check_shapes(const struct shape *shapes, size_t n_shapes)
{
    const struct kernels *list[KERNELS_MAX];
    const uint32_t n = kernels_list(list, KERNELS_MAX);
    struct thread_pool *pool;
    cr_assert_eq(thread_pool_create(2, false, &pool), STATUS_OK);
    for (uint32_t k = 1; k < n; k++)
        for (size_t i = 0; i < n_shapes; i++)
            check_shape(list[k], pool, &shapes[i]);
    thread_pool_destroy(pool);
}

/* More than a K block, more than a block of tokens. */
Test(gemm_lanes, long_rows_and_many_tokens_have_the_bits_of_their_definition)
{
    static const struct shape shapes[] = {
        {.n_tokens = 13, .n_in = 16384, .n_out = 33, .dtype = DTYPE_F32, .has_bias = true},
        {.n_tokens = 10, .n_in = 4127, .n_out = 17, .dtype = DTYPE_BF16, .accumulate = true},
        {.n_tokens = 14, .n_in = 2049, .n_out = 16, .dtype = DTYPE_F16},
        {.n_tokens = 14, .n_in = 4160, .n_out = 16, .dtype = DTYPE_E4M3},
        {.n_tokens = 14, .n_in = 4160, .n_out = 17, .dtype = DTYPE_E2M1},
        {.n_tokens = 14, .n_in = 4160, .n_out = 17, .dtype = DTYPE_INT8},
        {.n_tokens = 193, .n_in = 33, .n_out = 32, .dtype = DTYPE_BF16},
        {.n_tokens = 401, .n_in = 16, .n_out = 20, .dtype = DTYPE_F32, .accumulate = true},
        {.n_tokens = 200, .n_in = 2064, .n_out = 16, .dtype = DTYPE_F32},
    };
    check_shapes(shapes, COUNT(shapes));
}

/* Sixteen tokens or a few less, once and twice: more than a K block, rows that share sets of a cache, ends of rows inside a step. */
Test(gemm_lanes, batches_have_the_bits_of_their_definition)
{
    static const struct shape shapes[] = {
        {.n_tokens = 16, .n_in = 2049, .n_out = 53, .dtype = DTYPE_F32, .has_bias = true},
        {.n_tokens = 16, .n_in = 2048, .n_out = 49, .dtype = DTYPE_BF16, .accumulate = true},
        {.n_tokens = 15, .n_in = 1100, .n_out = 71, .dtype = DTYPE_BF16, .pad = 3},
        {.n_tokens = 14, .n_in = 783, .n_out = 16, .dtype = DTYPE_BF16, .has_bias = true},
        {.n_tokens = 32, .n_in = 1600, .n_out = 25, .dtype = DTYPE_BF16},
        {.n_tokens = 31, .n_in = 900, .n_out = 100, .dtype = DTYPE_F16, .has_bias = true},
        {.n_tokens = 16, .n_in = 1568, .n_out = 49, .dtype = DTYPE_E4M3},
        {.n_tokens = 16, .n_in = 1568, .n_out = 49, .dtype = DTYPE_E2M1},
        {.n_tokens = 32, .n_in = 770, .n_out = 49, .dtype = DTYPE_INT8},
    };
    check_shapes(shapes, COUNT(shapes));
}

/* AVX-512 reads 16-bit weights where they are, for any number of tokens. */
Test(gemm_lanes, sixteen_bit_rows_of_many_tokens_have_the_bits_of_their_definition)
{
    static const struct shape shapes[] = {
        {.n_tokens = 131, .n_in = 1040, .n_out = 13, .dtype = DTYPE_BF16, .has_bias = true},
        {.n_tokens = 45, .n_in = 16384, .n_out = 7, .dtype = DTYPE_F16, .accumulate = true},
        {.n_tokens = 33, .n_in = 2050, .n_out = 14, .dtype = DTYPE_BF16, .pad = 1},
        {.n_tokens = 27, .n_in = 700, .n_out = 14, .dtype = DTYPE_F32},
    };
    check_shapes(shapes, COUNT(shapes));
}

Test(gemm_lanes, products_of_one_x_share_its_tokens_and_a_small_workspace_changes_no_bit,
     .description = ONE_THREAD)
{
    static const struct shape shapes[] = {
        {.n_tokens = 30, .n_in = 100, .n_out = 48, .dtype = DTYPE_F32},
        {.n_tokens = 16, .n_in = 100, .n_out = 48, .dtype = DTYPE_F32},
        {.n_tokens = 32, .n_in = 1600, .n_out = 48, .dtype = DTYPE_BF16},
        {.n_tokens = 31, .n_in = 100, .n_out = 48, .dtype = DTYPE_BF16},
    };
    const struct kernels *list[KERNELS_MAX];
    const uint32_t n = kernels_list(list, KERNELS_MAX);
    for (uint32_t k = 1; k < n; k++)
        for (uint32_t each = 0; each < 4 * COUNT(shapes); each++) {
            const struct shape *shape = &shapes[each / 4];
            const size_t y_bytes = shape->n_tokens * shape->n_out * sizeof(float);
            const uint32_t part = each % 4 + 1;
            struct operands a = operands_create(shape), b = operands_create(shape);
            struct gemm gemms[3] = {a.gemm, a.gemm, b.gemm};
            struct guarded y = guarded_create(y_bytes);
            gemms[1].y = y.data;
            for (uint32_t i = 0; i < 3; i++) {
                gemms[i].workspace = a.gemm.workspace;
                gemms[i].workspace_bytes = a.gemm.workspace_bytes / part;
            }
            list[k]->gemm(NULL, gemms, 3);
            cr_assert_arr_eq(a.y.data, y.data, y_bytes, "%s", list[k]->name);
            cr_assert_arr_eq(a.y.data, b.y.data, y_bytes, "%s", list[k]->name);
            guarded_destroy(&y);
            operands_destroy(&a);
            operands_destroy(&b);
        }
}
