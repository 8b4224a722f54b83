/*
 * attend_products - the two products of a tile in float32, by groups of rows.
 *
 * Thread: as attend_state.h.
 */
#pragma once

#include "kernels/cpu/attention/attend_state.h"

#define attend_multiply_keys   ISA(attend_multiply_keys)
#define attend_multiply_values ISA(attend_multiply_values)

/* The two products, by groups of rows: Q with the columns of scratch->k_t that rows see; the weights with v. */
void attend_multiply_keys(const struct attend *attend, const struct seen *seen,
                          struct tile_ahead *ahead);
void attend_multiply_values(const struct attend *attend, const struct seen *seen, const float *keep,
                            const struct tile_rows *v, struct tile_ahead *ahead,
                            struct partial *partial);
