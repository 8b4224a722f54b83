#include "kernels/cpu/quantized.h"

enum { GROUP = 4, WEIGHT_SCALE = 256 }; /* GROUP: dims that one instruction adds up */

static int8_t round_int8(float value)
{
    return (int8_t)nearbyintf(value);
}

static float largest_magnitude(const float *x, uint32_t n)
{
    float largest = 0;
    for (uint32_t i = 0; i < n; i++)
        largest = fabsf(x[i]) > largest ? fabsf(x[i]) : largest;
    return largest;
}

void quantized_load(uint32_t n_rows, uint32_t head_dim, const float *q, struct quantized_q q8)
{
    for (uint32_t r = 0; r < n_rows; r++, q += head_dim) {
        float unit = largest_magnitude(q, head_dim) / 127;
        q8.units[r] = unit;
        for (uint32_t i = 0; i < head_dim; i++)
            q8.rows[(size_t)r * head_dim + i] = unit == 0 ? 0 : round_int8(q[i] / unit);
    }
}

/* K less its mean over the keys that are there, rounded. Returns the unit. */
static float quantize_k(uint32_t n_keys, uint32_t head_dim, const float *k_t, struct quantized_q q8)
{
    float largest = 0;
    for (uint32_t dim = 0; dim < head_dim; dim++) {
        const float *k = k_t + (size_t)dim * TILE_KEYS;
        float sum = 0;
        for (uint32_t j = 0; j < n_keys; j++)
            sum += k[j];
        float mean = sum / (float)n_keys;
        for (uint32_t j = 0; j < n_keys; j++)
            largest = fabsf(k[j] - mean) > largest ? fabsf(k[j] - mean) : largest;
        q8.mean[dim] = mean;
    }
    float unit = largest / 127;
    for (uint32_t dim = 0; dim < head_dim; dim++) {
        const float *k = k_t + (size_t)dim * TILE_KEYS;
        int8_t *to = q8.k + (size_t)dim / GROUP * TILE_KEYS * GROUP + dim % GROUP;
        for (uint32_t j = 0; j < TILE_KEYS; j++)
            to[j * GROUP] = unit == 0 || j >= n_keys ? 0 : round_int8((k[j] - q8.mean[dim]) / unit);
    }
    return unit;
}

/* sums[key] = q k over the dims */
static void dot_row(uint32_t head_dim, const int8_t *q, const int8_t *k, int32_t *sums)
{
    memset(sums, 0, TILE_KEYS * sizeof *sums);
    for (uint32_t dim = 0; dim < head_dim; dim += GROUP, k += TILE_KEYS * GROUP)
        for (uint32_t j = 0; j < TILE_KEYS; j++) {
            int32_t sum = 0;
            for (uint32_t i = 0; i < GROUP; i++)
                sum += q[dim + i] * k[j * GROUP + i];
            sums[j] += sum;
        }
}

void quantized_qk(uint32_t n_rows, uint32_t n_keys, uint32_t head_dim, const float *q,
                  const float *k_t, struct quantized_q q8, float *scores)
{
    float k_unit = quantize_k(n_keys, head_dim, k_t, q8);
    for (uint32_t r = 0; r < n_rows; r++) {
        int32_t sums[TILE_KEYS];
        float shift = 0;
        dot_row(head_dim, q8.rows + (size_t)r * head_dim, q8.k, sums);
        for (uint32_t dim = 0; dim < head_dim; dim++)
            shift += q[(size_t)r * head_dim + dim] * q8.mean[dim];
        float unit = q8.units[r] * k_unit;
        for (uint32_t j = 0; j < TILE_KEYS; j++)
            scores[(size_t)r * TILE_KEYS + j] = (float)sums[j] * unit + shift;
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
