/*
 * quantized_files - finds the tensors of a matrix in a quantized checkpoint: FP8, AWQ, GPTQ, compressed-tensors.
 *
 *     method              tensors behind the name of the matrix                                      kept in memory as
 *     AWQ                 qweight, qzeros, scales                                                    Q4_ZERO
 *     GPTQ                qweight, qzeros, scales, perhaps g_idx                                     Q4_ZERO, Q8_FLOAT; F16 if g_idx mixes groups
 *     compressed-tensors  weight_packed, weight_scale, perhaps weight_zero_point, weight_g_idx       the same
 *                         weight of I8, weight_scale                                                 Q8_FLOAT
 *     both, and FP8       weight of F8_E4M3, weight_scale or weight_scale_inv                        E4M3, in place
 *
 * A part of a fused matrix takes its rows of each. Blocks (kernels/blocks.h) keep every weight's value; F16 rounds it, as the makers'
 * own code does. Scales of activations are not used: activations are not rounded to 8 bits here.
 *
 * Thread: any; no state.
 */
#pragma once

#include "model/weights/weight_binding.h"

/* name: of the matrix in the files, ".weight" at its end. rows: which of its rows the tensor has, n_out of them, each of n_in
 * elements. Sets tensor if the files have the matrix quantized. CORRUPT, UNSUPPORTED: the sentence names the tensor. */
MUST_CHECK enum status quantized_files_bind(struct weight_binding *binding, const char *name,
                                            const struct tensor_source *rows, uint32_t n_out,
                                            uint32_t n_in, struct tensor *tensor,
                                            bool *is_found_out, struct error *error);
