/* what is not finite: a row that sees it tells it, a row that does not has the bits that it would have without it,
 * on every set. */
#include "tests/kernels/support/attention_list.h"
#include "tests/kernels/support/layer.h"
#include "tests/runner/one_thread.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

enum { LEN = 90, PROMPT = 80, WINDOW = 12, TOKEN = 37 };

static struct layer_rows plain, planted, told;
static struct rope *rope;
static const float sinks[LAYER_HEADS] = {0.5f, -1, 0, 2};
static uint8_t shows[LEN][LEN];
static float adds[LEN][LEN];

/* Masks that hide every third key of a row, but never the row's own. */
static void make_inputs(void)
{
    struct rope_config config = {.head_dim = LAYER_DIM, .positions_max = 256, .theta = 100};
    cr_assert_eq(rope_create(&config, &rope, NULL), STATUS_OK);
    for (uint32_t q = 0; q < LEN; q++)
        for (uint32_t k = 0; k < LEN; k++) {
            shows[q][k] = q == k || (q + k) % 3 != 0;
            adds[q][k] = shows[q][k] ? 0.25f * (float)(k % 5) : -INFINITY;
        }
}

static void free_inputs(void)
{
    rope_destroy(rope);
}

TestSuite(not_finite, .init = make_inputs, .fini = free_inputs, .description = ONE_THREAD);

static const struct kind {
    const char *name;
    struct attention_config config;
    bool is_turned;
} kinds[] = {
    {"plain", {0}, true},
    {"window", {.window = WINDOW}, true},
    {"cyclic", {.window = WINDOW, .is_cyclic = true}, true},
    {"sink tokens", {.window = WINDOW, .sink_tokens = 3}, true},
    {"learned sinks", {.sinks = sinks, .soft_cap = 3}, false},
    {"short", {.path = PATH_SHORT, .window = WINDOW}, false},
    {"unfused", {.path = PATH_UNFUSED, .bias.alibi_scale = 1}, false},
    {"shown", {.mask_input = MASK_INPUT_BOOL}, true},
    {"added", {.mask_input = MASK_INPUT_FLOAT, .path = PATH_UNFUSED}, true},
    {"F16", {.compute = DTYPE_F16, .cache = DTYPE_F16}, true},
    {"BF16", {.compute = DTYPE_BF16, .cache = DTYPE_BF16, .window = WINDOW}, true},
    {"math BF16", {.cache = DTYPE_BF16, .math = MATH_BF16}, true},
    {"math BF16, shown", {.math = MATH_BF16, .mask_input = MASK_INPUT_BOOL}, true},
    {"math FP16", {.cache = DTYPE_BF16, .math = MATH_FP16, .window = WINDOW}, true},
    {"math FP8",
     {.cache = DTYPE_BF16, .math = MATH_FP8, .k_scale = 0.01f, .v_scale = 0.01f, .q_scale = 0.01f},
     true},
    {"math INT8", {.cache = DTYPE_F16, .math = MATH_INT8}, true},
};

enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

static void run(const struct attention_backend *backend, const struct kind *kind,
                struct layer_planted what, uint32_t chunk, struct layer_rows *rows_out)
{
    struct attention_config config = kind->config;
    config.rope = kind->is_turned ? rope : NULL;
    struct layer layer = layer_open(backend, config, false);
    const struct layer_run how = {.len = LEN, .prompt_len = PROMPT, .chunk = chunk};
    layer.planted = what;
    layer.mask = config.mask_input == MASK_INPUT_BOOL    ? (const void *)shows
                 : config.mask_input == MASK_INPUT_FLOAT ? (const void *)adds
                                                         : NULL;
    layer.mask_query_stride = layer.mask ? LEN : 0;
    memset(rows_out, 0, sizeof *rows_out);
    layer_run(&layer, &how, rows_out);
    layer_close(&layer);
}

/* told is the reference's: a head's elements there are finite, or one is not. */
static bool is_told(uint32_t row, uint32_t head)
{
    bool is_finite = isfinite(told.lse[row][head]);
    for (uint32_t i = 0; i < LAYER_DIM; i++)
        is_finite = is_finite && isfinite(told.output[row][head * LAYER_DIM + i]);
    return !is_finite;
}

