/*
 * config_tokens - tokens that tokenizer_config.json has and added_tokens of tokenizer.json has not: Transformers adds them.
 *
 * Those of added_tokens_decoder, with their ids and flags; and named special tokens (bos_token, additional_special_tokens and the
 * like) that are in the vocabulary, as special ones.
 *
 * Thread: any; no state.
 */
#pragma once

#include "base/status.h"

#include <jansson.h>

/* Changes tokenizer, the root of tokenizer.json. config: the root of tokenizer_config.json, or NULL. What either has of another shape
 * than it should is passed over: who reads it judges it. NO_MEMORY. */
MUST_CHECK enum status config_tokens_apply(json_t *tokenizer, const json_t *config);
