/*
 * openai_stream - the reply of a call that is a stream: server-sent events. The first one begins the answer.
 *
 * Each function but on_quiet returns NO_MEMORY, or as http_exchange_begin and http_exchange_send.
 *
 * Lock: the call's mutex is held, but for on_quiet.
 */
#pragma once

#include "base/status.h"
#include "router/requests/door.h"

#include <jansson.h>

struct openai_call;
struct openai_choice;
struct openai_prompt;

/* Takes body, which may be NULL: no memory. */
MUST_CHECK enum status openai_stream_event(struct openai_call *call, json_t *body);

MUST_CHECK enum status openai_stream_piece(struct openai_call *call, struct openai_choice *choice,
                                           const struct reply_piece *piece);
/* The log-probabilities of a prompt, behind the echo of each of its choices. */
MUST_CHECK enum status openai_stream_scores(struct openai_prompt *prompt);
MUST_CHECK enum status openai_stream_end_choice(struct openai_call *call,
                                                struct openai_choice *choice,
                                                const struct reply_end *end);
/* All choices have ended. */
MUST_CHECK enum status openai_stream_end(struct openai_call *call);

/* arg: the call. On the port's thread, while nothing is sent: a comment keeps proxies from closing the stream. */
void openai_stream_on_quiet(void *arg);
