/* products: every kernel gives what the reference gives, and those with tiles the same bits for a row in any company. */
#include "kernels/cuda/cuda.h"
#include "kernels/kernels.h"
#include "kernels/quantize.h"
#include "tests/simt/device_array.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct product_case {
    uint32_t n_tokens, n_in, n_out;
    enum dtype x, w, y;
    uint32_t group; /* of INT8: 0, one scale a row */
    bool has_bias, accumulates;
    uint32_t offset; /* of w's address from a multiple of 16 */
};

/* A product whose arrays are the device's, and y before it ran. */
struct ready {
    struct gemm gemm;
    struct device_array x, w, scales, bias, y;
    float *before; /* [n_tokens][n_out] */
};

#define X_PAD 8u
#define Y_PAD 3u

static void make_weights(struct device *device, const struct product_case *c, struct ready *ready)
{
    const size_t n = (size_t)c->n_out * c->n_in;
    float *source = malloc(n * sizeof *source);
    for (size_t i = 0; i < n; i++)
        source[i] = number_of(2, i);
    ready->gemm.w_dtype = c->w;
    if (c->w < DTYPE_INT8) {
        ready->w = device_array_at(device, n * dtype_bytes(c->w), c->offset);
        for (size_t i = 0; i < n; i++)
            dtype_store(c->w, ready->w.data, i, source[i]);
    } else {
        struct quantized quantized;
        const enum quantize_format format = c->w == DTYPE_E4M3   ? QUANTIZE_E4M3_BLOCKS
                                            : c->w == DTYPE_E2M1 ? QUANTIZE_MXFP4
                                            : c->group           ? QUANTIZE_INT8_GROUPS
                                                                 : QUANTIZE_INT8_ROWS;
        cr_assert_eq(quantized_init(format, c->n_out, c->n_in, &quantized, NULL), STATUS_OK);
        ready->w = device_array_at(device, quantized_w_bytes(&quantized), c->offset);
        ready->scales = device_array_create(device, quantized_scales_bytes(&quantized));
        quantized.w = ready->w.data;
        quantized.scales = ready->scales.data;
        quantize(NULL, &quantized, DTYPE_F32, source);
        ready->gemm.w_scales = quantized.scales;
        ready->gemm.w_scale_rows = quantized.scale_rows;
        ready->gemm.w_scale_columns = quantized.scale_columns;
    }
    ready->gemm.w = ready->w.data;
    free(source);
}

static struct ready make_ready(struct device *device, const struct product_case *c)
{
    const uint32_t x_stride = (c->n_in + 7) / 8 * 8 + X_PAD, y_stride = c->n_out + Y_PAD;
    struct ready ready = {.before = calloc((size_t)c->n_tokens * c->n_out, sizeof(float))};
    make_weights(device, c, &ready);
    ready.x = device_rows(device, c->x, &(uint32_t[3]){c->n_tokens, c->n_in, x_stride}, 1);
    ready.y = device_array_create(device, (size_t)c->n_tokens * y_stride * dtype_bytes(c->y));
    for (uint32_t t = 0; c->accumulates && t < c->n_tokens; t++)
        for (uint32_t o = 0; o < c->n_out; o++) {
            dtype_store(c->y, ready.y.data, (size_t)t * y_stride + o, number_of(4, t + 7u * o));
            ready.before[(size_t)t * c->n_out + o] = dtype_load(c->y, ready.y.data,
                                                                (size_t)t * y_stride + o);
        }
    if (c->has_bias) {
        ready.bias = device_rows(device, c->w < DTYPE_INT8 ? c->w : DTYPE_F32,
                                 &(uint32_t[3]){1, c->n_out, c->n_out}, 3);
        ready.gemm.bias = ready.bias.data;
        ready.gemm.bias_dtype = c->w < DTYPE_INT8 ? c->w : DTYPE_F32;
    }
    ready.gemm.x = ready.x.data;
    ready.gemm.x_dtype = c->x;
    ready.gemm.x_stride = x_stride;
    ready.gemm.y = ready.y.data;
    ready.gemm.y_dtype = c->y;
    ready.gemm.y_stride = y_stride;
    ready.gemm.n_tokens = c->n_tokens;
    ready.gemm.n_in = c->n_in;
    ready.gemm.n_out = c->n_out;
    ready.gemm.accumulate = c->accumulates;
    return ready;
}

