/*
 * gguf_config - the keys of a GGUF file in the words of config.json.
 *
 * Architectures: llama (Llama and Mistral), qwen2, qwen3. Others are refused by name; a new one is a row. Q and K of llama are
 * rotated in neighbouring pairs (rope_interleaved), since their rows are stored so.
 *
 * Thread: any; no state.
 */
#pragma once

#include "gguf/gguf_file.h"

#include <jansson.h>

/* The caller owns *config_out. CORRUPT, UNSUPPORTED with a sentence that names the key; NO_MEMORY. */
MUST_CHECK enum status gguf_config_make(const struct gguf_file *file, json_t **config_out,
                                        struct error *error);

/* The name that a folder of Transformers gives to a tensor; "" if the file has one that the architecture does not use. */
void gguf_tensor_name(struct gguf_text name, char *name_out, size_t name_max);
