/*
 * gguf_token_ids - the ids of tokens that a GGUF file names, in the words of config.json: those that end a text, those that the model
 * never gives, and how many there are.
 *
 * Thread: any; no state.
 */
#pragma once

#include "gguf/gguf_file.h"

#include <jansson.h>

/* Adds eos_token_id, vocab_size and suppress_tokens to config. CORRUPT, UNSUPPORTED with a sentence that names the key. */
MUST_CHECK enum status gguf_token_ids_add(const struct gguf_file *file, json_t *config,
                                          struct error *error);
