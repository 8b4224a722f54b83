/* Four elements of a block go side by side, in vectors that any compiler has; so sums have one order on all machines. */
#include "kernels/quantize_blocks.h"

#include "kernels/blocks.h"
#include "kernels/cpu/parallel.h"

#include <assert.h>
#include <math.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum { N = QUANTIZE_BLOCK, LANES = 4, WORK_OF_WEIGHT = 8, COLUMNS = BLOCK_ELEMENTS_MAX };

typedef float lanes __attribute__((vector_size(4 * LANES)));
typedef int32_t masks __attribute__((vector_size(4 * LANES)));

#define F16_MAX    65504.0F
#define F16_NORMAL 6.2e-5F /* above the smallest that has all bits */
#define Q8_MAX     127.0F
#define Q4_MAX     15.0F
#define ROUNDING_SHIFT                                                                             \
    12582912.0F /* 1.5 * 2^23: adding and taking it away rounds to nearest even */

static float clamp(float value, float low, float high)
{
    const float above = value > low ? value : low;
    return above < high ? above : high;
}

/* The value as F16 holds it; never infinite. Where F16 has its 11 bits, they are what is left when the others are pushed out
 * (Dekker 1971, the splitting). */
static float as_f16(float value)
{
    const float magnitude = fabsf(value);

    if (magnitude > F16_NORMAL && magnitude < F16_MAX / 2) {
        const float pushed = value * (float)((1 << 13) + 1);
        return pushed - (pushed - value);
    }
    return f16_to_f32(f16_from_f32(clamp(value, -F16_MAX, F16_MAX)));
}

static void store_u16(uint8_t *at, uint16_t value)
{
    at[0] = (uint8_t)value;
    at[1] = (uint8_t)(value >> 8);
}

/* Q4_1 */

/* A factor, an offset, the whole numbers that are nearest with them, and the sum of squared errors. */
struct fit {
    float d, m, error;
    float numbers[N];
};

static float sum_lanes(lanes v)
{
    return (v[0] + v[2]) + (v[1] + v[3]);
}

static lanes load(const float *values)
{
    lanes v;
    memcpy(&v, values, sizeof v);
    return v;
}

static lanes fewer(lanes a, lanes b)
{
#ifdef __SSE2__
    return (lanes)_mm_min_ps((__m128)a, (__m128)b);
#else
    const masks mask = a < b;
    return (lanes)((mask & (masks)a) | (~mask & (masks)b));
#endif
}

static lanes more(lanes a, lanes b)
{
#ifdef __SSE2__
    return (lanes)_mm_max_ps((__m128)a, (__m128)b);
#else
    const masks mask = a > b;
    return (lanes)((mask & (masks)a) | (~mask & (masks)b));
#endif
}

/* To the nearest whole number of least to most. */
static lanes nearest(lanes v, float least, float most)
{
    const lanes none = {0};
    v = fewer(more(v, none + least), none + most);
    return (v + ROUNDING_SHIFT) - ROUNDING_SHIFT;
}

static void fit_numbers(const float *values, float d, float m, struct fit *fit)
{
    lanes errors = {0};

    fit->d = as_f16(d);
    fit->m = as_f16(m);
    const float inverse = fit->d > 0 ? 1 / fit->d : 0;
    for (unsigned i = 0; i < N; i += LANES) {
        const lanes v = load(values + i), numbers = nearest((v - fit->m) * inverse, 0, Q4_MAX);
        const lanes error = v - (fit->d * numbers + fit->m);
        memcpy(fit->numbers + i, &numbers, sizeof numbers);
        errors += error * error;
    }
    fit->error = sum_lanes(errors);
}

/* The line through the numbers and their values with the smallest squared errors. False: all numbers are the same. */
static bool regress(const float *values, const struct fit *fit, float *d_out, float *m_out)
{
    lanes q = {0}, qq = {0}, x = {0}, qx = {0};

    for (unsigned i = 0; i < N; i += LANES) {
        const lanes numbers = load(fit->numbers + i), v = load(values + i);
        q += numbers;
        qq += numbers * numbers;
        x += v;
        qx += numbers * v;
    }
    const float sum_q = sum_lanes(q), sum_x = sum_lanes(x);
    const float spread = N * sum_lanes(qq) - sum_q * sum_q;
    if (!(spread > 0))
        return false;
    *d_out = (N * sum_lanes(qx) - sum_q * sum_x) / spread;
    *m_out = (sum_x - *d_out * sum_q) / N;
    return *d_out > 0;
}

