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

#include "router/generation_service.h"

/* Handlers (rpc/server/server.h), once the tokenizer is there; arg is a struct generation_service. */
void text_calls_tokenize(void *arg, struct rpc_call *call, const ProtobufCMessage *message);
void text_calls_detokenize(void *arg, struct rpc_call *call, const ProtobufCMessage *message);
