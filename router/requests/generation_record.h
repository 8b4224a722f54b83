/*
 * generation_record - writes the access line and the trace spans of a request at its end.
 *
 * Thread: dispatch's mutex, or the owner of a generation that never started.
 */
#pragma once

#include "router/requests/generation_state.h"

/* Its access line, and its spans: request, route (judged, tokenized) and queue (waits for a pair). */
void generation_tell(const struct generation *generation, uint32_t n_generated, uint64_t now_ns);
/* The same of one that was refused, before it could be placed. */
void generation_tell_refusal(const struct generation *generation, enum status status,
                             const char *sentence, uint64_t now_ns);
/* The access line of a call that has not become a generation. */
void call_tell_refusal(struct door_call *call, enum status status, const char *sentence);
