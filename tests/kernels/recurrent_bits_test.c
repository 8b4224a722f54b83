/* recurrent: a sequence has the same bits, in its rows and its state, however it is divided into calls, in whatever company, with
 * threads and on every set; a NaN stays in its sequence. */
#include "base/thread_pool.h"
#include "kernels/recurrent.h"
#include "tests/kernels/support/rows.h"

#include <stdlib.h>

enum {
    N_SEQUENCES = 5,
    N_HEADS = 4,
    N_KEY_HEADS = 2,
    KEY_DIM = 40,
    VALUE_DIM = 72,
    WIDTH = 4,
    N_KEYS = N_KEY_HEADS * KEY_DIM,
    N_VALUES = N_HEADS * VALUE_DIM,
    N_CHANNELS = 2 * N_KEYS + N_VALUES,
    N_CONV = (WIDTH - 1) * N_CHANNELS,
    N_STATE = N_HEADS * KEY_DIM * VALUE_DIM,
    LEN_MAX = 23,
    N_ROWS_MAX = N_SEQUENCES * LEN_MAX,
};

static const uint32_t lens[N_SEQUENCES] = {23, 1, 7, 12, 2};

/* What a layer makes of all sequences, and what it leaves. */
struct result {
    float y[N_SEQUENCES][LEN_MAX][N_VALUES];
    float conv[N_SEQUENCES][N_CONV], state[N_SEQUENCES][N_STATE];
};

/* The rows of one call, and how many of each sequence came before. */
struct call {
    uint32_t done[N_SEQUENCES], lens[N_SEQUENCES];
    float x[N_ROWS_MAX * N_CHANNELS], mixed[N_ROWS_MAX * N_CHANNELS];
    float a[N_ROWS_MAX * N_HEADS], b[N_ROWS_MAX * N_HEADS];
    float z[N_ROWS_MAX * N_VALUES], y[N_ROWS_MAX * N_VALUES];
};

static float weights[N_CHANNELS * WIDTH], of_heads[N_HEADS], of_values[VALUE_DIM];

static void fill_weights(void)
{
    for (uint32_t i = 0; i < N_CHANNELS * WIDTH; i++)
        weights[i] = values_at(1, 0, i);
    for (uint32_t i = 0; i < N_HEADS; i++)
        of_heads[i] = values_at(2, 0, i);
    for (uint32_t i = 0; i < VALUE_DIM; i++)
        of_values[i] = values_at(3, 0, i);
}

/* bad: a sequence whose third row has a NaN; N_SEQUENCES: none. */
static uint32_t fill_rows(struct call *call, uint32_t bad)
{
    uint32_t row = 0;
    for (uint32_t s = 0; s < N_SEQUENCES; s++)
        for (uint32_t t = call->done[s]; t < call->done[s] + call->lens[s]; t++, row++) {
            const uint64_t id = s * 1000 + t;
            for (uint32_t i = 0; i < N_CHANNELS; i++)
                call->x[row * N_CHANNELS + i] = values_at(10, id, i);
            if (s == bad && t == 2)
                call->x[row * N_CHANNELS + N_KEYS] = NAN; /* of k */
            for (uint32_t i = 0; i < N_VALUES; i++)
                call->z[row * N_VALUES + i] = values_at(11, id, i);
            for (uint32_t i = 0; i < N_HEADS; i++) {
                call->a[row * N_HEADS + i] = values_at(12, id, i);
                call->b[row * N_HEADS + i] = values_at(13, id, i);
            }
        }
    return row;
}

static void call_run(const struct kernels *kernels, struct thread_pool *pool, struct call *call,
                     uint32_t bad, struct result *result)
{
    float *convs[N_SEQUENCES], *states[N_SEQUENCES * N_HEADS];
    bool begins[N_SEQUENCES];
    const uint32_t n_rows = fill_rows(call, bad);
    for (uint32_t s = 0; s < N_SEQUENCES; s++) {
        convs[s] = result->conv[s];
        begins[s] = call->done[s] == 0;
        for (uint32_t h = 0; h < N_HEADS; h++)
            states[s * N_HEADS + h] = result->state[s] + (size_t)h * KEY_DIM * VALUE_DIM;
    }
    struct causal_conv conv = {call->x,     N_CHANNELS,  weights,    DTYPE_F32,  NULL,
                               DTYPE_F32,   call->mixed, N_CHANNELS, N_CHANNELS, WIDTH,
                               N_SEQUENCES, call->lens,  begins,     convs};
    kernels->causal_conv(pool, &conv);
    struct delta_gate gate = {call->a,   call->b, N_HEADS, N_HEADS, of_heads, of_heads, DTYPE_F32,
                              DTYPE_F32, call->a, call->b, N_HEADS, N_HEADS,  n_rows,   N_HEADS};
    kernels->delta_gate(pool, &gate);
    struct delta_rule rule = {.q = call->mixed,
                              .k = call->mixed + N_KEYS,
                              .v = call->mixed + (size_t)2 * N_KEYS,
                              .q_stride = N_CHANNELS,
                              .k_stride = N_CHANNELS,
                              .v_stride = N_CHANNELS,
                              .decay = call->a,
                              .beta = call->b,
                              .decay_stride = N_HEADS,
                              .beta_stride = N_HEADS,
                              .o = call->y,
                              .o_stride = N_VALUES,
                              .n_heads = N_HEADS,
                              .n_key_heads = N_KEY_HEADS,
                              .key_dim = KEY_DIM,
                              .value_dim = VALUE_DIM,
                              .norm_eps = 1e-6f,
                              .n_sequences = N_SEQUENCES,
                              .lens = call->lens,
                              .begins = begins,
                              .states = states};
    kernels->delta_rule(pool, &rule);
    struct gated_norm norm = {call->y, call->z,  N_VALUES, N_VALUES, of_values, DTYPE_F32,
                              call->y, N_VALUES, n_rows,   N_HEADS,  VALUE_DIM, 1e-6f};
    kernels->gated_norm(pool, &norm);
    uint32_t row = 0;
    for (uint32_t s = 0; s < N_SEQUENCES; s++)
        for (uint32_t t = 0; t < call->lens[s]; t++, row++)
            memcpy(result->y[s][call->done[s] + t], call->y + (size_t)row * N_VALUES,
                   sizeof result->y[s][0]);
}

