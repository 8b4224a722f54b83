/* quantize: every weight comes back within half a step of its block's scale, at every edge, and what
 * no gemm could multiply by is refused. */
#include "base/thread_pool.h"
#include "kernels/quantize.h"
#include "kernels/reference/gemm.h"
#include "tests/kernels/support/guarded.h"
#include "tests/kernels/support/values.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof array / sizeof array[0])

static const enum quantize_format formats[] = {QUANTIZE_INT8_ROWS, QUANTIZE_INT8_GROUPS,
                                               QUANTIZE_E4M3_TENSOR, QUANTIZE_E4M3_BLOCKS,
                                               QUANTIZE_MXFP4};

struct matrix {
    struct quantized quantized;
    struct guarded source, w, scales;
};

static bool matrix_layout(enum quantize_format format, uint32_t n_out, uint32_t n_in,
                          struct matrix *matrix)
{
    if (quantized_init(format, n_out, n_in, &matrix->quantized, NULL) != STATUS_OK)
        return false;
    matrix->w = guarded_create(quantized_w_bytes(&matrix->quantized));
    matrix->scales = guarded_create(quantized_scales_bytes(&matrix->quantized));
    matrix->quantized.w = matrix->w.data;
    matrix->quantized.scales = matrix->scales.data;
    return true;
}

/* Rows of very different size, so that scales differ. False: the format has no such matrix. */
static bool matrix_create(enum quantize_format format, enum dtype source_dtype, uint32_t n_out,
                          uint32_t n_in, struct matrix *matrix)
{
    if (!matrix_layout(format, n_out, n_in, matrix))
        return false;
    matrix->source = guarded_create(n_out * n_in * dtype_bytes(source_dtype));
    for (uint32_t o = 0; o < n_out; o++)
        for (uint32_t i = 0; i < n_in; i++)
            dtype_store(source_dtype, matrix->source.data, (size_t)o * n_in + i,
                        ldexpf(values_at(7, o, i), (int)(o % 9) - 6));
    quantize(NULL, &matrix->quantized, source_dtype, matrix->source.data);
    return true;
}

static void matrix_destroy(struct matrix *matrix)
{
    guarded_destroy(&matrix->source);
    guarded_destroy(&matrix->w);
    guarded_destroy(&matrix->scales);
}

static struct gemm matrix_gemm(const struct matrix *matrix)
{
    return (struct gemm){.w = matrix->quantized.w,
                         .w_dtype = matrix->quantized.dtype,
                         .w_scales = matrix->quantized.scales,
                         .w_scale_rows = matrix->quantized.scale_rows,
                         .w_scale_columns = matrix->quantized.scale_columns,
                         .x_stride = matrix->quantized.n_in,
                         .y_stride = matrix->quantized.n_out,
                         .n_in = matrix->quantized.n_in,
                         .n_out = matrix->quantized.n_out};
}

static size_t block_of(const struct quantized *q, uint32_t o, uint32_t i)
{
    size_t in_row = (q->n_in + q->scale_columns - 1) / q->scale_columns;
    return o / q->scale_rows * in_row + i / q->scale_columns;
}

/* The largest magnitude of each block, to be freed. */
static double *block_largest(const struct matrix *matrix, enum dtype source_dtype)
{
    const struct quantized *q = &matrix->quantized;
    double *largest = calloc((size_t)q->n_out * q->n_in, sizeof *largest);
    cr_assert(largest);
    for (uint32_t o = 0; o < q->n_out; o++)
        for (uint32_t i = 0; i < q->n_in; i++) {
            size_t index = (size_t)o * q->n_in + i;
            double *most = &largest[block_of(q, o, i)];
            *most = fmax(*most, fabs((double)dtype_load(source_dtype, matrix->source.data, index)));
        }
    return largest;
}

/* Half the distance of the numbers that dtype has around w, when its block is so large. */
static double half_step(enum dtype dtype, double w, double largest)
{
    if (dtype == DTYPE_INT8)
        return largest / 127 / 2;
    if (dtype == DTYPE_E4M3) {
        double scale = largest / 448;
        return fmax(ldexp(scale, -9), ldexp(fabs(w), -3)) / 2;
    }
    double scale = exp2(floor(log2(largest)) - 2);
    double units = fabs(w) / scale;
    double step = units < 2 ? 0.5 : units < 4 ? 1 : 2;
    return scale * (units > 7 ? units - 6 : step / 2);
}

