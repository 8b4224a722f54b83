/*
 * engine - what of an sm_90 goes on by itself: the copy engine and its barriers, which are 8 bytes of shared memory (unset they are
 * poison), and products of four warps.
 */
#pragma once

#include <stdint.h>

namespace simt
{
/* What a tensor map is here: bf16 or other elements of 2 bytes, a box in rows of 128 bytes, swizzled by 128. */
struct tensor_shape {
    const uint8_t *base;
    uint64_t strides[3]; /* bytes, of the second dimension and on */
    uint32_t dims[4], box[4];
};
static_assert(sizeof(tensor_shape) <= 128, "");

struct tensor_copy {
    uint32_t target, barrier;
    const struct tensor_shape *shape;
    int32_t at[4];
    /* Whose it is: a later CTA may have its place. */
    const void *cta;
    uint32_t number;
};

void engine_init(uint32_t barrier, uint32_t n_arrivals);
void engine_arrive(uint32_t barrier, uint32_t bytes);
void engine_complete(uint32_t barrier, uint32_t bytes);
/* Whether the phase of parity has ended; else the others have had a turn. */
bool engine_look(uint32_t barrier, uint32_t parity);
/* Late copies are made when a thread waits for their barrier and nothing else has come of it for a while. */
void engine_ask(const struct tensor_copy &copy);
bool engine_take(uint32_t barrier, struct tensor_copy *copy_out);
uint32_t engine_bytes(const struct tensor_shape &shape);

/* d [n_columns / 2], a warp's 16 rows of sums as mma_bf16 has them; a NULL: in shared memory. b is transposed: neighbours of its
 * columns lie side by side. */
struct warps_product {
    float *d;
    const uint32_t *a;
    uint64_t a_operand, b_operand;
    uint32_t n_columns;
    bool is_transposed, accumulates;
};
/* Made at once, or when it is waited for: d is NaN until then. */
void products_ask(const struct warps_product &product);
void products_commit();
void products_wait(unsigned n_groups);
} // namespace simt
