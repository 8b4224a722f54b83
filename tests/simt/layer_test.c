/* layer: the kernels around attention and products give what the reference gives. */
#include "kernels/cuda/cuda.h"
#include "kernels/kernels.h"
#include "kernels/rotary.h"
#include "tests/simt/device_array.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Around a warp, a CTA and a chunk. */
static const uint32_t lengths[] = {1, 31, 33, 255, 256, 257, 1023, 1024, 1025, 2050};
#define N_LENGTHS (sizeof lengths / sizeof lengths[0])

static const struct kernels *reference(void)
{
    const struct kernels *kernels;
    cr_assert_eq(kernels_select("reference", &kernels, NULL), STATUS_OK);
    return kernels;
}

/* [n_rows][n] of float32 from rows of any dtype; the caller frees. */
static float *widened(const struct device_array *rows, enum dtype dtype, const uint32_t (*shape)[3])
{
    const uint32_t n_rows = (*shape)[0], n = (*shape)[1], stride = (*shape)[2];
    float *wide = malloc((size_t)n_rows * n * sizeof *wide + 1);
    for (uint32_t r = 0; r < n_rows; r++)
        for (uint32_t i = 0; i < n; i++)
            wide[(size_t)r * n + i] = dtype_load(dtype, rows->data, (size_t)r * stride + i);
    return wide;
}

/* Rounded to dtype, expected is what rows hold, and nothing is written between them. */
static void assert_rows(const struct device_array *rows, enum dtype dtype, const float *expected,
                        const uint32_t (*shape)[3], const char *what)
{
    const uint32_t n_rows = (*shape)[0], n = (*shape)[1], stride = (*shape)[2];
    const float rounding = dtype == DTYPE_F32 ? 1e-5f : dtype == DTYPE_F16 ? 1e-3f : 6e-3f;
    for (uint32_t r = 0; r < n_rows; r++) {
        for (uint32_t i = 0; i < n; i++) {
            const float got = dtype_load(dtype, rows->data, (size_t)r * stride + i);
            const float want = expected[(size_t)r * n + i];
            cr_assert(fabsf(got - want) <= rounding * fabsf(want) + 2e-6f,
                      "%s of %u: row %u, %u is %g, not %g", what, n, r, i, (double)got,
                      (double)want);
        }
        const size_t bytes = dtype_bytes(dtype);
        cr_assert(is_poison((const uint8_t *)rows->data + ((size_t)r * stride + n) * bytes,
                            (stride - n) * bytes));
    }
}

Test(layer, add_adds_each_element_once)
{
    for (size_t l = 0; l < N_LENGTHS; l++) {
        const uint32_t n = lengths[l];
        struct device *device = schedule_open(l % SCHEDULES);
        struct device_array y = device_array_create(device, n * sizeof(float));
        struct device_array x = device_rows(device, DTYPE_F32, &(uint32_t[3]){1, n, n}, 1);
        for (uint32_t i = 0; i < n; i++)
            ((float *)y.data)[i] = (float)i;
        cuda_kernels.add(y.data, x.data, n);
        for (uint32_t i = 0; i < n; i++)
            cr_assert_eq(((float *)y.data)[i], (float)i + ((float *)x.data)[i]);
        device_array_destroy(&x);
        device_array_destroy(&y);
        schedule_close(device);
    }
}

/* ---- embedding ---- */

static void check_embedding(enum dtype dtype, enum dtype y_dtype, uint32_t n, uint32_t schedule)
{
    static const uint32_t ids[] = {6, 0, 3, 3};
    struct device *device = schedule_open(schedule);
    struct device_array table = device_rows(device, dtype, &(uint32_t[3]){7, n, n}, 5);
    struct device_array device_ids = device_array_create(device, sizeof ids);
    struct device_array y = device_array_create(device, 4ull * (n + 2) * dtype_bytes(y_dtype));
    memcpy(device_ids.data, ids, sizeof ids);
    cuda_kernels.embedding(NULL, &(struct embedding){.table = table.data,
                                                     .dtype = dtype,
                                                     .ids = device_ids.data,
                                                     .y = y.data,
                                                     .y_dtype = y_dtype,
                                                     .y_stride = n + 2,
                                                     .n_tokens = 4,
                                                     .n = n,
                                                     .n_rows = 7});
    for (uint32_t t = 0; t < 4; t++)
        for (uint32_t i = 0; i < n; i++) {
            uint32_t want = 0, got = 0;
            dtype_store(y_dtype, &want, 0, dtype_load(dtype, table.data, (size_t)ids[t] * n + i));
            memcpy(&got, (char *)y.data + ((size_t)t * (n + 2) + i) * dtype_bytes(y_dtype),
                   dtype_bytes(y_dtype));
            cr_assert_eq(got, want, "row %u, %u", t, i);
        }
    device_array_destroy(&table);
    device_array_destroy(&device_ids);
    device_array_destroy(&y);
    schedule_close(device);
}

