/*
 * ctx_inbox - what other threads tell a context engine, in the order of its inbox.
 *
 * A prompt is passed as one heap object, everything else by value.
 *
 * Thread: take_prompt and post_abort from any; take and finish on the engine thread.
 */
#pragma once

#include "ctx_worker/prompt.h"
#include "engine/engine_inbox.h"

enum ctx_message_kind {
    CTX_MESSAGE_PREFILL,
    CTX_MESSAGE_STREAM_ENDED,
    CTX_MESSAGE_COMMITTED, /* at most one for each slot: each was held */
    /* counted by calls_max, as calls that want a reply: */
    CTX_MESSAGE_ABORT,
    CTX_MESSAGE_FLUSH
};

struct ctx_message {
    enum ctx_message_kind kind;
    void *handle; /* the stream, or the call to answer; NULL of COMMITTED */
    union {
        struct prompt *prompt;                      /* owned by who holds the message */
        uint64_t held_number;                       /* of COMMITTED: held_transfers.h */
        char request_id[ENGINE_REQUEST_ID_MAX + 1]; /* of abort */
    };
};

/* Destroys the prompts that were not taken. A zeroed inbox is fine. */
void ctx_inbox_finish(struct engine_inbox *inbox);

/* Becomes the prompt's owner on success. QUEUE_FULL: streams_max handles are known. */
MUST_CHECK enum status ctx_inbox_take_prompt(struct engine_inbox *inbox, struct prompt *prompt);

/* QUEUE_FULL: calls_max are waiting. An id that is longer than ENGINE_REQUEST_ID_MAX finds no request. */
MUST_CHECK enum status ctx_inbox_post_abort(struct engine_inbox *inbox, void *call,
                                            const char *request_id);

/* False: empty. */
bool ctx_inbox_take(struct engine_inbox *inbox, struct ctx_message *message_out);