static void destroy_ready(struct ready *ready)
{
    struct device_array *arrays[] = {&ready->x, &ready->w, &ready->scales, &ready->bias, &ready->y};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        if (arrays[i]->data)
            device_array_destroy(arrays[i]);
    free(ready->before);
}

/* What the reference gives for the same numbers, and the magnitudes that were added up. */
static void expect(const struct ready *ready, float *expected, float *magnitude)
{
    const struct kernels *reference;
    struct gemm gemm = ready->gemm;
    const size_t n_in = gemm.n_in, n_out = gemm.n_out;
    float *x = malloc(gemm.n_tokens * n_in * sizeof *x), *w = malloc(n_in * sizeof *w);
    for (size_t t = 0; t < gemm.n_tokens; t++)
        for (size_t i = 0; i < n_in; i++)
            x[t * n_in + i] = dtype_load(gemm.x_dtype, gemm.x, t * gemm.x_stride + i);
    memcpy(expected, ready->before, gemm.n_tokens * n_out * sizeof *expected);
    for (uint32_t o = 0; o < n_out; o++) {
        dequantize_row(&gemm, o, w);
        for (size_t t = 0; t < gemm.n_tokens; t++) {
            magnitude[t * n_out + o] = fabsf(expected[t * n_out + o]) + 1;
            for (size_t i = 0; i < n_in; i++)
                magnitude[t * n_out + o] += fabsf(x[t * n_in + i] * w[i]);
        }
    }
    gemm.x = x;
    gemm.x_dtype = gemm.y_dtype = DTYPE_F32;
    gemm.x_stride = n_in;
    gemm.y = expected;
    gemm.y_stride = n_out;
    cr_assert_eq(kernels_select("reference", &reference, NULL), STATUS_OK);
    reference->gemm(NULL, &gemm, 1);
    free(x);
    free(w);
}

static void assert_expected(const struct ready *ready, const char *what)
{
    const struct gemm *gemm = &ready->gemm;
    const size_t n = (size_t)gemm->n_tokens * gemm->n_out, bytes = dtype_bytes(gemm->y_dtype);
    float *expected = malloc(n * sizeof *expected), *magnitude = malloc(n * sizeof *magnitude);
    const float rounding = gemm->y_dtype == DTYPE_F32   ? 0
                           : gemm->y_dtype == DTYPE_F16 ? 5e-4f
                                                        : 4e-3f;
    expect(ready, expected, magnitude);
    for (size_t t = 0; t < gemm->n_tokens; t++) {
        for (size_t o = 0; o < gemm->n_out; o++) {
            const float got = dtype_load(gemm->y_dtype, gemm->y, t * gemm->y_stride + o);
            const float want = expected[t * gemm->n_out + o];
            const float limit = 2e-6f * magnitude[t * gemm->n_out + o] + rounding * fabsf(want);
            cr_assert(fabsf(got - want) <= limit,
                      "%s, %u x %u x %u, %s: token %zu, output %zu is %g, not %g", what,
                      gemm->n_tokens, gemm->n_in, gemm->n_out, dtype_name(gemm->w_dtype), t, o,
                      (double)got, (double)want);
        }
        cr_assert(is_poison((const uint8_t *)gemm->y + (t * gemm->y_stride + gemm->n_out) * bytes,
                            Y_PAD * bytes));
    }
    free(expected);
    free(magnitude);
}

static const char *const variant_names[] = {"plain", "wide",      "mid",       "slim",
                                            "thin",  "fours_256", "fours_128", "fours_64"};

/* Four warps multiply BF16 alone. */
static bool has_variant(enum dtype x, enum dtype w, enum cuda_gemm_variant variant)
{
    return variant < CUDA_GEMM_FOURS_256 || (x == DTYPE_BF16 && w == DTYPE_BF16);
}