Test(layer, rows_of_a_table_are_gathered_and_rounded)
{
    for (size_t l = 0; l < N_LENGTHS; l++)
        for (enum dtype dtype = DTYPE_F32; dtype <= DTYPE_F16; dtype++)
            check_embedding(dtype, (enum dtype)(l % 3), lengths[l], l % SCHEDULES);
}

/* ---- norms ---- */

struct norm_case {
    enum dtype x, w, y;
    bool has_w, has_bias, is_unit_offset;
};

static void check_norm(const struct norm_case *c, bool is_layer_norm, uint32_t n, uint32_t schedule)
{
    const uint32_t shape[3] = {3, n, n + 3};
    struct device *device = schedule_open(schedule);
    struct device_array x = device_rows(device, c->x, &shape, 1);
    struct device_array w = device_rows(device, c->w, &(uint32_t[3]){1, n, n}, 2);
    struct device_array bias = device_rows(device, c->w, &(uint32_t[3]){1, n, n}, 3);
    struct device_array y = device_array_create(device, 3ull * (n + 3) * dtype_bytes(c->y));
    float *wide = widened(&x, c->x, &shape), *expected = calloc(3ull * n, sizeof *expected);
    struct layer_norm norm = {.x = x.data,
                              .x_dtype = c->x,
                              .x_stride = n + 3,
                              .w = c->has_w ? w.data : NULL,
                              .bias = c->has_bias ? bias.data : NULL,
                              .w_dtype = c->w,
                              .bias_dtype = c->w,
                              .y = y.data,
                              .y_dtype = c->y,
                              .y_stride = n + 3,
                              .n_tokens = 3,
                              .n = n,
                              .eps = 1e-5f};
    struct rms_norm rms = {.x = x.data,
                           .x_dtype = c->x,
                           .x_stride = n + 3,
                           .w = norm.w,
                           .w_dtype = c->w,
                           .y = y.data,
                           .y_dtype = c->y,
                           .y_stride = n + 3,
                           .n_tokens = 3,
                           .n = n,
                           .eps = 1e-5f,
                           .is_unit_offset = c->is_unit_offset};
    if (is_layer_norm)
        cuda_kernels.layer_norm(NULL, &norm);
    else
        cuda_kernels.rms_norm(NULL, &rms);
    norm.x = rms.x = wide, norm.y = rms.y = expected;
    norm.x_dtype = norm.y_dtype = rms.x_dtype = rms.y_dtype = DTYPE_F32;
    norm.x_stride = norm.y_stride = rms.x_stride = rms.y_stride = n;
    if (is_layer_norm)
        reference()->layer_norm(NULL, &norm);
    else
        reference()->rms_norm(NULL, &rms);
    /* Of one or few elements the mean takes nearly all: an error is one of what was subtracted. */
    if (!is_layer_norm || n > 31)
        assert_rows(&y, c->y, expected, &shape, is_layer_norm ? "layer norm" : "rms norm");
    free(wide);
    free(expected);
    device_array_destroy(&x);
    device_array_destroy(&w);
    device_array_destroy(&bias);
    device_array_destroy(&y);
    schedule_close(device);
}

static const struct norm_case norm_cases[] = {
    {DTYPE_F32, DTYPE_BF16, DTYPE_BF16, true, true, false},
    {DTYPE_F32, DTYPE_F32, DTYPE_F32, true, false, true},
    {DTYPE_BF16, DTYPE_F16, DTYPE_F32, false, true, false},
    {DTYPE_BF16, DTYPE_F16, DTYPE_F16, true, false, false},
};

Test(layer, rms_norm_is_the_references)
{
    for (size_t l = 0; l < N_LENGTHS; l++)
        for (uint32_t i = 0; i < 4; i++)
            check_norm(&norm_cases[i], false, lengths[l], (l + i) % SCHEDULES);
}