static void check_matrix(enum quantize_format format, enum dtype source_dtype, uint32_t n_out,
                         uint32_t n_in)
{
    struct matrix matrix;
    float row[300];
    if (!matrix_create(format, source_dtype, n_out, n_in, &matrix))
        return;
    struct gemm gemm = matrix_gemm(&matrix);
    cr_assert_eq(gemm_check(&gemm, NULL), STATUS_OK);
    double *largest = block_largest(&matrix, source_dtype);
    for (uint32_t o = 0; o < n_out; o++) {
        dequantize_row(&gemm, o, row);
        for (uint32_t i = 0; i < n_in; i++) {
            double w = (double)dtype_load(source_dtype, matrix.source.data, (size_t)o * n_in + i);
            double bound = half_step(gemm.w_dtype, w, largest[block_of(&matrix.quantized, o, i)]);
            cr_assert(fabs((double)row[i] - w) <= bound * (1 + 1e-5),
                      "format %d, %u x %u: w[%u][%u] is %g, not %g", (int)format, n_out, n_in, o, i,
                      (double)row[i], w);
        }
    }
    free(largest);
    matrix_destroy(&matrix);
}

Test(quantize, every_weight_comes_back_within_half_a_step)
{
    static const uint32_t sizes[][2] = {{1, 1},     {1, 32},    {3, 31},    {2, 64},  {5, 96},
                                        {130, 160}, {128, 128}, {129, 129}, {1, 257}, {17, 256}};
    for (size_t f = 0; f < COUNT(formats); f++)
        for (size_t s = 0; s < COUNT(sizes); s++)
            for (enum dtype dtype = DTYPE_F32; dtype <= DTYPE_F16; dtype++)
                check_matrix(formats[f], dtype, sizes[s][0], sizes[s][1]);
}

/* From the OCP MX 1.0 text: the shared exponent is that of the largest, less E2M1's 2. */
Test(quantize, mxfp4_by_hand)
{
    float source[64] = {1.0f, -6.0f, 0.25f, 0.3f, 7.9f, -0.75f, 5.0f, -0.0f, 2.5f, 3.5f};
    source[32] = 0.4375f; /* 2^-2 * 1.75: scale 2^-4, 7 units, saturates at 6 */
    source[33] = 0.1875f; /* 3 units */
    struct matrix matrix;
    cr_assert(matrix_layout(QUANTIZE_MXFP4, 1, 64, &matrix));
    quantize(NULL, &matrix.quantized, DTYPE_F32, source);
    const uint8_t *scales = matrix.scales.data, *w = matrix.w.data;
    cr_assert_eq(scales[0], 127); /* 7.9: 2^2, less 2 */
    cr_assert_eq(scales[1], 123);
    cr_assert_eq(w[0], 0x2 | 0xf << 4); /* 1, -6 */
    cr_assert_eq(w[1], 0x0 | 0x1 << 4); /* 0.25 is halfway between 0 and 0.5: even; 0.3 is 0.5 */
    cr_assert_eq(w[2], 0x7 | 0xa << 4); /* 7.9 is 6; -0.75 is halfway between 0.5 and 1 */
    cr_assert_eq(w[3], 0x6 | 0x8 << 4); /* 5 is halfway between 4 and 6; -0 keeps its sign */
    cr_assert_eq(w[4], 0x4 | 0x6 << 4); /* 2.5 is 2, 3.5 is 4 */
    cr_assert_eq(w[16], 0x7 | 0x5 << 4);
    float row[64];
    struct gemm gemm = matrix_gemm(&matrix);
    dequantize_row(&gemm, 0, row);
    cr_assert_eq(row[32], 0.375f);
    cr_assert_eq(row[33], 0.1875f);
    guarded_destroy(&matrix.w);
    guarded_destroy(&matrix.scales);
}

Test(quantize, the_largest_of_a_block_uses_the_whole_range)
{
    for (size_t f = 0; f < COUNT(formats); f++) {
        struct matrix matrix;
        cr_assert(matrix_create(formats[f], DTYPE_F32, 130, 160, &matrix));
        const struct quantized *q = &matrix.quantized;
        double *largest = block_largest(&matrix, DTYPE_F32);
        for (uint32_t o = 0; o < q->n_out; o++)
            for (uint32_t i = 0; i < q->n_in; i++) {
                size_t index = (size_t)o * q->n_in + i;
                double w = fabs((double)((float *)matrix.source.data)[index]);
                double code = fabs((double)dtype_load(q->dtype, q->w, index));
                if (w < largest[block_of(q, o, i)])
                    continue;
                if (q->dtype == DTYPE_E2M1)
                    cr_assert(code == 4 || code == 6);
                else
                    cr_assert_eq(code, q->dtype == DTYPE_INT8 ? 127 : 448);
            }
        free(largest);
        matrix_destroy(&matrix);
    }
}

static void fill_block(float value, float *source)
{
    for (uint32_t i = 0; i < 32; i++)
        source[i] = i % 2 ? value : 0;
}

