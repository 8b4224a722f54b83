/*
 * state_facts - what a model has beside K and V of its decoder's tokens.
 *
 *     "recurrent_layers": 18, "recurrent_state_bytes": 20348928      of a sequence; only if a layer has such state
 *     "encoder_layers": 6                                             only if the model has an encoder
 *
 * Thread: main; no state.
 */
#pragma once

#include "model/config/model_config.h"

#include <jansson.h>
#include <stdio.h>

void state_facts_add(json_t *facts, const struct model_config *config);
/* For people: a line for each. facts also has layers, kv_bytes_per_token, kv_dtype, and with such state recurrent_state_blocks. */
void state_facts_print(const json_t *facts, FILE *out);
