/*
 * openai_whole - the reply of a call that is no stream: one body of all its choices.
 *
 * Lock: the call's mutex is held, or all of its choices have ended.
 */
#pragma once

#include "base/status.h"
#include "router/requests/door.h"

struct openai_call;
struct openai_prompt;

/* All choices have ended. NO_MEMORY; as http_exchange_reply. */
MUST_CHECK enum status openai_whole_reply(struct openai_call *call);

/* What a piece counts for in reply_bytes_max. */
size_t openai_whole_piece_bytes(const struct openai_call *call, const struct reply_piece *piece);
/* The same of n_tokens of prompt whose log-probabilities have come. */
size_t openai_whole_scores_bytes(const struct openai_prompt *prompt, uint32_t n_tokens);
