/*
 * position_bias - the formulas of ALiBi and of T5's buckets, shared by all back ends.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* ALiBi (Press et al. 2022): 2^(-8 i / n) for head i = 1 .. n if n is a power of two. Else, as BLOOM
 * does it: those of the largest power of two p below n, then every other one of those of 2 p. */
void alibi_slopes(uint32_t n_heads, float *slopes_out);

/* T5 (Raffel et al. 2020), distance = key index - query index: half of the buckets are exact, the
 * others grow with the logarithm up to distance_max. Not bidirectional: keys behind the query, which
 * a causal mask hides, share bucket 0. */
uint32_t t5_bucket(int64_t distance, uint32_t n_buckets, uint32_t distance_max,
                   bool is_bidirectional);
