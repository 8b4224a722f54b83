#include "kernels/cpu/attention/quantized.h"

#include <assert.h>

enum { GROUP = 4, WEIGHT_SCALE = 256 }; /* GROUP: dims that one instruction adds up */

static int8_t count_of(float x)
{
    return isnan(x) ? 0 : (int8_t)nearbyintf(x);
}

void quantized_load(uint32_t n_rows, uint32_t head_dim, const float *q, struct quantized_q q8)
{
    assert(n_rows <= QUANTIZED_ROWS_MAX && head_dim % GROUP == 0);
    for (uint32_t r = 0; r < n_rows; r++, q += head_dim) {
        /* A NaN makes the unit NaN, and so all results of this row. */
        float unit = row_largest(q, head_dim) / 127;
        q8.units[r] = unit;
        for (uint32_t i = 0; i < head_dim; i++)
            q8.rows[(size_t)r * head_dim + i] = unit == 0 ? 0 : count_of(q[i] / unit);
    }
}

/* Subtracts from K its mean over the existing keys, and rounds it. Returns the unit. */
static float quantize_k(uint32_t first, uint32_t n_keys, uint32_t head_dim, const float *k_t,
                        struct quantized_q q8)
{
    float largest = 0;
    for (uint32_t dim = 0; dim < head_dim; dim++) {
        const float *k = k_t + (size_t)dim * TILE_KEYS;
        float sum = 0;
        for (uint32_t j = first; j < n_keys; j++)
            sum += k[j];
        float mean = sum / (float)(n_keys - first);
        for (uint32_t j = first; j < n_keys; j++)
            largest = larger_magnitude(largest, k[j] - mean);
        q8.mean[dim] = mean;
    }
    const float inverse = largest == 0 ? 0 : 127 / largest;
    for (uint32_t dim = 0; dim < head_dim; dim += GROUP) {
        uint32_t words[TILE_KEYS] = {0};
        for (uint32_t i = 0; i < GROUP; i++) {
            const float *k = k_t + (size_t)(dim + i) * TILE_KEYS;
            const float mean = q8.mean[dim + i];
            for (uint32_t j = first; j < n_keys; j++)
                words[j] |= (uint32_t)(uint8_t)count_of((k[j] - mean) * inverse) << 8 * i;
        }
        memcpy(q8.k + (size_t)dim * TILE_KEYS, words, sizeof words);
    }
    return largest / 127;
}

/* sums[key] = q k over the dims. All numbers are whole, so all three versions give the same. */
static void dot_row(uint32_t head_dim, const int8_t *q, const int8_t *k, int32_t *sums)
{
#ifdef __AVX2__
    __m256i acc[TILE_KEYS / 8];
    UNROLL
    for (uint32_t n = 0; n < TILE_KEYS / 8; n++)
        acc[n] = _mm256_setzero_si256();
    for (uint32_t dim = 0; dim < head_dim; dim += GROUP, k += TILE_KEYS * GROUP) {
        int32_t four;
        memcpy(&four, q + dim, sizeof four);
        const __m256i query = _mm256_set1_epi32(four);
        const __m256i magnitude = _mm256_abs_epi8(query);
        UNROLL
        for (uint32_t n = 0; n < TILE_KEYS / 8; n++) {
            __m256i key = _mm256_loadu_si256((const __m256i *)(const void *)(k + (size_t)n * 32));
            /* two products of 127 each fit 16 bits */
            __m256i pairs = _mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(key, query));
            acc[n] = _mm256_add_epi32(acc[n], _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
        }
    }
    UNROLL
    for (uint32_t n = 0; n < TILE_KEYS / 8; n++)
        _mm256_storeu_si256((__m256i *)(void *)(sums + (size_t)n * 8), acc[n]);
#else
    memset(sums, 0, TILE_KEYS * sizeof *sums);
    for (uint32_t dim = 0; dim < head_dim; dim += GROUP, k += TILE_KEYS * GROUP)
        for (uint32_t j = 0; j < TILE_KEYS; j++)
            for (uint32_t i = 0; i < GROUP; i++)
                sums[j] += q[dim + i] * k[j * GROUP + i];
#endif
}

