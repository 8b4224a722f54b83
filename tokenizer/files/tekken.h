/*
 * tekken - tekken.json, as Mistral publishes it, in the words of tokenizer.json.
 *
 * Special tokens have the first ids (default_num_special_tokens; those that the file does not name are <SPECIAL_n>), then come
 * the tokens of vocab in the order of their ranks, as many as default_vocab_size leaves room for. Pairs merge by the rank of what
 * they become; a piece that is a token stays whole.
 *
 * Thread: any; no state.
 */
#pragma once

#include "base/status.h"

#include <jansson.h>

/* Makes the documents that tokenizer.json and tokenizer_config.json would be; both are the caller's. root: of tekken.json. config: the
 * root of the folder's tokenizer_config.json, or NULL; what it says stays. CORRUPT, UNSUPPORTED: error names the field. NO_MEMORY. */
MUST_CHECK enum status tekken_read(const json_t *root, const json_t *config, struct error *error,
                                   json_t **tokenizer_out, json_t **config_out);
