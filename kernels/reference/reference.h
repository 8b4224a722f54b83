/*
 * reference - the oracle: every formula as it is written in kernels.h, sums in float64, one thread.
 */
#pragma once

#include "kernels/kernels.h"

extern const struct kernels kernels_reference;
