/*
 * openai_rules - the members of a body that say which tokens may be drawn, what a reply sees, and what of special tokens and stop
 * strings is shown: logit_bias, allowed_token_ids, bad_words, min_tokens; reply_window; include_stop_str_in_output,
 * skip_special_tokens.
 *
 * Their values are judged by the router; here their types and counts are.
 *
 * Thread: any; no state.
 */
#pragma once

#include "api/openai/json_fields.h"
#include "router/requests/door.h"

struct openai_rules;

/* Sets them in sampling, which borrows from the body and from *rules_out. On failure the fields' error is set. In both cases
 * openai_rules_free. */
void openai_rules_read(const struct json_fields *fields, Kvferry__V1__SamplingParams *sampling,
                       struct openai_rules **rules_out);
void openai_rules_free(struct openai_rules *rules); /* NULL is fine */