static void check_case(const struct product_case *c, enum cuda_gemm_variant variant,
                       uint32_t schedule)
{
    struct device *device = schedule_open(schedule);
    struct ready ready = make_ready(device, c);
    cr_assert(cuda_gemm_takes(&ready.gemm, variant), "%s", variant_names[variant]);
    cuda_gemm_run(&ready.gemm, 1, variant);
    assert_expected(&ready, variant_names[variant]);
    destroy_ready(&ready);
    schedule_close(device);
}

/* Around every edge of a tile, a stage and a ring. */
static const uint32_t sizes[][3] = {
    {1, 32, 1},    {15, 64, 63},   {16, 96, 64},   {17, 128, 65},
    {63, 256, 16}, {65, 160, 127}, {129, 32, 129}, {257, 352, 133},
};
/* The same that are not multiples of a stage: INT8 has 16 elements in 16 bytes. */
static const uint32_t ragged[][3] = {{1, 16, 7}, {3, 48, 66}, {18, 272, 5}};

static void check_weights(struct product_case c)
{
    uint32_t n = 0;
    for (enum cuda_gemm_variant v = CUDA_GEMM_WIDE;
         v < CUDA_GEMM_VARIANTS && has_variant(c.x, c.w, v); v++) {
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++, n++) {
            c.n_tokens = sizes[i][0], c.n_in = sizes[i][1], c.n_out = sizes[i][2];
            c.y = n % 3 ? DTYPE_F32 : DTYPE_BF16;
            c.has_bias = n % 2, c.accumulates = n % 4 > 1;
            check_case(&c, v, n % SCHEDULES);
        }
        for (size_t i = 0; !c.group && i < sizeof ragged / sizeof ragged[0]; i++, n++) {
            c.n_tokens = ragged[i][0], c.n_in = ragged[i][1], c.n_out = ragged[i][2];
            c.y = n % 3 ? DTYPE_F16 : DTYPE_F32;
            c.has_bias = n % 2, c.accumulates = n % 4 > 1;
            check_case(&c, v, n % SCHEDULES);
        }
    }
}

Test(products, bf16_weights_by_tiles_of_any_shape)
{
    check_weights((struct product_case){.x = DTYPE_BF16, .w = DTYPE_BF16});
}
Test(products, f16_weights_by_tiles_of_any_shape)
{
    check_weights((struct product_case){.x = DTYPE_F16, .w = DTYPE_F16});
}
Test(products, f16_weights_and_bf16_rows_by_tiles_of_any_shape)
{
    check_weights((struct product_case){.x = DTYPE_BF16, .w = DTYPE_F16});
}
Test(products, int8_weights_with_a_scale_a_row_by_tiles_of_any_shape)
{
    check_weights((struct product_case){.x = DTYPE_BF16, .w = DTYPE_INT8});
}
Test(products, int8_weights_with_a_scale_a_group_by_tiles_of_any_shape)
{
    check_weights((struct product_case){.x = DTYPE_BF16, .w = DTYPE_INT8, .group = 32});
}

Test(products, elements_in_rows_of_8_that_are_no_whole_stage)
{
    for (uint32_t n_in = 8; n_in <= 136; n_in += 16)
        for (enum cuda_gemm_variant v = CUDA_GEMM_WIDE; v < CUDA_GEMM_VARIANTS; v++)
            check_case(&(struct product_case){5, n_in, 9, DTYPE_BF16, DTYPE_BF16, DTYPE_F32, 0,
                                              true, false, 0},
                       v, n_in / 8 % SCHEDULES);
}

Test(products, all_schedules_of_a_ring_that_goes_round_give_the_same)
{
    const struct product_case c = {70,         672, 70,   DTYPE_BF16, DTYPE_BF16,
                                   DTYPE_BF16, 0,   true, true,       0};
    for (enum cuda_gemm_variant v = CUDA_GEMM_WIDE; v < CUDA_GEMM_VARIANTS; v++)
        for (uint32_t schedule = 0; schedule < SCHEDULES; schedule++)
            check_case(&c, v, schedule);
}

