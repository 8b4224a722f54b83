/*
 * gguf_recurrent - the keys of Qwen3.5 and Qwen3-Next, whose layers have recurrent state or attention, in the words of config.json.
 *
 *     nextn_predict_layers                   so many of block_count's last layers predict further tokens
 *     attention.recurrent_layers             true or false for each layer; or without it:
 *     full_attention_interval                every nth layer has attention; absent: 4
 *     ssm.group_count, ssm.state_size        key heads, and the length of one
 *     ssm.time_step_rank, ssm.inner_size     value heads, and the length of all
 *     ssm.conv_kernel                        rows that the convolution sees
 *     rope.dimension_count, ...sections      the part of a head that rotates, and which of a token's positions turn its pairs
 *
 * llama.cpp's converter adds 1 to norms and stores -exp(A_log). In qwen35 and qwen35moe value head h is one of key head h % key heads
 * (heads_are_tiled); in qwen3next those of a key head are side by side, as in the folder, and newer files have Z apart. Nothing is
 * put back but A_log: the model computes with the order of the file.
 *
 * Thread: any; no state.
 */
#pragma once

#include "gguf/gguf_architecture.h"

#include <jansson.h>

/* config has the keys that all architectures have. CORRUPT, UNSUPPORTED: the sentence names the key or the tensor, and the value. */
MUST_CHECK enum status gguf_recurrent_add(const struct gguf_file *file,
                                          const struct gguf_architecture *architecture,
                                          json_t *config, struct error *error);
