/*
 * values - test data that depends on its coordinates only, and measures of difference.
 */
#pragma once

#include "kernels/dtype.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

static inline uint64_t values_hash(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* Roughly normal, from -3 to 3. */
static inline float values_at(uint64_t seed, uint64_t row, uint64_t column)
{
    uint64_t h = values_hash(seed * 0x10001u + values_hash(row * 0x1000003u + column));
    int sum = (int)(h & 0xffff) + (int)(h >> 16 & 0xffff) - (int)(h >> 32 & 0xffff) -
              (int)(h >> 48);
    return (float)sum * (1.5f / 65536);
}

static inline uint32_t values_below(uint64_t *state, uint32_t n)
{
    *state = values_hash(*state);
    return (uint32_t)(*state >> 32) % n;
}

/* Largest difference against the largest expected value; infinite if a NaN is among them. */
static inline double values_error(const float *got, const float *expected, size_t n)
{
    double worst = 0;
    double largest = 1e-30;
    for (size_t i = 0; i < n; i++) {
        if (isnan(got[i]) || isnan(expected[i]))
            return INFINITY;
        worst = fmax(worst, fabs((double)got[i] - (double)expected[i]));
        largest = fmax(largest, fabs((double)expected[i]));
    }
    return worst / largest;
}