Test(layer, layer_norm_is_the_references)
{
    for (size_t l = 0; l < N_LENGTHS; l++)
        for (uint32_t i = 0; i < 4; i++)
            check_norm(&norm_cases[i], true, lengths[l], (l + i) % SCHEDULES);
}

/* A norm in place, and of one row alone: the same bits. */
Test(layer, a_norm_in_place_or_of_a_row_alone_has_the_same_bits)
{
    const uint32_t shape[3] = {5, 700, 700};
    struct device *device = schedule_open(2);
    struct device_array x = device_rows(device, DTYPE_F32, &shape, 1);
    struct device_array y = device_array_create(device, x.bytes),
                        z = device_array_create(device, 2800);
    struct rms_norm norm = {.x = x.data,
                            .x_stride = 700,
                            .y = y.data,
                            .y_stride = 700,
                            .n_tokens = 5,
                            .n = 700,
                            .eps = 1e-6f};
    cuda_kernels.rms_norm(NULL, &norm);
    norm.x = (float *)x.data + 3 * 700, norm.y = z.data, norm.n_tokens = 1;
    cuda_kernels.rms_norm(NULL, &norm);
    cr_assert_arr_eq(z.data, (float *)y.data + 3 * 700, 2800);
    norm.x = norm.y = x.data, norm.n_tokens = 5;
    cuda_kernels.rms_norm(NULL, &norm);
    cr_assert_arr_eq(x.data, y.data, y.bytes);
    device_array_destroy(&x);
    device_array_destroy(&y);
    device_array_destroy(&z);
    schedule_close(device);
}

/* ---- activations ---- */

static void check_gated(enum activation activation, enum dtype dtype, uint32_t n, uint32_t form)
{
    const uint32_t shape[3] = {3, n, n + 1}, up_shape[3] = {3, n, n + 4};
    struct device *device = schedule_open((form + n) % SCHEDULES);
    struct device_array gate = device_rows(device, dtype, &shape, 1);
    struct device_array up = device_rows(device, dtype, &up_shape, 2);
    struct device_array y = device_array_create(device, gate.bytes);
    for (uint32_t i = 0; i < n; i++) /* as far as activations bend */
        dtype_store(dtype, gate.data, i, 12 * number_of(1, i));
    float *wide_gate = widened(&gate, dtype, &shape), *wide_up = widened(&up, dtype, &up_shape);
    float *expected = calloc(3ull * n, sizeof *expected);
    struct gated gated = {.gate = gate.data,
                          .up = form != 1 ? up.data : NULL,
                          .gate_stride = n + 1,
                          .up_stride = n + 4,
                          .y = y.data,
                          .dtype = dtype,
                          .y_stride = n + 1,
                          .n_tokens = 3,
                          .n = n,
                          .activation = activation,
                          .alpha = form == 2 ? 1.702f : 0,
                          .beta = form == 2 ? 1 : 0,
                          .limit = form == 0 ? 0 : 0.75f};
    cuda_kernels.gated(NULL, &gated);
    gated.gate = wide_gate, gated.up = gated.up ? wide_up : NULL, gated.y = expected;
    gated.gate_stride = gated.up_stride = gated.y_stride = n;
    gated.dtype = DTYPE_F32;
    reference()->gated(NULL, &gated);
    assert_rows(&y, dtype, expected, &shape, "gated");
    free(wide_gate);
    free(wide_up);
    free(expected);
    device_array_destroy(&gate);
    device_array_destroy(&up);
    device_array_destroy(&y);
    schedule_close(device);
}

Test(layer, gated_activations_are_the_references)
{
    for (size_t l = 0; l < N_LENGTHS; l++)
        for (enum activation a = ACTIVATION_SILU; a <= ACTIVATION_RELU; a++)
            for (uint32_t form = 0; form < 3; form++)
                check_gated(a, (enum dtype)((l + form) % 3), lengths[l], form);
}

