/*
 * attend_bf16 - a block of rows under MATH_BF16: Q, K, V and the weights rounded to BF16, to nearest
 * even, their products added in float32.
 *
 *     attend_bf16_rounded   sets without BF16 instructions: rounded in place, then the float32 loops of
 *                           tile; the same bits in all of them
 *     attend_bf16_packed    sets with them: pairs of elements side by side, and one product
 *                           C = A B of bf16_amx.h or bf16_dot.h
 *
 * Scores and outputs are float32, in the places that the other maths have them in.
 */
#pragma once

#include "kernels/cpu/attend.h"

#define attend_bf16_start   ISA(attend_bf16_start)
#define attend_bf16_finish  ISA(attend_bf16_finish)
#define attend_bf16_load    ISA(attend_bf16_load)
#define attend_bf16_scores  ISA(attend_bf16_scores)
#define attend_bf16_outputs ISA(attend_bf16_outputs)

/* Around the others, on the same thread. */
void attend_bf16_start(void);
void attend_bf16_finish(void);

/* Rounds scratch->q. */
void attend_bf16_load(const struct attend *attend);
/* The scores of a tile of which the first n_keys keys are there. */
void attend_bf16_scores(const struct attend *attend, uint32_t n_keys, const struct seen *seen,
                        const struct tile_rows *k, struct tile_ahead *ahead);
/* partial->out = partial->out * keep + P V, the weights being rounded here. */
void attend_bf16_outputs(const struct attend *attend, const struct seen *seen, const float *keep,
                         const struct tile_rows *v, struct tile_ahead *ahead,
                         struct partial *partial);
