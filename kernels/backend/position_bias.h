/*
 * position_bias - the formulas of ALiBi and of T5's buckets, shared by all back ends.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* ALiBi (Press et al. 2022): 2^(-8 i / n) for head i = 1 .. n if n is a power of two. Otherwise as in BLOOM:
 * the slopes for p, the largest power of two below n, then every other slope for 2 p. */
void alibi_slopes(uint32_t n_heads, float *slopes_out);

/* T5 (Raffel et al. 2020), distance = key index - query index: half of the buckets stand for one distance each; the
 * others are logarithmic, up to distance_max. If not bidirectional, keys after the query share bucket 0: a causal
 * mask hides them. */
uint32_t t5_bucket(int64_t distance, uint32_t n_buckets, uint32_t distance_max,
                   bool is_bidirectional);
