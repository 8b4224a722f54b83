/*
 * sentencepiece - tokenizer.model, a model of SentencePiece, in the words of tokenizer.json, as Transformers puts it there.
 *
 * The file is a ModelProto (sentencepiece_model.proto), read by its wire format: field 1 is repeated, a piece with text (1), score
 * (2) and type (3); field 2 has the trainer's settings, field 3 the normalizer's. Fields that no tokenizer needs are passed over.
 *
 * Thread: any; no state.
 */
#pragma once

#include "base/status.h"

#include <jansson.h>
#include <stddef.h>

/* Makes the documents that tokenizer.json and tokenizer_config.json would be; both are the caller's. config: the root of the folder's
 * tokenizer_config.json, or NULL; what it says goes before what the model says. name: the file's, for sentences. CORRUPT, UNSUPPORTED:
 * error says where. NO_MEMORY. */
MUST_CHECK enum status sentencepiece_read(const char *bytes, size_t n_bytes, const char *name,
                                          const json_t *config, struct error *error,
                                          json_t **tokenizer_out, json_t **config_out);
