/*
 * attend_half - a block of rows under MATH_BF16 or MATH_FP16: Q, K, V and the weights rounded to
 * sixteen bits, to nearest even.
 *
 *     attend_half          rounded in place, then the float32 loops of tile: the same bits in every set
 *     attend_half_packed   the math that a set has instructions for: pairs of elements side by side, and
 *                          one product C = A B of half_amx.h or half_dot.h
 *
 * Scores and outputs are float32, in the places that the other maths have them in.
 */
#pragma once

#include "kernels/cpu/attention/attend_state.h"

struct half_math {
    /* Around the others, on the same thread. */
    void (*start)(void);
    void (*finish)(void);
    /* Rounds scratch->q. */
    void (*load)(const struct attend *attend);
    /* The scores of a tile of which the first n_keys keys are there. */
    void (*scores)(const struct attend *attend, uint32_t n_keys, const struct seen *seen,
                   const struct tile_rows *k, struct tile_ahead *ahead);
    /* partial->out = partial->out * keep + P V, the weights being rounded here. */
    void (*outputs)(const struct attend *attend, const struct seen *seen, const float *keep,
                    const struct tile_rows *v, struct tile_ahead *ahead, struct partial *partial);
};

/* NULL: math is neither of the two. */
#define half_math_of ISA(half_math_of)
const struct half_math *half_math_of(enum attention_math math);

#if defined __AVX512FP16__
#define PACKED_MATH MATH_FP16
#elif defined __AVX512BF16__
#define PACKED_MATH MATH_BF16
#endif

#ifdef PACKED_MATH
#define half_math_packed ISA(half_math_packed)
extern const struct half_math half_math_packed; /* of PACKED_MATH */
#endif
