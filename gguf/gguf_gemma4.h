/*
 * gguf_gemma4 - the keys of Gemma 4, whose layers differ, in the words of config.json.
 *
 *     attention.sliding_window_pattern, ...sliding_window      which layers have a window
 *     attention.key_length, rope.dimension_count, ...          of layers that see all tokens; with _swa: of the others
 *     attention.head_count_kv, feed_forward_length             one number, or one for each layer
 *     attention.shared_kv_layers                               so many last layers read K and V of others
 *     embedding_length_per_layer_input                         0: layers have no embedding of their own
 *     expert_count, ...                                        experts beside each MLP; 0, or no such key: none
 *     tensor rope_freqs.weight                                 1 where a pair of a head turns, 1e30 where it does not
 *
 * Thread: any; no state.
 */
#pragma once

#include "gguf/gguf_file.h"

#include <jansson.h>

/* config has the keys that all architectures have. CORRUPT, UNSUPPORTED: the sentence names the key or the tensor, and the value. */
MUST_CHECK enum status gguf_gemma4_add(const struct gguf_file *file, json_t *config,
                                       struct error *error);
