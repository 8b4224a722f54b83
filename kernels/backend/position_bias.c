#include "kernels/backend/position_bias.h"

#include <assert.h>
#include <math.h>

/* 2^(-8 i / n), rounded to float32. */
static float slope(uint32_t i, uint32_t n)
{
    return (float)exp2(-8.0 * i / n);
}

void alibi_slopes(uint32_t n_heads, float *slopes_out)
{
    assert(n_heads > 0);
    uint32_t n_power = 1;
    while (n_power <= n_heads / 2)
        n_power *= 2;
    for (uint32_t head = 0; head < n_heads; head++)
        slopes_out[head] = head < n_power ? slope(head + 1, n_power)
                                          : slope(2 * (head - n_power) + 1, 2 * n_power);
}

/* Computed in float32 as in Transformers, so that distances at the edge of a bucket get the same bucket as in training. */
static uint32_t far_bucket(uint64_t distance, uint32_t n_buckets, uint32_t n_exact,
                           uint32_t distance_max)
{
    assert(n_exact > 0 && n_exact < n_buckets && distance >= n_exact);
    float ratio = logf((float)distance / (float)n_exact) /
                  (float)log((double)distance_max / n_exact);
    float bucket = (float)n_exact + floorf(ratio * (float)(n_buckets - n_exact));
    return bucket < (float)(n_buckets - 1) ? (uint32_t)bucket : n_buckets - 1;
}

uint32_t t5_bucket(int64_t distance, uint32_t n_buckets, uint32_t distance_max,
                   bool is_bidirectional)
{
    uint32_t first = 0;
    if (is_bidirectional) {
        n_buckets /= 2;
        first = distance > 0 ? n_buckets : 0;
    } else if (distance > 0) {
        return 0;
    }
    uint64_t away = (uint64_t)(distance < 0 ? -distance : distance);
    uint32_t n_exact = n_buckets / 2;
    assert(n_exact > 0 && distance_max > n_exact);
    if (away < n_exact)
        return first + (uint32_t)away;
    return first + far_bucket(away, n_buckets, n_exact, distance_max);
}
