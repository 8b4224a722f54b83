/*
 * conform_compare - how far a device's result may be from the host's.
 *
 * Thread: any.
 */
#pragma once

#include "tests/gpu/conform/conform.h"

enum conform_format { CONFORM_BITS, CONFORM_FLOAT, CONFORM_BF16, CONFORM_F16 };

/* 0: as it should be; more than 1: wrong; between: of what is allowed. */
double conform_difference(enum conform_number number, uint32_t input, uint32_t device,
                          uint32_t host);
/* What kernels/dtype.h makes of the number; false: it has no such conversion. */
bool conform_expected(enum conform_number number, uint32_t input, uint32_t *output_out);
/* The same bits, or NaN in both, of a number or of two halves. */
bool conform_is_same(enum conform_format format, uint32_t device, uint32_t host);
