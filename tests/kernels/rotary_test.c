/* rotary: heads turned as Transformers turns them, every dtype, part of a head and order of
 * dimensions, nothing written outside of the heads, and what is refused. */
#include "base/thread_pool.h"
#include "kernels/attention.h"
#include "kernels/rotary.h"
#include "tests/kernels/support/attention_list.h"
#include "tests/kernels/support/rows.h"

#include <stdlib.h>

enum { N_POSITIONS = 50, START = 11 };

static const struct golden_turn {
    uint32_t head_dim, rotary_dim;
    bool is_interleaved;
    float x[144], cosines[32], sines[32], y[144];
} golden_turns[] = {
#include "tests/golden/rope/rotary.inc"
};

Test(rotary, turns_as_transformers_does)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n_list = kernels_list(list, KERNELS_MAX);
    for (size_t g = 0; g < COUNT(golden_turns); g++)
        for (uint32_t k = 0; k < n_list; k++) {
            const struct golden_turn *golden = &golden_turns[g];
            uint32_t d = golden->head_dim;
            float y[144];
            struct rotary rotary = {
                .x = golden->x,
                .y = y,
                .x_token_stride = 3 * d,
                .x_head_stride = d,
                .y_token_stride = 3 * d,
                .y_head_stride = d,
                .n_tokens = 2,
                .n_heads = 3,
                .head_dim = d,
                .table = {golden->cosines, golden->sines, 2, golden->rotary_dim,
                          golden->is_interleaved},
            };
            struct error error = {""};
            cr_assert_eq(rotary_check(&rotary, &error), STATUS_OK, "%s", error.text);
            list[k]->rotary(NULL, &rotary);
            for (uint32_t i = 0; i < 6 * d; i++)
                cr_assert_float_eq(y[i], golden->y[i], 3e-7, "%s, %zu: %u is %.9g, not %.9g",
                                   list[k]->name, g, i, y[i], golden->y[i]);
        }
}

enum order { TOKENS_OUTSIDE, HEADS_OUTSIDE, N_ORDERS };

struct rotary_case {
    enum dtype dtype;
    enum order order;
    uint32_t head_dim, rotary_dim, n_tokens, n_heads;
    bool is_interleaved, has_positions, is_in_place;
};

/* A case with its tensors. */
struct turned {
    struct rotary_case test;
    struct rotary rotary;
    struct guarded x, y;
    size_t n; /* elements from the first to the last */
    float cosines[N_POSITIONS * HEAD_DIM_MAX / 2], sines[N_POSITIONS * HEAD_DIM_MAX / 2];
    uint32_t positions[N_POSITIONS * 4];
};

static size_t element(const struct rotary *rotary, uint32_t token, uint32_t head, uint32_t i)
{
    return token * rotary->x_token_stride + head * rotary->x_head_stride + i;
}

/* Gaps of a few elements between heads and between tokens. */
static void set_strides(struct turned *turned)
{
    const struct rotary_case *test = &turned->test;
    struct rotary *rotary = &turned->rotary;
    if (test->order == TOKENS_OUTSIDE) {
        rotary->x_head_stride = test->head_dim + 5;
        rotary->x_token_stride = test->n_heads * rotary->x_head_stride + 3;
    } else {
        rotary->x_token_stride = test->head_dim + 1;
        rotary->x_head_stride = test->n_tokens * rotary->x_token_stride + 2;
    }
    rotary->y_token_stride = rotary->x_token_stride;
    rotary->y_head_stride = rotary->x_head_stride;
}

