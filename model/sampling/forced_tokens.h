/*
 * forced_tokens - the tokens of a reply that a model with an encoder leaves no choice.
 *
 * forced_bos_token_id is the first token of a reply, behind the one that begins it; forced_eos_token_id is the last one of a reply
 * that is as long as it may be. They come before all other rules of sampling.
 *
 * Thread: any; no state.
 */
#pragma once

#include "model/config/model_config.h"

#include <stdbool.h>

/* Of the next token of a reply that has n_generated tokens of at most n_max. False: it is drawn. */
bool forced_token_find(const struct encoder_shape *encoder, uint32_t n_generated, uint32_t n_max,
                       uint32_t *id_out);