Test(quantize, blocks_without_a_scale_are_zeros_and_those_not_finite_are_nan)
{
    static const float zeros[] = {0, -0.0f, 1e-45f};
    static const float wrong[] = {NAN, INFINITY, -INFINITY};
    float source[32], row[32];
    for (size_t f = 0; f < COUNT(formats); f++) {
        struct matrix matrix;
        cr_assert(matrix_layout(formats[f], 1, 32, &matrix));
        struct gemm gemm = matrix_gemm(&matrix);
        for (size_t v = 0; v < COUNT(zeros); v++) {
            fill_block(zeros[v], source);
            quantize(NULL, &matrix.quantized, DTYPE_F32, source);
            dequantize_row(&gemm, 0, row);
            for (uint32_t i = 0; i < 32; i++)
                cr_assert(fabsf(row[i]) <= 1e-44f, "format %d makes %g of %g", (int)formats[f],
                          (double)row[i], (double)source[i]);
        }
        for (size_t v = 0; v < COUNT(wrong); v++) {
            fill_block(wrong[v], source);
            quantize(NULL, &matrix.quantized, DTYPE_F32, source);
            dequantize_row(&gemm, 0, row);
            for (uint32_t i = 0; i < 32; i++)
                cr_assert(isnan(row[i]));
        }
        guarded_destroy(&matrix.w);
        guarded_destroy(&matrix.scales);
    }
}

Test(quantize, threads_make_what_one_makes)
{
    struct thread_pool *pool;
    cr_assert_eq(thread_pool_create(2, false, &pool), STATUS_OK);
    for (size_t f = 0; f < COUNT(formats); f++) {
        struct matrix one, two;
        cr_assert(matrix_create(formats[f], DTYPE_BF16, 300, 64, &one));
        cr_assert(matrix_layout(formats[f], 300, 64, &two));
        quantize(pool, &two.quantized, DTYPE_BF16, one.source.data);
        cr_assert_arr_eq(two.w.data, one.w.data, quantized_w_bytes(&one.quantized));
        cr_assert_arr_eq(two.scales.data, one.scales.data, quantized_scales_bytes(&one.quantized));
        guarded_destroy(&two.w);
        guarded_destroy(&two.scales);
        matrix_destroy(&one);
    }
    thread_pool_destroy(pool);
}

static void check_product(const struct matrix *matrix, uint32_t n_tokens)
{
    struct gemm gemm = matrix_gemm(matrix);
    float x[3 * 160], y[3 * 130], row[160];
    for (uint32_t i = 0; i < n_tokens * gemm.n_in; i++)
        x[i] = values_at(11, 0, i);
    gemm.x = x;
    gemm.y = y;
    gemm.n_tokens = n_tokens;
    reference_gemm(NULL, &gemm, 1);
    for (uint32_t t = 0; t < n_tokens; t++)
        for (uint32_t o = 0; o < gemm.n_out; o++) {
            double sum = 0, magnitude = 1e-30;
            dequantize_row(&gemm, o, row);
            for (uint32_t i = 0; i < gemm.n_in; i++) {
                sum += (double)x[t * gemm.n_in + i] * (double)row[i];
                magnitude += fabs((double)x[t * gemm.n_in + i] * (double)row[i]);
            }
            cr_assert(fabs((double)y[t * gemm.n_out + o] - sum) <= 2e-7 * magnitude);
        }
}

Test(quantize, the_reference_multiplies_by_the_weights_as_they_count)
{
    static const uint32_t sizes[][2] = {{1, 32}, {130, 160}, {129, 33}, {7, 64}};
    for (size_t f = 0; f < COUNT(formats); f++)
        for (size_t s = 0; s < COUNT(sizes); s++) {
            struct matrix matrix;
            if (!matrix_create(formats[f], DTYPE_F32, sizes[s][0], sizes[s][1], &matrix))
                continue;
            check_product(&matrix, 3);
            matrix_destroy(&matrix);
        }
}

