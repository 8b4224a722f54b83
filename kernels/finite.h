/*
 * finite - finds the first element of an array that is a NaN or an infinity.
 *
 * Bound: the array's bytes. Thread: any.
 */
#pragma once

#include "kernels/dtype.h"

/* F32, BF16 or F16, at any alignment. Returns n when all are finite. */
uint64_t first_not_finite(enum dtype dtype, const void *array, uint64_t n);
