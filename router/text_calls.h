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

#include "router/router_metrics.h"
#include "router/text_thread.h"
#include "rpc/server/call.h"
#include "tokenizer/tokenizer.h"

struct text_calls {
    const char *model_name;
    struct router_metrics *metrics;
    const struct tokenizer *tokenizer; /* set before process_serving, as what follows */
    struct text_thread *text_thread;
    uint64_t text_inline_bytes;
    uint64_t text_bytes_max;
    uint64_t reply_bytes_max;
};

/* Handlers (rpc/server/server.h), once the tokenizer is there; arg is a struct text_calls. */
void text_calls_tokenize(void *arg, struct rpc_call *call, const ProtobufCMessage *message);
void text_calls_detokenize(void *arg, struct rpc_call *call, const ProtobufCMessage *message);