static void check_row(const char *set, const struct kind *kind, uint32_t row, uint32_t head)
{
    const uint32_t at = head * LAYER_DIM;
    if (is_told(row, head)) {
        cr_assert(!isfinite(planted.output[row][at]), "%s, %s: row %u, head %u says %g", set,
                  kind->name, row, head, (double)planted.output[row][at]);
        cr_assert_eq(isfinite(told.lse[row][head]), isfinite(planted.lse[row][head]),
                     "%s, %s: row %u, head %u has lse %g, not %g", set, kind->name, row, head,
                     (double)planted.lse[row][head], (double)told.lse[row][head]);
        return;
    }
    cr_assert_arr_eq(planted.output[row] + at, plain.output[row] + at, LAYER_DIM * sizeof(float),
                     "%s, %s: row %u, head %u does not see it", set, kind->name, row, head);
    cr_assert_eq(planted.lse[row][head], plain.lse[row][head], "%s, %s: row %u, head %u: lse", set,
                 kind->name, row, head);
}

/* Sanitizers see the same code in either of the two. */
static bool is_left_out(uint32_t set, uint32_t chunk)
{
#ifdef KVFERRY_SANITIZED
    return (chunk == 0) == (set % 2 == 0);
#else
    (void)set, (void)chunk;
    return false;
#endif
}

/* At least one row tells it, and one does not. */
static void check(const struct kind *kind, struct layer_planted what)
{
    const struct kernels *list[KERNELS_MAX];
    const uint32_t n = attention_list(list);
    uint32_t n_told = 0;
    run(list[0]->attention, kind, what, 0, &told);
    for (uint32_t row = 0; row < LEN; row++)
        n_told += is_told(row, 0);
    cr_assert(n_told > 0 && n_told < LEN, "%s: %u rows of the reference", kind->name, n_told);
    for (uint32_t k = 1; k < n; k++)
        for (uint32_t chunk = 0; chunk <= 16; chunk += 16) {
            if (is_left_out(k, chunk))
                continue;
            run(list[k]->attention, kind, (struct layer_planted){0}, chunk, &plain);
            run(list[k]->attention, kind, what, chunk, &planted);
            for (uint32_t row = 0; row < LEN; row++)
                for (uint32_t head = 0; head < LAYER_HEADS; head++)
                    check_row(list[k]->name, kind, row, head);
        }
}

Test(not_finite, a_row_whose_scores_are_all_nan_is_nan_and_no_other_is)
{
    for (uint32_t i = 0; i < N_KINDS; i++) {
        check(&kinds[i], (struct layer_planted){.token = TOKEN, .q = NAN});
        check(&kinds[i], (struct layer_planted){.token = PROMPT + 3, .q = NAN});
    }
}

/* Of MATH_INT8 the keys of a tile are rounded together. */
Test(not_finite, k_is_told_by_the_rows_that_see_it_alone)
{
    for (uint32_t i = 0; i < N_KINDS; i++)
        if (kinds[i].config.math != MATH_INT8)
            check(&kinds[i], (struct layer_planted){.token = TOKEN, .k = NAN});
}

Test(not_finite, v_is_told_by_the_rows_that_see_it_alone)
{
    for (uint32_t i = 0; i < N_KINDS; i++) {
        check(&kinds[i], (struct layer_planted){.token = TOKEN, .v = NAN});
        if (kinds[i].config.math == MATH_FP8 || kinds[i].config.math == MATH_FP16)
            continue; /* an infinity becomes the largest number of the type */
        check(&kinds[i], (struct layer_planted){.token = TOKEN, .v = INFINITY});
        check(&kinds[i], (struct layer_planted){.token = PROMPT + 3, .v = -INFINITY});
    }
}

/* In an F16 cache it is written as infinity. */
Test(not_finite, v_that_is_too_large_for_its_cache_is_told_by_the_rows_that_see_it_alone)
{
    const struct kind kind = {"F16 cache", {.cache = DTYPE_F16}, true};
    check(&kind, (struct layer_planted){.token = TOKEN, .v = 1e5f});
}
