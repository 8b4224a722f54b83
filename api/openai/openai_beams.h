/*
 * openai_beams - the members of a body that ask for a beam search.
 *
 *     use_beam_search   as vLLM has it: with n beams, whose replies are all told
 *     beam_width        so many beams, of whose replies the n best are told; it alone asks for a search, too
 *     length_penalty, early_stopping   as vLLM and Transformers have them
 *
 * Thread: any; no state.
 */
#pragma once

#include "api/openai/json_fields.h"
#include "router/requests/door.h"

/* Behind n, which sampling has. */
void openai_beams_read(const struct json_fields *fields, Kvferry__V1__SamplingParams *sampling);
/* A sentence about beam_width is one about the member that asked for the search. */
void openai_beams_rename(const json_t *body, struct openai_error *error);
