/*
 * generation_record - writes the access line and the trace spans of a request at its end.
 *
 * Thread: dispatch's mutex, or the owner of a generation that never started.
 */
#pragma once

#include "router/generation_reply.h"

/* Writes its access line, and its spans: request, route (checked, tokenized) and queue (waits for a
 * pair). */
void generation_tell(const struct generation *generation, enum status status,
                     const struct reply_end *end, uint64_t now_ns);
/* The same for a request that was refused before it could be placed. */
void generation_tell_refusal(const struct generation *generation, enum status status,
                             const char *sentence, uint64_t now_ns);
/* For a call that never became a generation. tenant "": none. */
void call_tell_refusal(const struct rpc_call *call, enum status status, const char *tenant,
                       const char *sentence);
