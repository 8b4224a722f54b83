/*
 * layer - what a decoder layer has around attention and products.
 *
 * Grid: x over elements. Bound: memory. Oracle: kernels/reference, to the last bit where a sum has one term.
 */
#pragma once

#include "kernels/cuda/hardware.cuh"
#include "kernels/cuda/layer_parameters.h"

DEVICE void add_body(const struct add_parameters &p)
{
    const uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < p.n)
        p.y[i] += p.x[i];
}
