/*
 * attention - the kernels of the attention operator, which all take the same struct of parameters. In this unit:
 *
 *     attention_update      bias, norm, RoPE: queries to the workspace, K and V to the cache; _quads: four elements a lane
 *     attention_reference   one warp a row, reads the cache directly
 *
 * In attention_masked:
 *
 *     attention_masked_N    one CTA for some rows of a kv head, which share the loads; heads of up to N
 *     attention_merge       merges the partial sums of ranges
 *
 * In attention_int8: the same kernels for contexts of MATH_INT8 and MATH_INT8_PV_FP8.
 * In attention_whole: contexts with all scores of a row stored, in shared memory (short) or in the workspace (unfused).
 */
#pragma once

#include "kernels/cuda/attention_reference.cuh"
#include "kernels/cuda/attention_update.cuh"