Test(products, tiles_of_four_warps_go_by_bands_of_tokens)
{
    check_case(
        &(struct product_case){577, 16, 134, DTYPE_BF16, DTYPE_BF16, DTYPE_F32, 0, false, false, 0},
        CUDA_GEMM_FOURS_64, 2);
}

/* ---- plain ---- */

Test(products, plain_takes_every_dtype_size_and_address)
{
    const struct product_case cases[] = {
        {1, 1, 1, DTYPE_F32, DTYPE_F32, DTYPE_F32, 0, false, false, 0},
        {5, 33, 9, DTYPE_F32, DTYPE_F32, DTYPE_F32, 0, true, true, 0},
        {4, 31, 8, DTYPE_F32, DTYPE_BF16, DTYPE_F32, 0, true, false, 1},
        {3, 65, 7, DTYPE_BF16, DTYPE_BF16, DTYPE_BF16, 0, false, true, 3},
        {9, 64, 17, DTYPE_F16, DTYPE_BF16, DTYPE_F16, 0, true, false, 0},
        {2, 7, 5, DTYPE_BF16, DTYPE_F16, DTYPE_F32, 0, false, false, 5},
        {5, 47, 11, DTYPE_BF16, DTYPE_INT8, DTYPE_F32, 0, true, true, 1},
        {5, 96, 11, DTYPE_F32, DTYPE_INT8, DTYPE_F32, 32, true, false, 0},
        {5, 130, 129, DTYPE_BF16, DTYPE_E4M3, DTYPE_F32, 0, true, false, 1},
        {6, 96, 10, DTYPE_BF16, DTYPE_E2M1, DTYPE_BF16, 0, true, true, 1},
        {6, 40, 10, DTYPE_F32, DTYPE_F32, DTYPE_F32, 0, true, true, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (uint32_t schedule = 0; schedule < SCHEDULES; schedule++)
            check_case(&cases[i], CUDA_GEMM_PLAIN, schedule);
}

/* ---- what is promised of bits ---- */

/* y of n_tokens from `first` on, by variant. */
static void run_rows(struct gemm gemm, uint32_t first, uint32_t n_tokens,
                     enum cuda_gemm_variant variant)
{
    gemm.x = (const uint16_t *)gemm.x + first * gemm.x_stride;
    gemm.y = (float *)gemm.y + first * gemm.y_stride;
    gemm.n_tokens = n_tokens;
    cuda_gemm_run(&gemm, 1, variant);
}

static void check_bits(enum dtype w, uint32_t group)
{
    const struct product_case c = {131, 160, 70, DTYPE_BF16, w, DTYPE_F32, group, true, false, 0};
    struct device *device = schedule_open(3);
    struct ready ready = make_ready(device, &c);
    cuda_gemm_run(&ready.gemm, 1, CUDA_GEMM_WIDE);
    uint8_t *whole = malloc(ready.y.bytes);
    memcpy(whole, ready.y.data, ready.y.bytes);
    for (enum cuda_gemm_variant v = CUDA_GEMM_WIDE;
         v < CUDA_GEMM_VARIANTS && has_variant(DTYPE_BF16, w, v); v++) {
        memset(ready.y.data, 0xff, ready.y.bytes);
        run_rows(ready.gemm, 0, 1, v);
        run_rows(ready.gemm, 1, 16, v);
        run_rows(ready.gemm, 17, 49, v);
        run_rows(ready.gemm, 66, 65, v);
        cr_assert_arr_eq(ready.y.data, whole, ready.y.bytes, "%s, %s", variant_names[v],
                         dtype_name(w));
    }
    free(whole);
    destroy_ready(&ready);
    schedule_close(device);
}

Test(products, a_row_alone_has_the_bits_of_the_row_in_any_batch_by_any_tile)
{
    check_bits(DTYPE_BF16, 0);
    check_bits(DTYPE_F16, 0);
    check_bits(DTYPE_INT8, 0);
    check_bits(DTYPE_INT8, 32);
}

Test(products, several_products_of_one_call_are_those_of_as_many_calls)
{
    const struct product_case cases[] = {
        {19, 64, 70, DTYPE_BF16, DTYPE_BF16, DTYPE_F32, 0, true, true, 0},
        {19, 64, 12, DTYPE_BF16, DTYPE_BF16, DTYPE_BF16, 0, false, false, 0},
        {40, 64, 33, DTYPE_BF16, DTYPE_INT8, DTYPE_F32, 0, true, false, 0},
        {0, 64, 12, DTYPE_BF16, DTYPE_BF16, DTYPE_BF16, 0, false, false, 0},
        {3, 63, 12, DTYPE_F32, DTYPE_F32, DTYPE_F32, 0, false, false, 0},
    };
    struct device *device = schedule_open(1);
    struct ready ready[5];
    struct gemm gemms[5];
    for (size_t i = 0; i < 5; i++) {
        ready[i] = make_ready(device, &cases[i]);
        gemms[i] = ready[i].gemm;
    }
    cuda_kernels.gemm(NULL, gemms, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_expected(&ready[i], "together");
        destroy_ready(&ready[i]);
    }
    schedule_close(device);
}

Test(products, the_kernel_is_chosen_by_dtypes_sizes_and_addresses)
{
    struct device *device = simt_device_open(&(struct simt_options){.architecture = 80});
    device_bind(device); /* of 4 processors */
    struct ready ready = make_ready(
        device,
        &(struct product_case){1, 64, 256, DTYPE_BF16, DTYPE_BF16, DTYPE_F32, 0, false, false, 0});
    struct gemm gemm = ready.gemm;
    cr_assert_eq(cuda_gemm_choose(&gemm), CUDA_GEMM_SLIM);
    gemm.n_out = 192;
    cr_assert_eq(cuda_gemm_choose(&gemm), CUDA_GEMM_THIN);
    gemm.n_out = 256;
    gemm.n_tokens = 33;
    cr_assert_eq(cuda_gemm_choose(&gemm), CUDA_GEMM_MID);
    gemm.n_tokens = 129;
    cr_assert_eq(cuda_gemm_choose(&gemm), CUDA_GEMM_WIDE);
    cr_assert_not(cuda_gemm_takes(&gemm, CUDA_GEMM_FOURS_256));
    gemm.x_stride = 65;
    cr_assert_eq(cuda_gemm_choose(&gemm), CUDA_GEMM_PLAIN);
    gemm = ready.gemm;
    gemm.w = (const uint8_t *)gemm.w + 2;
    cr_assert_eq(cuda_gemm_choose(&gemm), CUDA_GEMM_PLAIN);
    gemm = ready.gemm;
    gemm.x_dtype = DTYPE_F32;
    cr_assert_eq(cuda_gemm_choose(&gemm), CUDA_GEMM_PLAIN);
    destroy_ready(&ready);
    schedule_close(device);
}

Test(products, four_warps_multiply_bf16_on_sm_90_alone)
{
    const struct {
        uint32_t architecture, n_tokens;
        enum cuda_gemm_variant variant;
    } rows[] = {
        {90, 32, CUDA_GEMM_SLIM},       {90, 33, CUDA_GEMM_FOURS_64},
        {90, 129, CUDA_GEMM_FOURS_128}, {90, 512, CUDA_GEMM_FOURS_256},
        {86, 512, CUDA_GEMM_WIDE},      {100, 512, CUDA_GEMM_WIDE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct device *device = simt_device_open(
            &(struct simt_options){.architecture = rows[i].architecture}); /* of 4 processors */
        device_bind(device);
        struct ready ready = make_ready(device,
                                        &(struct product_case){1, 64, 256, DTYPE_BF16, DTYPE_BF16,
                                                               DTYPE_F32, 0, false, false, 0});
        struct gemm gemm = ready.gemm;
        gemm.n_tokens = rows[i].n_tokens;
        cr_assert_eq(cuda_gemm_choose(&gemm), rows[i].variant, "row %zu", i);
        gemm.w_dtype = gemm.x_dtype = DTYPE_F16;
        cr_assert_not(cuda_gemm_takes(&gemm, CUDA_GEMM_FOURS_128));
        cr_assert_lt(cuda_gemm_choose(&gemm), CUDA_GEMM_FOURS_256);
        destroy_ready(&ready);
        schedule_close(device);
    }
}