/* From a range, and twice by least squares from there. */
static void try_range(const float *values, float low, float high, struct fit *best)
{
    struct fit fit;
    float d = (high - low) / Q4_MAX, m = low;

    for (unsigned step = 0; step < 2; step++) {
        fit_numbers(values, d, m, &fit);
        if (fit.error < best->error)
            *best = fit;
        if (step == 0 && !regress(values, &fit, &d, &m))
            return;
    }
}

static void range_of(const float *values, float *low_out, float *high_out)
{
    lanes low = load(values), high = low;

    for (unsigned i = LANES; i < N; i += LANES) {
        const lanes v = load(values + i);
        low = fewer(v, low);
        high = more(v, high);
    }
    *low_out = low[0];
    *high_out = high[0];
    for (unsigned l = 1; l < LANES; l++) {
        *low_out = low[l] < *low_out ? low[l] : *low_out;
        *high_out = high[l] > *high_out ? high[l] : *high_out;
    }
}

static void round_q4_1(const float *values, uint8_t *block)
{
    struct fit best = {.error = INFINITY};
    float low, high;

    range_of(values, &low, &high);
    try_range(values, low, high, &best);
    const float cut = (high - low) /
                      (2 * Q4_MAX); /* the ends lie beyond the first and the last number */
    try_range(values, low + cut, high - cut, &best);
    store_u16(block, f16_from_f32(best.d));
    store_u16(block + 2, f16_from_f32(best.m));
    for (unsigned i = 0; i < N / 2; i++)
        block[4 + i] = (uint8_t)((unsigned)best.numbers[i] | (unsigned)best.numbers[i + N / 2]
                                                                 << 4);
}

/* Q8_0 */

static void round_q8_0(const float *values, uint8_t *block)
{
    float low, high;

    range_of(values, &low, &high);
    const float d = as_f16(fmaxf(-low, high) / Q8_MAX);
    const float inverse = d > 0 ? 1 / d : 0;
    store_u16(block, f16_from_f32(d));
    for (unsigned i = 0; i < N; i += LANES) {
        const lanes numbers = nearest(load(values + i) * inverse, -Q8_MAX, Q8_MAX);
        for (unsigned l = 0; l < LANES; l++)
            block[2 + i + l] = (uint8_t)(int8_t)numbers[l];
    }
}

struct task {
    enum dtype dtype, source_dtype;
    uint32_t n_in;
    const void *source;
    uint8_t *blocks;
};

/* n elements from first on, both multiples of 32; of blocks of 256 elements first is a multiple of that. */
static void widen(const struct task *task, size_t first, uint32_t n, float *values)
{
    if (dtype_is_blocks(task->source_dtype)) {
        const uint8_t *source = (const uint8_t *)task->source +
                                dtype_array_bytes(task->source_dtype, first);
        blocks_to_f32(task->source_dtype, source, n, values);
        return;
    }
    if (task->source_dtype == DTYPE_F32) {
        memcpy(values, (const float *)task->source + first, n * sizeof *values);
        return;
    }
    const uint16_t *halves = (const uint16_t *)task->source + first;
    if (task->source_dtype == DTYPE_BF16)
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t bits = (uint32_t)halves[i] << 16;
            memcpy(&values[i], &bits, sizeof bits);
        }
    else
        for (uint32_t i = 0; i < n; i++)
            values[i] = f16_to_f32(halves[i]);
}

static void round_row(void *arg, uint32_t row)
{
    const struct task *task = arg;
    const size_t block_bytes = dtype_array_bytes(task->dtype, N);
    uint8_t *block = task->blocks + row * dtype_array_bytes(task->dtype, task->n_in);
    float values[COLUMNS];

    for (uint32_t at = 0; at < task->n_in; at += COLUMNS) {
        const uint32_t n = task->n_in - at < COLUMNS ? task->n_in - at : COLUMNS;
        widen(task, (size_t)row * task->n_in + at, n, values);
        for (uint32_t i = 0; i < n; i += N, block += block_bytes) {
            if (task->dtype == DTYPE_Q8_0)
                round_q8_0(values + i, block);
            else
                round_q4_1(values + i, block);
        }
    }
}

void quantize_blocks(struct thread_pool *pool, enum dtype dtype, uint32_t n_out, uint32_t n_in,
                     enum dtype source_dtype, const void *source, void *blocks_out)
{
    struct task task = {dtype, source_dtype, n_in, source, blocks_out};

    assert(dtype == DTYPE_Q8_0 || dtype == DTYPE_Q4_1);
    assert(n_in % N == 0 && (source_dtype <= DTYPE_F16 || dtype_is_blocks(source_dtype)));
    parallel_run(pool, (uint64_t)n_out * n_in * WORK_OF_WEIGHT, n_out, round_row, &task);
}
