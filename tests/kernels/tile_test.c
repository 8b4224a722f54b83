/* The two products of a tile are rounded once at every step, as fmaf does, whatever the numbers: by scalar's inner loops for
 * machines that have FMA, and by those for machines that have not. */
#ifdef __x86_64__
#define ISA_NAME scalar_plain
#include "kernels/cpu/attention/tile.h"

#include <criterion/criterion.h>
#include <float.h>
#include <math.h>

enum { ROWS = TILE_ROWS_MAX, STEPS = 136, N_RUNS = 60 };

/* c = a b + c over the steps, for each row and lane. */
struct chains {
    uint32_t n_rows, n_steps;
    float a[ROWS][STEPS];
    float b[STEPS][TILE_KEYS];
    float c[ROWS][TILE_KEYS];
    uint64_t state;
};

/* What numbers are drawn: binades first .. first + n - 1 of exponent bits (0: subnormal), of which mask leaves bits. */
static const struct kind {
    const char *name;
    uint32_t a_first, a_n, b_first, b_n, c_first, c_n, a_mask, b_mask;
} kinds[] = {
    {"wide", 115, 12, 115, 12, 110, 12, UINT32_MAX, UINT32_MAX},
    {"short b", 115, 12, 115, 12, 110, 12, UINT32_MAX, 0xffff0000},
    {"short", 120, 6, 120, 6, 118, 6, 0xffff0000, 0xfffe0000},
    {"many binades", 60, 67, 100, 30, 90, 40, UINT32_MAX, UINT32_MAX},
    {"about the least normal", 60, 6, 60, 8, 0, 4, UINT32_MAX, UINT32_MAX},
    {"short, about the least normal", 60, 6, 60, 8, 0, 4, UINT32_MAX, 0xffff0000},
    {"subnormal", 0, 2, 0, 160, 0, 30, UINT32_MAX, UINT32_MAX},
    {"products below any float", 0, 60, 0, 60, 0, 1, UINT32_MAX, UINT32_MAX},
    {"about the largest", 180, 6, 180, 6, 245, 10, UINT32_MAX, UINT32_MAX},
    {"too large", 185, 6, 185, 10, 200, 50, UINT32_MAX, UINT32_MAX},
    {"any", 0, 256, 0, 256, 0, 256, UINT32_MAX, UINT32_MAX},
};

void tile_qk_scalar_fma(uint32_t n_rows, uint32_t n_keys, uint32_t head_dim, const float *q,
                        const float *k_t, struct tile_ahead *ahead, float *scores);
void tile_pv_scalar_fma(uint32_t n_rows, const struct tile_weighted *op);

static bool has_fma(void)
{
    return __builtin_cpu_supports("fma");
}

static uint32_t draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 32);
}

