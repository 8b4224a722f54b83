/*
 * text_calls - Tokenize and Detokenize, the calls that end in the router.
 *
 *     short    answered where they arrive
 *     long     on the text thread, so that nobody's call waits for them there
 *
 * Bounds: a reply has reply_bytes_max bytes of text, or the ids that message_bytes_max holds: what
 * makes more is refused before it is computed further.
 *
 * Tokens of text need no worker: these calls are served while the router drains, too.
 *
 * Thread: the queue thread's, or main's once the tokenizer is there; long ones on the text thread.
 */
#pragma once

#include "api/kvferry_v1/v1_call.h"
#include "router/intake.h"

struct text_calls {
    struct intake *intake;
    uint64_t reply_bytes_max;
};

/* Once the tokenizer is there. The call ends once; message is read before this returns. */
void text_calls_tokenize(struct text_calls *calls, struct v1_call *call,
                         const ProtobufCMessage *message);
void text_calls_detokenize(struct text_calls *calls, struct v1_call *call,
                           const ProtobufCMessage *message);
