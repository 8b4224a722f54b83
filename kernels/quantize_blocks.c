/* Two blocks go side by side, and four elements of each, in vectors that any compiler has; so sums have one order on all machines. What
 * has one value for a block has it in all four of its lanes. */
#include "kernels/quantize_blocks.h"

#include "kernels/blocks.h"
#include "kernels/cpu/parallel.h"
#include "kernels/widen_weights.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wpsabi" /* all that has vectors is inlined */

enum {
    N = QUANTIZE_BLOCK,
    OF_BLOCK = 4,
    BLOCKS = 2,
    WORK_OF_WEIGHT = 8,
    COLUMNS = BLOCK_ELEMENTS_MAX
};

typedef float lanes __attribute__((vector_size(4 * OF_BLOCK * BLOCKS)));
typedef int32_t masks __attribute__((vector_size(4 * OF_BLOCK * BLOCKS)));

#define F16_MAX    65504.0F
#define F16_NORMAL 6.2e-5F /* above the smallest that has all bits */
#define Q8_MAX     127.0F
#define Q4_MAX     15.0F
#define ROUNDING_SHIFT                                                                             \
    12582912.0F /* 1.5 * 2^23: adding and taking it away rounds to nearest even */

/* The elements of two blocks. */
struct pair {
    lanes v[N / OF_BLOCK];
};

INLINE lanes each(float value)
{
    return (lanes){0} + value;
}

INLINE lanes pick(masks mask, lanes yes, lanes no)
{
    return (lanes)((mask & (masks)yes) | (~mask & (masks)no));
}

INLINE lanes fewer(lanes a, lanes b)
{
    return pick(a < b, a, b);
}

INLINE lanes more(lanes a, lanes b)
{
    return pick(a > b, a, b);
}

/* Lanes l + 2 and l + 1 of the same block. */
INLINE lanes other_half(lanes v)
{
    return __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5);
}

INLINE lanes other_lane(lanes v)
{
    return __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6);
}

/* (v0 + v2) + (v1 + v3) of each block. */
INLINE lanes sum_of(lanes v)
{
    const lanes half = v + other_half(v);
    return half + other_lane(half);
}

/* To the nearest whole number of least to most. */
INLINE lanes nearest(lanes v, float least, float most)
{
    v = fewer(more(v, each(least)), each(most));
    return (v + ROUNDING_SHIFT) - ROUNDING_SHIFT;
}

static float clamp(float value, float low, float high)
{
    const float above = value > low ? value : low;
    return above < high ? above : high;
}

/* The values as F16 holds them; never infinite. Where F16 has its 11 bits, they are what is left when the others are pushed out
 * (Dekker 1971, the splitting). */
INLINE lanes as_f16(lanes value)
{
    const lanes pushed = value * (float)((1 << 13) + 1);
    lanes halves = pushed - (pushed - value);

    for (unsigned l = 0; l < OF_BLOCK * BLOCKS; l += OF_BLOCK) {
        const float magnitude = fabsf(value[l]);
        if (magnitude > F16_NORMAL && magnitude < F16_MAX / 2)
            continue;
        const float half = f16_to_f32(f16_from_f32(clamp(value[l], -F16_MAX, F16_MAX)));
        for (unsigned i = l; i < l + OF_BLOCK; i++)
            halves[i] = half;
    }
    return halves;
}

static void store_u16(uint8_t *at, uint16_t value)
{
    at[0] = (uint8_t)value;
    at[1] = (uint8_t)(value >> 8);
}

/* 1 / d, or 0. */
INLINE lanes inverse_of(lanes d)
{
    return (lanes)((masks)(each(1) / d) & (d > each(0)));
}

INLINE void range_of(const struct pair *values, lanes *low_out, lanes *high_out)
{
    lanes low = values->v[0], high = low;

    for (unsigned i = 1; i < N / OF_BLOCK; i++) {
        low = fewer(values->v[i], low);
        high = more(values->v[i], high);
    }
    low = fewer(low, other_half(low));
    high = more(high, other_half(high));
    *low_out = fewer(low, other_lane(low));
    *high_out = more(high, other_lane(high));
}

/* Q4_1 */

/* A factor, an offset, and the sum of squared errors with the whole numbers that are nearest then. */
struct fit {
    lanes d, m, error;
};

INLINE void fit_numbers(const struct pair *values, lanes d, lanes m, struct fit *fit,
                        struct pair *numbers)
{
    lanes errors = each(0);

    fit->d = as_f16(d);
    fit->m = as_f16(m);
    const lanes inverse = inverse_of(fit->d);
    for (unsigned i = 0; i < N / OF_BLOCK; i++) {
        numbers->v[i] = nearest((values->v[i] - fit->m) * inverse, 0, Q4_MAX);
        const lanes error = values->v[i] - (fit->d * numbers->v[i] + fit->m);
        errors += error * error;
    }
    fit->error = sum_of(errors);
}

/* The line through the numbers and their values with the smallest squared errors. Returns where there is one: not all numbers are
 * the same. */
INLINE masks regress(const struct pair *values, const struct pair *numbers, lanes *d_out,
                     lanes *m_out)
{
    lanes q = each(0), qq = q, x = q, qx = q;

    for (unsigned i = 0; i < N / OF_BLOCK; i++) {
        q += numbers->v[i];
        qq += numbers->v[i] * numbers->v[i];
        x += values->v[i];
        qx += numbers->v[i] * values->v[i];
    }
    const lanes sum_q = sum_of(q), sum_x = sum_of(x);
    const lanes spread = sum_of(qq) * (float)N - sum_q * sum_q;
    *d_out = (sum_of(qx) * (float)N - sum_q * sum_x) / spread;
    *m_out = (sum_x - *d_out * sum_q) / (float)N;
    return (spread > each(0)) & (*d_out > each(0));
}