/* seed 0: one call with all rows, on zeros. Otherwise calls with some rows of some sequences, on states of NaN: those that begin count as
 * zeros. */
static struct result *layer_run(const struct kernels *kernels, struct thread_pool *pool,
                                uint64_t seed, uint32_t bad)
{
    struct result *result = calloc(1, sizeof *result);
    struct call *call = calloc(1, sizeof *call);
    cr_assert(result && call);
    if (seed > 0) {
        memset(result->conv, 0xff, sizeof result->conv);
        memset(result->state, 0xff, sizeof result->state);
    }
    fill_weights();
    for (uint32_t n_left = 1; n_left > 0;) {
        n_left = 0;
        for (uint32_t s = 0; s < N_SEQUENCES; s++) {
            const uint32_t left = lens[s] - call->done[s];
            call->lens[s] = seed == 0 ? left : values_below(&seed, left < 6 ? left + 1 : 6);
        }
        call_run(kernels, pool, call, bad, result);
        for (uint32_t s = 0; s < N_SEQUENCES; s++) {
            call->done[s] += call->lens[s];
            n_left += lens[s] - call->done[s];
        }
    }
    free(call);
    return result;
}

static void assert_equal(const struct result *got, const struct result *expected, const char *what,
                         const char *name)
{
    for (uint32_t s = 0; s < N_SEQUENCES; s++) {
        cr_assert_arr_eq(got->y[s], expected->y[s], lens[s] * sizeof got->y[s][0],
                         "%s, %s: rows of sequence %u", name, what, s);
        cr_assert_arr_eq(got->conv[s], expected->conv[s], sizeof got->conv[s],
                         "%s, %s: rows before, of sequence %u", name, what, s);
        cr_assert_arr_eq(got->state[s], expected->state[s], sizeof got->state[s],
                         "%s, %s: state of sequence %u", name, what, s);
    }
}

Test(recurrent_bits, calls_company_threads_and_sets_change_no_bit)
{
    const struct kernels *list[KERNELS_MAX];
    const uint32_t n_list = kernels_list(list, KERNELS_MAX);
    struct result *common = NULL;
    struct thread_pool *pool;
    cr_assert_eq(thread_pool_create(3, false, &pool), STATUS_OK);
    for (uint32_t k = 0; k < n_list; k++) {
        struct result *whole = layer_run(list[k], NULL, 0, N_SEQUENCES);
        for (uint64_t seed = 1; seed <= 4; seed++) {
            struct result *divided = layer_run(list[k], seed % 2 ? pool : NULL, seed, N_SEQUENCES);
            assert_equal(divided, whole, "in parts", list[k]->name);
            free(divided);
        }
        struct result *shared = layer_run(list[k], pool, 0, N_SEQUENCES);
        assert_equal(shared, whole, "with threads", list[k]->name);
        free(shared);
        if (has_common_bits(list[k]) && common)
            assert_equal(whole, common, "against another set", list[k]->name);
        if (has_common_bits(list[k]) && !common)
            common = whole;
        else
            free(whole);
    }
    free(common);
    thread_pool_destroy(pool);
}

Test(recurrent_bits, a_NaN_stays_in_its_sequence)
{
    enum { BAD = 2 };
    const struct kernels *list[KERNELS_MAX];
    const uint32_t n_list = kernels_list(list, KERNELS_MAX);
    for (uint32_t k = 0; k < n_list; k++) {
        struct result *good = layer_run(list[k], NULL, 0, N_SEQUENCES);
        struct result *bad = layer_run(list[k], NULL, 3, BAD);
        cr_assert(isnan(bad->y[BAD][2][0]) && isnan(bad->state[BAD][0]), "%s", list[k]->name);
        cr_assert_arr_eq(bad->y[BAD], good->y[BAD], 2 * sizeof good->y[BAD][0], "%s: rows before",
                         list[k]->name);
        memcpy(bad->y[BAD], good->y[BAD], sizeof good->y[BAD]);
        memcpy(bad->conv[BAD], good->conv[BAD], sizeof good->conv[BAD]);
        memcpy(bad->state[BAD], good->state[BAD], sizeof good->state[BAD]);
        assert_equal(bad, good, "beside a NaN", list[k]->name);
        free(good);
        free(bad);
    }
}
