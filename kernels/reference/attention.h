/*
 * reference/attention - the oracle's attention back end: every feature, every sum in float64, the
 * whole row of scores at once. Rounded is only what attention.h says is: the cache, the output, and
 * what MATH_FP8 multiplies.
 *
 * Choices of speed have one result here: path, multi_block and grouped are not read. MATH_INT8 and
 * MATH_INT8_PV_FP8 are computed without their rounding: they are judged by their distance from it.
 */
#pragma once

#include "kernels/attention.h"

extern const struct attention_backend reference_attention;