static float draw_float(uint64_t *state, uint32_t first, uint32_t n, uint32_t mask)
{
    const uint32_t drawn = draw(state), binade = first + draw(state) % n;
    const uint32_t bits = ((drawn & 0x807fffff) | binade << 23) & mask;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void fill(const struct kind *kind, struct chains *chains)
{
    uint64_t *state = &chains->state;
    for (uint32_t i = 0; i < chains->n_steps; i++) {
        for (uint32_t r = 0; r < chains->n_rows; r++)
            chains->a[r][i] = draw_float(state, kind->a_first, kind->a_n, kind->a_mask);
        for (uint32_t lane = 0; lane < TILE_KEYS; lane++)
            chains->b[i][lane] = draw_float(state, kind->b_first, kind->b_n, kind->b_mask);
    }
}

/* Makes b of a step such that sums of it and c are halfway between two floats, or miss that by less than a double tells. */
static void aim_halfway(uint32_t step, struct chains *chains)
{
    const bool is_exact = draw(&chains->state) % 2;
    for (uint32_t r = 0; r < chains->n_rows; r++)
        chains->a[r][step] = is_exact ? 1 : 1 + FLT_EPSILON;
    for (uint32_t lane = 0; lane < TILE_KEYS; lane++) {
        const float c = chains->c[lane % chains->n_rows][lane];
        if (!isfinite(c) || c == 0 || ilogbf(c) < -100)
            continue;
        const float half = ldexpf(is_exact ? 1 : 1 - FLT_EPSILON, ilogbf(c) - 24);
        chains->b[step][lane] = draw(&chains->state) % 2 ? half : -half;
    }
}

/* Every eighth step aims, and is computed. */
static void compute(bool aims, struct chains *chains)
{
    for (uint32_t i = 0; i < chains->n_steps; i++) {
        if (aims && i % 8 == 7)
            aim_halfway(i, chains);
        for (uint32_t r = 0; r < chains->n_rows; r++)
            for (uint32_t lane = 0; lane < TILE_KEYS; lane++)
                chains->c[r][lane] = fmaf(chains->a[r][i], chains->b[i][lane], chains->c[r][lane]);
    }
}

static void expect_same(const char *name, float got, float expected)
{
    if (!isnan(got) || !isnan(expected))
        cr_assert(memcmp(&got, &expected, sizeof got) == 0, "%s: %a, not %a", name, (double)got,
                  (double)expected);
}

static void expect_scores(const char *name, uint32_t n_keys, const float *scores,
                          const struct chains *chains)
{
    for (uint32_t r = 0; r < chains->n_rows; r++)
        for (uint32_t key = 0; key < n_keys; key++)
            expect_same(name, scores[r * TILE_KEYS + key], chains->c[r][key]);
}

static void check_qk(const struct kind *kind, bool aims, uint32_t n_unseen, struct chains *chains)
{
    const uint32_t n_keys = TILE_KEYS - n_unseen;
    static float q[ROWS * STEPS], scores[ROWS * TILE_KEYS];
    struct tile_ahead ahead = {.n_strips = 0};
    memset(chains->c, 0, sizeof chains->c);
    fill(kind, chains);
    compute(aims, chains);
    for (uint32_t r = 0; r < chains->n_rows; r++)
        memcpy(q + (size_t)r * chains->n_steps, chains->a[r], chains->n_steps * sizeof *q);
    tile_qk(chains->n_rows, n_keys, chains->n_steps, q, chains->b[0], &ahead, scores);
    expect_scores(kind->name, n_keys, scores, chains);
    if (!has_fma())
        return;
    tile_qk_scalar_fma(chains->n_rows, n_keys, chains->n_steps, q, chains->b[0], &ahead, scores);
    expect_scores("fma", n_keys, scores, chains);
}

/* Keys first .. 63. */
static void check_pv(const struct kind *kind, bool aims, uint32_t first, struct chains *chains)
{
    static float before[ROWS * TILE_KEYS], out[ROWS * TILE_KEYS], weights[ROWS * TILE_KEYS];
    static float values[TILE_KEYS][TILE_KEYS];
    const float keep[ROWS] = {1, 0.5f, 0, 0.75f, 1};
    struct tile_ahead ahead = {.n_strips = 0};
    struct tile_rows v = {.dtype = DTYPE_F32};
    chains->n_steps = TILE_KEYS - first;
    fill(kind, chains);
    for (uint32_t r = 0; r < chains->n_rows; r++)
        for (uint32_t dim = 0; dim < TILE_KEYS; dim++) {
            const float c = draw_float(&chains->state, kind->c_first, kind->c_n, UINT32_MAX);
            before[r * TILE_KEYS + dim] = c;
            chains->c[r][dim] = c * keep[r];
        }
    compute(aims, chains);
    for (uint32_t r = 0; r < chains->n_rows; r++)
        memcpy(weights + (size_t)r * TILE_KEYS + first, chains->a[r],
               chains->n_steps * sizeof *weights);
    memcpy(values[first], chains->b, chains->n_steps * sizeof values[0]);
    for (uint32_t strip = 0; strip < TILE_STRIPS; strip++) {
        v.strips[strip] = (const char *)values[strip * STRIP_KEYS];
        v.strides[strip] = sizeof values[0];
    }
    const struct tile_weighted op = {&v, &ahead, weights, keep, out, first, TILE_KEYS, TILE_KEYS};
    for (int with_fma = 0; with_fma <= has_fma(); with_fma++) {
        memcpy(out, before, sizeof out);
        (with_fma ? tile_pv_scalar_fma : tile_pv)(chains->n_rows, &op);
        for (uint32_t r = 0; r < chains->n_rows; r++)
            for (uint32_t dim = 0; dim < TILE_KEYS; dim++)
                expect_same(kind->name, out[r * TILE_KEYS + dim], chains->c[r][dim]);
    }
}

static void check(void (*check_one)(const struct kind *, bool, uint32_t, struct chains *))
{
    static struct chains chains;
    chains.state = 1;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (uint32_t run = 0; run < N_RUNS; run++) {
            chains.n_rows = 1 + draw(&chains.state) % ROWS;
            chains.n_steps = 8 * (1 + draw(&chains.state) % (STEPS / 8));
            check_one(&kinds[k], run % 2, draw(&chains.state) % TILE_KEYS, &chains);
        }
}

Test(tile, scores_are_rounded_once_at_every_step)
{
    check(check_qk);
}

Test(tile, outputs_are_rounded_once_at_every_step)
{
    check(check_pv);
}
#endif
