/*
 * gguf_config - the keys of a GGUF file in the words of config.json.
 *
 * Architectures are the rows of gguf_architecture.c; others are refused by name. Three keys are of this program alone: rope_interleaved
 * (Q and K of llama are rotated in neighbouring pairs, since their rows are stored so), norms_are_whole (Gemma's), and
 * experts_are_apart (gpt-oss).
 *
 * Thread: any; no state.
 */
#pragma once

#include "gguf/gguf_file.h"

#include <jansson.h>

/* The caller owns *config_out. CORRUPT, UNSUPPORTED with a sentence that names the key; NO_MEMORY. */
MUST_CHECK enum status gguf_config_make(const struct gguf_file *file, json_t **config_out,
                                        struct error *error);