static struct turned *turned_create(const struct rotary_case *test)
{
    struct turned *turned = calloc(1, sizeof *turned);
    struct rotary *rotary = &turned->rotary;
    uint32_t half = test->rotary_dim / 2;
    turned->test = *test;
    for (uint32_t i = 0; i < N_POSITIONS * half; i++) {
        float angle = 0.37f * (float)(i / half) / (float)(i % half + 1);
        turned->cosines[i] = cosf(angle);
        turned->sines[i] = sinf(angle);
    }
    for (uint32_t t = 0; t < test->n_tokens; t++)
        turned->positions[t] = (17 * t + 49) % N_POSITIONS;
    set_strides(turned);
    rotary->dtype = test->dtype;
    rotary->n_tokens = test->n_tokens;
    rotary->n_heads = test->n_heads;
    rotary->head_dim = test->head_dim;
    rotary->table = (struct rotary_table){turned->cosines, turned->sines, N_POSITIONS,
                                          test->rotary_dim, test->is_interleaved};
    rotary->positions = test->has_positions ? turned->positions : NULL;
    rotary->start = START;
    turned->n = element(rotary, test->n_tokens - 1, test->n_heads - 1, test->head_dim);
    turned->x = guarded_create(turned->n * dtype_bytes(test->dtype));
    turned->y = guarded_create(turned->n * dtype_bytes(test->dtype));
    for (uint32_t t = 0; t < test->n_tokens; t++)
        for (uint32_t h = 0; h < test->n_heads; h++)
            for (uint32_t i = 0; i < test->head_dim; i++)
                dtype_store(test->dtype, turned->x.data, element(rotary, t, h, i),
                            values_at(5, t, h * test->head_dim + i));
    rotary->x = turned->x.data;
    rotary->y = turned->y.data;
    return turned;
}

static void turned_destroy(struct turned *turned)
{
    guarded_destroy(&turned->x);
    guarded_destroy(&turned->y);
    free(turned);
}

static double expected_at(const struct turned *turned, uint32_t token, uint32_t head, uint32_t i)
{
    const struct rotary *rotary = &turned->rotary;
    const struct rotary_table *table = &rotary->table;
    enum dtype dtype = rotary->dtype;
    uint32_t half = table->rotary_dim / 2;
    if (i >= table->rotary_dim)
        return (double)dtype_load(dtype, rotary->x, element(rotary, token, head, i));
    uint32_t pair = table->is_interleaved ? i / 2 : i % half;
    bool is_high = table->is_interleaved ? i % 2 : i >= half;
    uint32_t low_index = table->is_interleaved ? 2 * pair : pair;
    uint32_t apart = table->is_interleaved ? 1 : half;
    uint32_t position = rotary->positions ? rotary->positions[token] : START + token;
    double c = (double)table->cos[position * half + pair];
    double s = (double)table->sin[position * half + pair];
    double low = (double)dtype_load(dtype, rotary->x, element(rotary, token, head, low_index));
    double high = (double)dtype_load(dtype, rotary->x,
                                     element(rotary, token, head, low_index + apart));
    return is_high ? high * c + low * s : low * c - high * s;
}

/* Half a step of the dtype and what float32 rounds on the way. */
static double room(enum dtype dtype, double value)
{
    static const double half_steps[] = {0x1p-24, 0x1p-8, 0x1p-11};
    return half_steps[dtype] * fabs(value) + (dtype == DTYPE_F32 ? 1e-6 : 2e-6);
}

static void assert_turned(const struct turned *turned, const char *name)
{
    const struct rotary *rotary = &turned->rotary;
    uint8_t *is_head = calloc(turned->n, 1);
    for (uint32_t t = 0; t < rotary->n_tokens; t++)
        for (uint32_t h = 0; h < rotary->n_heads; h++)
            for (uint32_t i = 0; i < rotary->head_dim; i++) {
                size_t at = element(rotary, t, h, i);
                double expected = expected_at(turned, t, h, i);
                double got = (double)dtype_load(rotary->dtype, turned->y.data, at);
                bool is_kept = i >= rotary->table.rotary_dim;
                cr_assert(fabs(got - expected) <= (is_kept ? 0 : room(rotary->dtype, expected)),
                          "%s, %s, %u of %u: token %u, head %u, %u is %.9g, not %.9g", name,
                          dtype_name(rotary->dtype), rotary->table.rotary_dim, rotary->head_dim, t,
                          h, i, got, expected);
                is_head[at] = 1;
            }
    size_t bytes = dtype_bytes(rotary->dtype);
    for (size_t at = 0; at < turned->n * bytes; at++)
        cr_assert(is_head[at / bytes] || ((uint8_t *)turned->y.data)[at] == 0xff,
                  "%s: element %zu between the heads was written", name, at / bytes);
    free(is_head);
}

