/*
 * gguf_config - the keys of a GGUF file in the words of config.json.
 *
 * Architectures are the rows of gguf_architecture.c; others are refused by name. Some keys are of this program alone: rope_interleaved
 * (Q and K of llama are rotated in neighbouring pairs, since their rows are stored so), norms_are_whole (Gemma's, Qwen3.5's),
 * experts_are_apart (gpt-oss), kv_b_is_apart (DeepSeek), qkv_is_plain (those before Llama), and those of gguf_recurrent.h.
 *
 * Thread: any; no state.
 */
#pragma once

#include "gguf/gguf_file.h"

#include <jansson.h>

/* The caller owns *config_out. CORRUPT, UNSUPPORTED with a sentence that names the key; NO_MEMORY. */
MUST_CHECK enum status gguf_config_make(const struct gguf_file *file, json_t **config_out,
                                        struct error *error);
