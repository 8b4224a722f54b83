/*
 * attention - the kernels of the attention operator, whose parameters are one struct. Of this unit:
 *
 *     attention_update      bias, norm, RoPE: queries to the workspace, K and V to the cache; _quads: four elements a lane
 *     attention_reference   a warp a row, straight from the cache
 *
 * Of attention_masked:
 *
 *     attention_masked_N    a CTA some rows of a kv head that share what is loaded, heads of up to N
 *     attention_merge       ranges that CTAs of attention_masked summed by themselves
 *
 * Of attention_int8: both for contexts of MATH_INT8 and MATH_INT8_PV_FP8.
 * Of attention_whole: contexts with all scores of a row stored, in shared memory (short) or in the workspace (unfused).
 */
#pragma once

#include "kernels/cuda/attention_reference.cuh"
#include "kernels/cuda/attention_update.cuh"