#ifdef __AVX512F__
#define VNNI __attribute__((target("avx512vnni,avx512f,avx512bw,avx512dq,avx512vl")))

/* The instruction needs Q without a sign, so 128 is added to Q; shift subtracts it again. */
VNNI static void dot_row_vnni(uint32_t head_dim, const int8_t *q, const int8_t *k,
                              const int32_t *shift, int32_t *sums)
{
    __m512i acc[TILE_KEYS / 16];
    for (uint32_t n = 0; n < TILE_KEYS / 16; n++)
        acc[n] = _mm512_loadu_si512(shift + (size_t)n * 16);
    for (uint32_t dim = 0; dim < head_dim; dim += GROUP, k += TILE_KEYS * GROUP) {
        uint32_t four;
        memcpy(&four, q + dim, sizeof four);
        const __m512i query = _mm512_set1_epi32((int32_t)(four ^ 0x80808080u));
        for (uint32_t n = 0; n < TILE_KEYS / 16; n++)
            acc[n] = _mm512_dpbusd_epi32(acc[n], query, _mm512_loadu_si512(k + (size_t)n * 64));
    }
    for (uint32_t n = 0; n < TILE_KEYS / 16; n++)
        _mm512_storeu_si512(sums + (size_t)n * 16, acc[n]);
}

/* -128 times the sum of each key. */
static void find_shift(uint32_t head_dim, const int8_t *k, int32_t *shift_out)
{
    static const int8_t ones[HEAD_DIM_MAX] = {[0 ... HEAD_DIM_MAX - 1] = 1};
    dot_row(head_dim, ones, k, shift_out);
    for (uint32_t j = 0; j < TILE_KEYS; j++)
        shift_out[j] *= -128;
}

static void dot_rows(uint32_t n_rows, uint32_t head_dim, struct quantized_q q8, int32_t *sums)
{
    int32_t shift[TILE_KEYS];
    bool has_vnni = __builtin_cpu_supports("avx512vnni");
    if (has_vnni)
        find_shift(head_dim, q8.k, shift);
    for (uint32_t r = 0; r < n_rows; r++, sums += TILE_KEYS)
        if (has_vnni)
            dot_row_vnni(head_dim, q8.rows + (size_t)r * head_dim, q8.k, shift, sums);
        else
            dot_row(head_dim, q8.rows + (size_t)r * head_dim, q8.k, sums);
}
#else
static void dot_rows(uint32_t n_rows, uint32_t head_dim, struct quantized_q q8, int32_t *sums)
{
    for (uint32_t r = 0; r < n_rows; r++, sums += TILE_KEYS)
        dot_row(head_dim, q8.rows + (size_t)r * head_dim, q8.k, sums);
}
#endif

void quantized_qk(uint32_t n_rows, uint32_t first, uint32_t n_keys, uint32_t head_dim,
                  const float *q, const float *k_t, struct quantized_q q8, float *scores)
{
    int32_t sums[QUANTIZED_ROWS_MAX * TILE_KEYS];
    assert(n_rows <= QUANTIZED_ROWS_MAX && first < n_keys);
    float k_unit = quantize_k(first, n_keys, head_dim, k_t, q8);
    dot_rows(n_rows, head_dim, q8, sums);
    for (uint32_t r = 0; r < n_rows; r++) {
        float shift = 0;
        for (uint32_t dim = 0; dim < head_dim; dim++)
            shift += q[(size_t)r * head_dim + dim] * q8.mean[dim];
        float unit = q8.units[r] * k_unit;
        for (uint32_t j = 0; j < TILE_KEYS; j++)
            scores[(size_t)r * TILE_KEYS + j] = (float)sums[r * TILE_KEYS + j] * unit + shift;
    }
}

float quantized_ceiling(float score)
{
    const float log_2 = 0.693147181f;
    return ceilf(score / log_2) * log_2;
}

void quantized_weights(uint32_t n, float *weights)
{
    for (uint32_t j = 0; j < n; j++)
        weights[j] = round_e4m3(weights[j] * WEIGHT_SCALE) / WEIGHT_SCALE;
}
