/*
 * finite - the first element of an array that is no number: a NaN or an infinity.
 *
 * Bound: the array's bytes. Thread: any.
 */
#pragma once

#include "kernels/dtype.h"

/* F32, BF16 or F16, at any alignment. n: all are numbers. */
uint64_t first_not_finite(enum dtype dtype, const void *array, uint64_t n);
