/*
 * warp_ops - what the lanes of a warp do together, on values that they hand over.
 */
#pragma once

#include <stdint.h>

namespace simt
{
/* value of lane source, which is one of mask. */
uint32_t exchange(const char *name, uint32_t value, unsigned source, uint32_t mask);
/* A bit a lane of mask. */
uint32_t ballot(const char *name, bool value, uint32_t mask);
enum reduction { REDUCE_ADD, REDUCE_MIN, REDUCE_MAX, REDUCE_MIN_SIGNED, REDUCE_MAX_SIGNED };
uint32_t reduce(enum reduction reduction, uint32_t value, uint32_t mask);

/* row: of this lane, 8 halves, at address in shared memory. */
void load_matrices(uint32_t *out, const uint16_t *row, uint32_t address, unsigned n_matrices,
                   bool transposed);
uint32_t transpose_matrix(uint32_t value);

enum product { PRODUCT_BF16, PRODUCT_F16 };
/* m16n8k16: c += a b */
void multiply(enum product product, float *c, const uint32_t *a, const uint32_t *b);
/* m16n8k32, INT8: c += a b */
void multiply_int8(int32_t *c, const uint32_t *a, const uint32_t *b);
} // namespace simt