static void check_case(const struct rotary_case *test)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n_list = kernels_list(list, KERNELS_MAX);
    struct turned *turned = turned_create(test);
    size_t bytes = turned->n * dtype_bytes(test->dtype);
    uint8_t *first = NULL;
    struct error error = {""};
    cr_assert_eq(rotary_check(&turned->rotary, &error), STATUS_OK, "%s", error.text);
    for (uint32_t k = 0; k < n_list; k++) {
        struct rotary rotary = turned->rotary;
        memset(turned->y.data, 0xff, bytes);
        if (test->is_in_place) {
            memcpy(turned->y.data, turned->x.data, bytes);
            rotary.x = turned->y.data;
        }
        list[k]->rotary(NULL, &rotary);
        assert_turned(turned, list[k]->name);
        if (k == 0 || rounds_products(list[k]->name))
            continue; /* the reference rounds float64 */
        if (first)
            cr_assert_arr_eq(turned->y.data, first, bytes, "%s", list[k]->name);
        first = first ? first : memcpy(malloc(bytes), turned->y.data, bytes);
    }
    free(first);
    turned_destroy(turned);
}

Test(rotary, every_shape_is_its_formula_and_the_same_on_every_set)
{
    static const uint32_t dims[][2] = {{8, 2},   {8, 8},    {24, 10},  {64, 64},
                                       {80, 32}, {128, 96}, {256, 256}};
    for (size_t d = 0; d < COUNT(dims); d++)
        for (enum dtype dtype = DTYPE_F32; dtype <= DTYPE_F16; dtype++)
            for (uint32_t bits = 0; bits < 16; bits++)
                check_case(&(struct rotary_case){
                    .dtype = dtype,
                    .order = bits & 1 ? HEADS_OUTSIDE : TOKENS_OUTSIDE,
                    .head_dim = dims[d][0],
                    .rotary_dim = dims[d][1],
                    .n_tokens = 3,
                    .n_heads = 2,
                    .is_interleaved = bits & 2,
                    .has_positions = bits & 4,
                    .is_in_place = bits & 8,
                });
}

Test(rotary, threads_and_repeats_change_no_bit)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n_list = kernels_list(list, KERNELS_MAX);
    struct thread_pool *pool;
    cr_assert_eq(thread_pool_create(3, false, &pool), STATUS_OK);
    for (uint32_t k = 0; k < n_list; k++) {
        struct turned *turned = turned_create(&(struct rotary_case){
            DTYPE_BF16, TOKENS_OUTSIDE, 64, 64, N_POSITIONS * 4, 3, false, true, false});
        size_t bytes = turned->n * 2;
        list[k]->rotary(NULL, &turned->rotary);
        uint8_t *alone = memcpy(malloc(bytes), turned->y.data, bytes);
        for (uint32_t repeat = 0; repeat < 2; repeat++) {
            memset(turned->y.data, 0xff, bytes);
            list[k]->rotary(pool, &turned->rotary);
            cr_assert_arr_eq(turned->y.data, alone, bytes, "%s", list[k]->name);
        }
        free(alone);
        turned_destroy(turned);
    }
    thread_pool_destroy(pool);
}

static void assert_refused(const struct rotary *bad, const char *words)
{
    struct error error = {""};
    cr_assert_eq(rotary_check(bad, &error), STATUS_INVALID_ARGUMENT, "%s", words);
    cr_assert(strstr(error.text, words), "\"%s\" is not in: %s", words, error.text);
}

