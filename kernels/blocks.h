/*
 * blocks - weights in blocks: those of GGML, as GGUF files store them, and two of ours.
 *
 *     type    elements  bytes   an element
 *     Q8_0        32      34    d q                       q of 8 bits
 *     Q4_0        32      18    d (q - 8)                 4 bits
 *     Q4_1        32      20    d q + m
 *     Q5_0        32      22    d (q - 16)                5 bits
 *     Q5_1        32      24    d q + m
 *     Q2_K       256      84    (d s) q - (m t)           2 bits; s, t of 4 bits for each 16 elements
 *     Q3_K       256     110    (d (s - 32)) q            3 bits less 4; s of 6 bits for each 16
 *     Q4_K       256     144    (d s) q - (m t)           4 bits; s, t of 6 bits for each 32
 *     Q5_K       256     176    (d s) q - (m t)           5 bits
 *     Q6_K       256     210    (d s) (q - 32)            6 bits; s of 8 bits for each 16
 *     MXFP4       32      17    2^(e - 127) E2M1          OCP MX
 *     Q4_ZERO     32      21    d (q - z)                 d is F32, z a byte of 0 to 15; q as in Q4_0
 *     Q8_FLOAT    32      36    d q                       d is F32
 *
 * d and m are F16 where nothing else is said. Every operation is rounded to float32 in the order of the formula, so that values equal those of the
 * `gguf` package bit for bit.
 *
 * Thread: any; no state.
 */
#pragma once

#include "kernels/dtype.h"

#define BLOCK_ELEMENTS_MAX 256u

/* A block as whole numbers with a factor and an offset for each group of 16 elements: element i is
 * factors[i / 16] * numbers[i] + offsets[i / 16]. Q4_1 and Q5_1 add their m; the K types add their negated m t, which
 * rounds as a subtraction does. */
struct block_numbers {
    int8_t numbers[BLOCK_ELEMENTS_MAX];
    float factors[BLOCK_ELEMENTS_MAX / 16], offsets[BLOCK_ELEMENTS_MAX / 16];
    bool has_offsets;
};

/* Takes one block apart. block has any alignment. */
void block_take_apart(enum dtype dtype, const void *block, struct block_numbers *numbers_out);

/* The first of n blocks with a scale that is not finite; n: none has one. */
size_t blocks_first_not_finite(enum dtype dtype, const void *blocks, size_t n);

/* n is a multiple of the elements of a block. */
void blocks_to_f32(enum dtype dtype, const void *blocks, size_t n, float *wide_out);
float block_element(enum dtype dtype, const void *blocks, size_t index);