Test(layer, a_gate_that_is_no_number_stays_none_within_limits)
{
    const uint32_t shape[3] = {1, 4, 4};
    struct device *device = schedule_open(0);
    struct device_array gate = device_rows(device, DTYPE_F32, &shape, 1);
    struct device_array up = device_rows(device, DTYPE_F32, &shape, 2);
    struct device_array y = device_array_create(device, gate.bytes);
    dtype_store(DTYPE_F32, gate.data, 1, NAN);
    dtype_store(DTYPE_F32, up.data, 2, NAN);
    const struct gated gated = {.gate = gate.data,
                                .up = up.data,
                                .gate_stride = 4,
                                .up_stride = 4,
                                .y = y.data,
                                .dtype = DTYPE_F32,
                                .y_stride = 4,
                                .n_tokens = 1,
                                .n = 4,
                                .activation = ACTIVATION_SILU,
                                .limit = 0.75f};
    cuda_kernels.gated(NULL, &gated);
    for (uint32_t i = 0; i < 4; i++)
        cr_assert_eq((bool)isnan(dtype_load(DTYPE_F32, y.data, i)), i == 1 || i == 2, "%u", i);
    device_array_destroy(&gate);
    device_array_destroy(&up);
    device_array_destroy(&y);
    schedule_close(device);
}

/* ---- rotary ---- */

struct rotary_case {
    uint32_t head_dim, rotary_dim;
    bool is_interleaved, has_positions, is_in_place;
    enum dtype dtype;
};

static void check_rotary(const struct rotary_case *c, uint32_t schedule)
{
    enum { TOKENS = 5, HEADS = 3, POSITIONS = 40 };
    static const uint32_t positions[TOKENS] = {7, 0, 39, 7, 12};
    const uint32_t d = c->head_dim, half = c->rotary_dim / 2;
    const uint32_t shape[3] = {TOKENS, HEADS * d, HEADS * d + 4};
    struct device *device = schedule_open(schedule);
    struct device_array x = device_rows(device, c->dtype, &shape, 1);
    struct device_array y = device_array_create(device, x.bytes);
    struct device_array angles = device_rows(
        device, DTYPE_F32, &(uint32_t[3]){2, POSITIONS * half, POSITIONS * half}, 9);
    struct device_array device_positions = device_array_create(device, sizeof positions);
    float *wide = widened(&x, c->dtype, &shape),
          *expected = calloc(TOKENS * HEADS * d, sizeof *wide);
    memcpy(device_positions.data, positions, sizeof positions);
    struct rotary rotary = {.x = x.data,
                            .y = c->is_in_place ? x.data : y.data,
                            .dtype = c->dtype,
                            .x_token_stride = shape[2],
                            .x_head_stride = d,
                            .y_token_stride = shape[2],
                            .y_head_stride = d,
                            .n_tokens = TOKENS,
                            .n_heads = HEADS,
                            .head_dim = d,
                            .table = {angles.data, (float *)angles.data + POSITIONS * half,
                                      POSITIONS, c->rotary_dim, c->is_interleaved},
                            .positions = c->has_positions ? device_positions.data : NULL,
                            .start = 11};
    cuda_kernels.rotary(NULL, &rotary);
    struct device_array *written = c->is_in_place ? &x : &y;
    rotary.x = wide, rotary.y = expected, rotary.dtype = DTYPE_F32;
    rotary.x_token_stride = rotary.y_token_stride = HEADS * d;
    reference()->rotary(NULL, &rotary);
    assert_rows(written, c->dtype, expected, &shape, "rotary");
    free(wide);
    free(expected);
    device_array_destroy(&x);
    device_array_destroy(&y);
    device_array_destroy(&angles);
    device_array_destroy(&device_positions);
    schedule_close(device);
}

Test(layer, rotary_turns_pairs_and_copies_the_rest)
{
    const struct rotary_case cases[] = {
        {64, 64, false, true, false, DTYPE_F32},  {64, 64, true, false, true, DTYPE_BF16},
        {96, 32, false, false, true, DTYPE_BF16}, {8, 2, true, true, false, DTYPE_F16},
        {128, 96, false, true, true, DTYPE_F32},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (uint32_t schedule = 0; schedule < SCHEDULES; schedule++)
            check_rotary(&cases[i], schedule);
}

/* ---- of host memory ---- */

Test(layer, largest_and_log_sum_exp_are_taken_of_host_memory)
{
    const float x[] = {0.5f, NAN, 3, 3, -1};
    cr_assert_eq(cuda_kernels.argmax(x, 5), 2);
    cr_assert_float_eq(cuda_kernels.log_sum_exp(x + 2, 2), 3 + logf(2), 1e-5f);
}
