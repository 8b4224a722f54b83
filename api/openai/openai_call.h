/*
 * openai_call - one HTTP request for tokens: a door_call for each of its prompts, and their reply as JSON or server-sent events.
 *
 *     first piece -> 200, text/event-stream; data: {...} for each piece; data: [DONE] at the end
 *     nothing for http_comment_ms -> 200 and a comment, which proxies see; again and again
 *     failure before a piece or comment -> its HTTP status; behind it -> data: {"error": ...}, and the stream ends without [DONE]
 *
 * A prompt that fails ends the others.
 *
 * Thread: any, as door_ops.
 */
#pragma once

#include "api/openai/openai_reply.h"
#include "api/openai/openai_request.h"
#include "router/intake.h"

struct openai_call;

/* What calls of one door share; outlives them. */
struct openai_place {
    struct intake *intake;
    struct admission *admission;
    const char *model_name;
    uint64_t reply_bytes_max; /* text of a reply that is not a stream */
    uint64_t default_deadline_ns;
};

/* Reads the exchange's body and asks the router; the exchange is answered, now or later. May take milliseconds: of a large body
 * on a thread that may work. */
void openai_call_serve(const struct openai_place *place, struct http_exchange *exchange,
                       bool is_chat, uint64_t now_ns, int64_t now_unix_s);
