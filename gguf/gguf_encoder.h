/*
 * gguf_encoder - the keys of a GGUF file with an encoder, T5's, in the words of config.json.
 *
 * Such files do not say how far distances of the relative bias go: 128, as in all published models. Nor whether logits are
 * scaled: they are, unless there is a gate and a head besides the embedding, as in T5 before its version 1.1.
 *
 * Thread: any; no state.
 */
#pragma once

#include "gguf/gguf_architecture.h"

#include <jansson.h>

/* Adds to config what gguf_config's rows do not say. CORRUPT, UNSUPPORTED with a sentence that names the key. */
MUST_CHECK enum status gguf_encoder_add(const struct gguf_file *file,
                                        const struct gguf_architecture *architecture,
                                        json_t *config, struct error *error);
