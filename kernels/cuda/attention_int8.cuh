/*
 * attention_int8 - rounds Q, a tile of K and V for MATH_INT8 and MATH_INT8_PV_FP8, for all kernels of contexts:
 *
 *     q k = q_unit k_unit (counts of q) (counts of k - mean of its tile) + q mean
 *
 * Counts are whole numbers up to 127 in float32, which holds every sum of 256 of their products exactly, in any order.
 * Where a lane is an element of the head, all lanes of a warp must call the function.
 */
#pragma once

#include "kernels/cuda/attention_row.cuh"

#define INT8_TILE_KEYS 64u
#define INT8_LARGEST   127.f
#define E4M3_LARGEST   448.f

DEVICE bool is_int8(uint32_t math)
{
    return math == MATH_IS_INT8 || math == MATH_IS_INT8_PV_FP8;
}

DEVICE float largest_of_warp(float x)
{
    for (int mask = 16; mask > 0; mask /= 2)
        x = fmaxf(x, shuffle_xor(x, mask));
    return x;
}

DEVICE float count_of(float x, float unit)
{
    return unit == 0 ? 0 : rintf(x / unit);
}

/* ---- Q: a lane an element ---- */

DEVICE float unit_of_query(const struct attention_parameters &p, const float *q)
{
    float largest = 0;
    for (uint32_t i = threadIdx.x % WARP; i < p.head_dim; i += WARP)
        largest = fmaxf(largest, fabsf(q[i]));
    return largest_of_warp(largest) / INT8_LARGEST;
}

/* Writes the counts of a row to [head_dim]. Returns their unit. */
DEVICE float count_query(const struct attention_parameters &p, const float *q, float *counts)
{
    const float unit = unit_of_query(p, q);
    for (uint32_t i = threadIdx.x % WARP; i < p.head_dim; i += WARP)
        counts[i] = count_of(q[i], unit);
    return unit;
}

/* The product of q and the mean, in every lane. */
DEVICE float query_with_mean(const struct attention_parameters &p, const float *q,
                             const float *mean)
{
    float sum = 0;
    for (uint32_t i = threadIdx.x % WARP; i < p.head_dim; i += WARP)
        sum = multiply_add(q[i], mean[i], sum);
    for (int mask = 16; mask > 0; mask /= 2)
        sum += shuffle_xor(sum, mask);
    return sum;
}

/* ---- K: a tile ---- */

/* The keys of the tile that has the key `first`, without keys that the window hides from all queries of the step: their
 * slots may hold anything. */
DEVICE struct key_range keys_of_tile(const struct attention_parameters &p,
                                     const struct cuda_sequence &s, uint32_t first)
{
    const uint32_t begin = first / INT8_TILE_KEYS * INT8_TILE_KEYS, end = begin + INT8_TILE_KEYS;
    const uint32_t oldest = oldest_in_sight(p, s, s.first_query);
    return {begin < oldest ? oldest : begin, end < s.kv_len ? end : s.kv_len};
}

/* One element over the keys of a tile. farthest: the largest distance from the mean. */
struct tile_element {
    float mean, farthest;
};

DEVICE struct tile_element element_of_tile(const struct attention_parameters &p,
                                           const struct cuda_sequence &s, uint32_t kv_head,
                                           struct key_range keys, uint32_t i)
{
    struct tile_element element = {0, 0};
    for (uint32_t j = keys.begin; j < keys.end; j++)
        element.mean += key_element(p, find_key(p, s, 0, kv_head, j).k, MATH_IS_INT8,
                                    s.key_index + j, i);
    element.mean /= (float)(keys.end - keys.begin);
    for (uint32_t j = keys.begin; j < keys.end; j++) {
        const float k = key_element(p, find_key(p, s, 0, kv_head, j).k, MATH_IS_INT8,
                                    s.key_index + j, i);
        element.farthest = fmaxf(element.farthest, fabsf(k - element.mean));
    }
    return element;
}

/* ---- V: a lane an element ---- */

/* The unit of a row that is rounded to E4M3; 0: V is not rounded. */
DEVICE float unit_of_value(const struct attention_parameters &p, const uint8_t *v, uint32_t math)
{
    if (math != MATH_IS_INT8_PV_FP8 || p.cache == DTYPE_E4M3)
        return 0;
    float largest = 0;
    for (uint32_t i = threadIdx.x % WARP; i < p.head_dim; i += WARP)
        largest = fmaxf(largest, fabsf(value_element(p, v, math, i)));
    return largest_of_warp(largest) / E4M3_LARGEST;
}

DEVICE float value_in_units(float x, float unit)
{
    return unit == 0 ? x : round_e4m3(x / unit) * unit;
}
