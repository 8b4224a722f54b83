/*
 * suppressed_tokens - the tokens that a model never gives: suppress_tokens of generation_config.json (the marks behind pictures and
 * sounds of Gemma 4). Their logits are -infinity in each draw, as in Transformers; log-probabilities do not know of it.
 *
 * Thread: any; no state.
 */
#pragma once

#include "base/hash.h"
#include "model/config/model_config.h"
#include "model/files/json_fields.h"

/* Reads the list in place of what config has. Absent, null: none. CORRUPT, UNSUPPORTED with a sentence. */
MUST_CHECK enum status suppressed_tokens_read(const struct json_fields *fields,
                                              struct model_config *config);
bool suppressed_tokens_have(const struct model_config *config, uint32_t id);
/* That of a model without these stays as it is: two workers that draw for one reply have the same. */
struct hash128 suppressed_tokens_digest(const struct model_config *config, struct hash128 digest);
