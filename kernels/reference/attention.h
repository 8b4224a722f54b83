/*
 * reference/attention - the oracle's attention back end: every feature, every sum in float64, the whole row of
 * scores at once. It rounds only where attention.h says so: the cache, the output, and the operands of MATH_FP8.
 *
 * path, multi_block and grouped only affect speed, and are not read here. MATH_INT8 and MATH_INT8_PV_FP8 are
 * computed without their rounding; tests measure how far other back ends are from this result.
 */
#pragma once

#include "kernels/attention.h"

extern const struct attention_backend reference_attention;