Test(quantize, layouts_that_do_not_exist_are_refused)
{
    struct quantized quantized;
    struct error error;
    cr_assert_eq(quantized_init(QUANTIZE_MXFP4, 4, 48, &quantized, &error),
                 STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(error.text, "n_in is 48: MXFP4 needs a multiple of 32 columns");
    cr_assert_eq(quantized_init(QUANTIZE_INT8_GROUPS, 4, 31, &quantized, &error),
                 STATUS_INVALID_ARGUMENT);
    cr_assert_eq(quantized_init(QUANTIZE_INT8_ROWS, 0, 31, &quantized, &error),
                 STATUS_INVALID_ARGUMENT);
    cr_assert_eq(quantized_init(QUANTIZE_INT8_ROWS, 4, 31, &quantized, &error), STATUS_OK);
}

static const char anything[1];

static const struct gemm good = {
    .w = anything, .x_stride = 64, .y_stride = 8, .n_in = 64, .n_out = 8};

Test(quantize, gemms_with_wrong_scales_are_refused_with_the_field_and_its_value)
{
    struct {
        enum dtype dtype;
        uint32_t n_in, rows, columns;
        bool has_scales;
        const char *names; /* what the sentence speaks of; NULL: it is good */
    } cases[] = {
        {DTYPE_F32, 64, 0, 0, false, NULL},
        {DTYPE_BF16, 64, 1, 64, true, "w_scales is set"},
        {DTYPE_INT8, 64, 1, 64, true, NULL},
        {DTYPE_INT8, 64, 1, 32, true, NULL},
        {DTYPE_INT8, 64, 1, 64, false, "w_scales is NULL"},
        {DTYPE_INT8, 64, 1, 16, true, "w_scale_rows is 1 and w_scale_columns 16"},
        {DTYPE_INT8, 64, 2, 64, true, "w_scale_rows is 2 and w_scale_columns 64"},
        {DTYPE_INT8, 63, 1, 32, true, "n_in 63"},
        {DTYPE_INT8, 63, 1, 63, true, NULL},
        {DTYPE_E4M3, 64, 8, 64, true, NULL},
        {DTYPE_E4M3, 63, 128, 128, true, NULL},
        {DTYPE_E4M3, 64, 1, 32, true, NULL},
        {DTYPE_E4M3, 64, 0, 64, true, "w_scale_rows is 0 and w_scale_columns 64"},
        {DTYPE_E4M3, 64, 1, 48, true, "w_scale_rows is 1 and w_scale_columns 48"},
        {DTYPE_E4M3, 64, 1, 0, true, "w_scale_rows is 1 and w_scale_columns 0"},
        {DTYPE_E2M1, 64, 1, 32, true, NULL},
        {DTYPE_E2M1, 48, 1, 32, true, "n_in is 48"},
        {DTYPE_E2M1, 64, 1, 16, true, "w_scale_rows is 1 and w_scale_columns 16"},
        {DTYPE_E2M1, 64, 1, 32, false, "w_scales is NULL"},
        {DTYPE_F32, 0, 0, 0, false, "n_in is 0"},
        {DTYPE_F32, 65, 0, 0, false, "x_stride is 64"},
        {(enum dtype)(DTYPE_LAST + 1), 64, 0, 0, false, "w_dtype is 19"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct gemm gemm = good;
        struct error error = {""};
        gemm.w_dtype = cases[i].dtype;
        gemm.n_in = cases[i].n_in;
        gemm.w_scale_rows = cases[i].rows;
        gemm.w_scale_columns = cases[i].columns;
        gemm.w_scales = cases[i].has_scales ? anything : NULL;
        enum status status = gemm_check(&gemm, &error);
        cr_assert_eq(status, cases[i].names ? STATUS_INVALID_ARGUMENT : STATUS_OK, "row %zu: %s", i,
                     error.text);
        if (cases[i].names)
            cr_assert(strstr(error.text, cases[i].names), "row %zu: %s", i, error.text);
    }
}

Test(quantize, gemms_with_wrong_pointers_strides_and_packing_are_refused)
{
    struct gemm gemm = good;
    gemm.w = NULL;
    cr_assert_eq(gemm_check(&gemm, NULL), STATUS_INVALID_ARGUMENT);
    gemm = good;
    gemm.bias = anything;
    gemm.bias_dtype = DTYPE_INT8;
    cr_assert_eq(gemm_check(&gemm, NULL), STATUS_INVALID_ARGUMENT);
    gemm = good;
    gemm.w_is_packed = true;
    cr_assert_eq(gemm_check(&gemm, NULL), STATUS_INVALID_ARGUMENT);
    gemm.w_dtype = DTYPE_INT8;
    gemm.w_scale_rows = 1;
    gemm.w_scale_columns = 64;
    cr_assert_eq(gemm_check(&gemm, NULL), STATUS_OK);
    gemm = good;
    gemm.y_stride = 7;
    cr_assert_eq(gemm_check(&gemm, NULL), STATUS_INVALID_ARGUMENT);
}

Test(quantize, a_host_takes_float32_activations_and_a_device_16_bits_too)
{
    struct error error = {""};
    struct gemm gemm = good;
    gemm.x_dtype = DTYPE_BF16;
    cr_assert_eq(gemm_check(&gemm, &error), STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(error.text, "x_dtype is BF16"), "%s", error.text);
    cr_assert_eq(gemm_check_operands(&gemm, NULL), STATUS_OK);
    gemm.y_dtype = DTYPE_F16;
    cr_assert_eq(gemm_check_operands(&gemm, NULL), STATUS_OK);
    gemm.y_dtype = DTYPE_INT8;
    cr_assert_eq(gemm_check_operands(&gemm, &error), STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(error.text, "y_dtype 3"), "%s", error.text);
}
