/*
 * layer_parameters - arguments of the kernels around attention and the products: layer.cuh.
 */
#pragma once

#include "kernels/cuda/parameters.h"

PARAMETERS_BEGIN

/* y[i] += x[i] */
struct add_parameters {
    float *y;       /* [n] */
    const float *x; /* [n] */
    uint64_t n;
};

PARAMETERS_END
