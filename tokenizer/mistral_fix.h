/*
 * mistral_fix - the split pattern that Transformers puts in place of a wrong one.
 *
 * Mistral published tokenizers whose tokenizer.json has another pattern than the model was trained
 * with. tokenizer_config.json's fix_mistral_regex asks for the right one, which Transformers gives to
 * vocabularies of more than 100,000 tokens beside a config.json that a version before 5 wrote for a
 * model of Mistral's kinds. Elsewhere it does not look at the key, and neither is it looked at here.
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
