/*
 * text_calls - Tokenize and Detokenize, the calls that end in the router.
 *
 *     short    answered where they arrive
 *     long     on the text thread, so that other calls do not wait for them
 *
 * Bounds: a reply has reply_bytes_max bytes of text, or as many ids as fit into message_bytes_max;
 * a request that makes more is refused early.
 *
 * These calls need no worker, so they are also served while the router drains.
 *
 * Thread: the queue thread, or main once the tokenizer is loaded; long ones on the text thread.
 */
#pragma once

#include "router/router_metrics.h"
#include "router/text_thread.h"
#include "rpc/server/call.h"
#include "tokenizer/tokenizer.h"

struct text_calls {
    const char *model_name;
    struct router_metrics *metrics;
    const struct tokenizer *tokenizer; /* set before process_serving, as the members below */
    struct text_thread *text_thread;
    uint64_t text_inline_bytes;
    uint64_t text_bytes_max;
    uint64_t reply_bytes_max;
};

/* Handlers (rpc/server/service.h), once the tokenizer is loaded; arg is a struct text_calls. */
void text_calls_tokenize(void *arg, struct rpc_call *call, const ProtobufCMessage *message);
void text_calls_detokenize(void *arg, struct rpc_call *call, const ProtobufCMessage *message);
