/*
 * mistral_fix - replaces a wrong split pattern, as Transformers does.
 *
 * Mistral published tokenizers whose tokenizer.json has another pattern than the model was trained
 * with. fix_mistral_regex in tokenizer_config.json asks for the right one. Transformers applies it to
 * vocabularies of more than 100,000 tokens with a config.json that a version before 5 wrote for a
 * Mistral model. In other cases Transformers ignores the key, and so does this file.
 *
 * Thread: any; no state.
 */
#pragma once

#include "base/status.h"

#include <jansson.h>

/* Changes tokenizer, the root of tokenizer.json, where Transformers does. config, model_config: the roots of
 * tokenizer_config.json and config.json, or NULL. NO_MEMORY. */
MUST_CHECK enum status mistral_fix_apply(json_t *tokenizer, const json_t *config,
                                         const json_t *model_config);
