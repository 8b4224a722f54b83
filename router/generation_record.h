/*
 * generation_record - what log and trace get of a request at its end.
 *
 * Thread: dispatch's mutex, or whoever has a generation that never started.
 */
#pragma once

#include "router/generation_reply.h"

/* Its access line, and its spans: request, route (judged, tokenized) and queue (waits for a pair). */
void generation_tell(const struct generation *generation, enum status status,
                     const struct reply_end *end, uint64_t now_ns);
/* The same of one that was refused, before it could be placed. */
void generation_tell_refusal(const struct generation *generation, enum status status,
                             const char *sentence, uint64_t now_ns);
/* Of a call that has not become one. tenant "": it has none. */
void call_tell_refusal(const struct rpc_call *call, enum status status, const char *tenant,
                       const char *sentence);