static const float angles[2 * 8];
static const uint32_t far_positions[2] = {1, 2};
static float place[64];

/* Two tokens of two heads of sixteen, all turned, two positions. */
static const struct rotary good = {
    .x = place,
    .y = place,
    .x_token_stride = 32,
    .x_head_stride = 16,
    .y_token_stride = 32,
    .y_head_stride = 16,
    .n_tokens = 2,
    .n_heads = 2,
    .head_dim = 16,
    .table = {angles, angles, 2, 16, false},
};

Test(rotary, what_it_does_not_take_is_refused_by_name)
{
    struct rotary bad = good;
    struct error error;
    cr_assert_eq(rotary_check(&good, &error), STATUS_OK);
    bad.dtype = DTYPE_INT8;
    assert_refused(&bad, "dtype is 3");
    bad = good, bad.head_dim = 12;
    assert_refused(&bad, "head_dim is 12");
    bad = good, bad.head_dim = 520;
    assert_refused(&bad, "head_dim is 520");
    bad = good, bad.table.rotary_dim = 0;
    assert_refused(&bad, "rotary_dim is 0");
    bad = good, bad.table.rotary_dim = 7;
    assert_refused(&bad, "rotary_dim is 7");
    bad = good, bad.table.rotary_dim = 18;
    assert_refused(&bad, "rotary_dim is 18");
    bad = good, bad.table.sin = NULL;
    assert_refused(&bad, "sin is NULL");
    bad = good, bad.table.cos = NULL;
    assert_refused(&bad, "cos is NULL");
    bad = good, bad.x = NULL;
    assert_refused(&bad, "x is NULL");
    bad = good, bad.y = NULL;
    assert_refused(&bad, "y is NULL");
}

Test(rotary, strides_that_overlap_and_positions_outside_are_refused)
{
    struct rotary bad = good;
    bad.x_token_stride = 31;
    assert_refused(&bad, "x_token_stride 31");
    bad = good, bad.y_head_stride = 15;
    assert_refused(&bad, "y_head_stride 15");
    bad = good, bad.y_token_stride = 33;
    assert_refused(&bad, "y_token_stride 33 and x_token_stride 32");
    bad = good, bad.y_head_stride = 17, bad.y_token_stride = 33;
    assert_refused(&bad, "y_head_stride 17 and x_head_stride 16");
    bad = good, bad.start = 1;
    assert_refused(&bad, "start 1");
    bad = good, bad.start = UINT32_MAX;
    assert_refused(&bad, "start 4294967295");
    bad = good, bad.positions = far_positions;
    assert_refused(&bad, "positions[1] is 2");
}

/* Products that come out small in 64 bits. */
Test(rotary, strides_that_wrap_are_refused)
{
    struct rotary bad = good;
    bad.n_heads = 3, bad.x_head_stride = 1ull << 63;
    assert_refused(&bad, "x_head_stride 9223372036854775808: the size of 2 tokens of 3 heads does "
                         "not fit in 64 bits");
    bad = good, bad.n_tokens = 3, bad.y_token_stride = UINT64_MAX / 2 + 9;
    assert_refused(&bad, "y_token_stride 9223372036854775816");
    bad = good, bad.x_token_stride = UINT64_MAX / 4 - 8;
    assert_refused(&bad, "does not fit in 64 bits");
}

Test(rotary, heads_may_lie_outside_of_tokens_and_none_need_be_there)
{
    struct rotary fine = good;
    struct error error = {""};
    fine.x_token_stride = fine.y_token_stride = 16;
    fine.x_head_stride = fine.y_head_stride = 32;
    cr_assert_eq(rotary_check(&fine, &error), STATUS_OK, "%s", error.text);
    fine.n_tokens = 0;
    fine.x = NULL;
    cr_assert_eq(rotary_check(&fine, &error), STATUS_OK, "%s", error.text);
}
