/*
 * attention - the kernels of the attention operator, whose parameters are one struct.
 *
 *     attention_update      bias, norm, RoPE: queries to the workspace, K and V to the cache
 *     attention_reference   a warp a row, straight from the cache
 */
#pragma once

#include "kernels/cuda/attention_reference.cuh"
#include "kernels/cuda/attention_update.cuh"