INLINE void keep_better(const struct fit *fit, masks may, struct fit *best)
{
    const masks is_better = (fit->error < best->error) & may;
    best->d = pick(is_better, fit->d, best->d);
    best->m = pick(is_better, fit->m, best->m);
    best->error = pick(is_better, fit->error, best->error);
}

/* From a range, and by least squares from there. */
INLINE void try_range(const struct pair *values, lanes low, lanes high, struct fit *best)
{
    struct pair numbers;
    struct fit fit;
    lanes d, m;

    fit_numbers(values, (high - low) / Q4_MAX, low, &fit, &numbers);
    keep_better(&fit, ~(masks){0}, best);
    const masks has_line = regress(values, &numbers, &d, &m);
    fit_numbers(values, pick(has_line, d, fit.d), pick(has_line, m, fit.m), &fit, &numbers);
    keep_better(&fit, has_line, best);
}

INLINE void round_q4_1(const struct pair *values, uint8_t *const blocks[BLOCKS])
{
    struct fit best = {.error = each(INFINITY)}, fit;
    struct pair numbers;
    lanes low, high;

    range_of(values, &low, &high);
    try_range(values, low, high, &best);
    const lanes cut = (high - low) /
                      (2 * Q4_MAX); /* the ends lie beyond the first and the last number */
    try_range(values, low + cut, high - cut, &best);
    fit_numbers(values, best.d, best.m, &fit, &numbers);
    for (unsigned b = 0; b < BLOCKS; b++) {
        uint8_t whole[N];
        for (unsigned i = 0; i < N; i++)
            whole[i] = (uint8_t)numbers.v[i / OF_BLOCK][b * OF_BLOCK + i % OF_BLOCK];
        store_u16(blocks[b], f16_from_f32(best.d[b * OF_BLOCK]));
        store_u16(blocks[b] + 2, f16_from_f32(best.m[b * OF_BLOCK]));
        for (unsigned i = 0; i < N / 2; i++)
            blocks[b][4 + i] = (uint8_t)(whole[i] | whole[i + N / 2] << 4);
    }
}

/* Q8_0 */

INLINE void round_q8_0(const struct pair *values, uint8_t *const blocks[BLOCKS])
{
    lanes low, high;

    range_of(values, &low, &high);
    const lanes d = as_f16(more(-low, high) / Q8_MAX);
    const lanes inverse = inverse_of(d);
    for (unsigned b = 0; b < BLOCKS; b++)
        store_u16(blocks[b], f16_from_f32(d[b * OF_BLOCK]));
    for (unsigned i = 0; i < N; i += OF_BLOCK) {
        const lanes numbers = nearest(values->v[i / OF_BLOCK] * inverse, -Q8_MAX, Q8_MAX);
        for (unsigned l = 0; l < OF_BLOCK * BLOCKS; l++)
            blocks[l / OF_BLOCK][2 + i + l % OF_BLOCK] = (uint8_t)(int8_t)numbers[l];
    }
}

struct task {
    enum dtype dtype, source_dtype;
    uint32_t n_in;
    const void *source;
    uint8_t *blocks;
};

INLINE void round_pair(enum dtype dtype, const float *one, const float *two,
                       uint8_t *const blocks[BLOCKS])
{
    struct pair values;

    for (unsigned i = 0; i < N / OF_BLOCK; i++) {
        float both[OF_BLOCK * BLOCKS];
        memcpy(both, one + i * OF_BLOCK, OF_BLOCK * sizeof *both);
        memcpy(both + OF_BLOCK, two + i * OF_BLOCK, OF_BLOCK * sizeof *both);
        memcpy(&values.v[i], both, sizeof both);
    }
    if (dtype == DTYPE_Q8_0)
        round_q8_0(&values, blocks);
    else
        round_q4_1(&values, blocks);
}

/* Of an odd number of blocks the last one goes beside itself. */
INLINE void round_blocks(const struct task *task, uint32_t row)
{
    const size_t block_bytes = dtype_array_bytes(task->dtype, N);
    uint8_t *block = task->blocks + row * dtype_array_bytes(task->dtype, task->n_in);
    float values[COLUMNS];

    for (uint32_t at = 0; at < task->n_in; at += COLUMNS) {
        const uint32_t n = task->n_in - at < COLUMNS ? task->n_in - at : COLUMNS;
        widen_weights(task->source_dtype, task->source, (size_t)row * task->n_in + at, n, values);
        for (uint32_t i = 0; i < n; i += BLOCKS * N, block += BLOCKS * block_bytes) {
            const bool is_alone = i + N == n;
            uint8_t *const blocks[BLOCKS] = {block, is_alone ? block : block + block_bytes};
            round_pair(task->dtype, values + i, is_alone ? values + i : values + i + N, blocks);
        }
    }
}

static void round_row(void *arg, uint32_t row)
{
    round_blocks(arg, row);
}

FOR_AVX2 static void round_row_avx2(void *arg, uint32_t row)
{
    round_blocks(arg, row);
}

void quantize_blocks(struct thread_pool *pool, enum dtype dtype, uint32_t n_out, uint32_t n_in,
                     enum dtype source_dtype, const void *source, void *blocks_out)
{
    struct task task = {dtype, source_dtype, n_in, source, blocks_out};

    assert(dtype == DTYPE_Q8_0 || dtype == DTYPE_Q4_1);
    assert(n_in % N == 0 && (source_dtype <= DTYPE_F16 || dtype_is_blocks(source_dtype)));
    parallel_run(pool, (uint64_t)n_out * n_in * WORK_OF_WEIGHT, n_out,
                 has_avx2() ? round_row_avx2 : round_row, &task);
}
