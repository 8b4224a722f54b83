/*
 * attend_half - computes a block of rows with MATH_BF16 or MATH_FP16: Q, K, V and the weights are rounded to
 * sixteen bits, to nearest even.
 *
 *     attend_half          rounds in place, then uses the float32 loops of tile: the same bits in every set
 *     attend_half_packed   for the math that a set has instructions for: pairs of elements side by side, and
 *                          one product C = A B of half_amx.h or half_dot.h
 *
 * Scores and outputs are float32, in the same places as with the other maths.
 */
#pragma once

#include "kernels/cpu/attention/attend_state.h"

struct half_math {
    /* start and finish are called before and after the others, on the same thread. */
    void (*start)(void);
    void (*finish)(void);
    /* Rounds scratch->q. */
    void (*load)(const struct attend *attend);
    /* Computes the scores of a tile that has n_keys keys. */
    void (*scores)(const struct attend *attend, uint32_t n_keys, const struct seen *seen,
                   const struct tile_rows *k, struct tile_ahead *ahead);
    /* partial->out = partial->out * keep + P V; rounds the weights first. */
    void (*outputs)(const struct attend *attend, const struct seen *seen, const float *keep,
                    const struct tile_rows *v, struct tile_ahead *ahead, struct partial *partial);
};

/* NULL: math is not MATH_BF16 or MATH_FP16. */
#define half_math_of ISA(half_math_of)
const struct half_math *half_math_of(enum attention_math math);

#if defined __AVX512FP16__
#define PACKED_MATH MATH_FP16
#elif defined __AVX512BF16__
#define PACKED_MATH MATH_BF16
#endif

#ifdef PACKED_MATH
#define half_math_packed ISA(half_math_packed)
extern const struct half_math half_math_packed; /* for PACKED_MATH */
#endif
