/*
 * ctx_inbox - what other threads tell a context engine, in order: a bounded ring of plain messages.
 *
 * A prompt crosses as one heap object, everything else by value.
 *
 * Bounds: room for two messages of each of streams_max handles, a margin for streams that end while
 * they are being finished, and calls_max unary calls, which are counted. A sender that must not fail
 * and finds the ring full yields until the engine, which never blocks, has taken something.
 *
 * Thread: post_* from any; take on the engine thread.
 */
#pragma once

#include "base/ring.h"
#include "ctx_worker/prompt.h"

#include <stdatomic.h>

enum ctx_message_kind {
    CTX_MESSAGE_PREFILL,
    CTX_MESSAGE_STREAM_ENDED,
    CTX_MESSAGE_COMMIT,
    CTX_MESSAGE_ABORT,
    CTX_MESSAGE_FLUSH
};

struct ctx_message {
    enum ctx_message_kind kind;
    void *handle; /* the stream, or the call to answer */
    union {
        struct prompt *prompt; /* owned by who holds the message */
        struct {
            struct transfer_id id;
            uint64_t kv_bytes;
            uint64_t callee_incarnation;
        } commit;
        char request_id[CTX_REQUEST_ID_MAX + 1]; /* of abort */
    };
};

struct ctx_inbox {
    struct ring *ring;
    uint32_t streams_max, calls_max;
    atomic_uint n_streams, n_calls;
    atomic_bool drain_wanted, stop_wanted;
};

MUST_CHECK enum status ctx_inbox_init(struct ctx_inbox *inbox, uint32_t streams_max,
                                      uint32_t calls_max);
/* Destroys the prompts that nobody took. A zeroed inbox is fine. */
void ctx_inbox_finish(struct ctx_inbox *inbox);

/* Becomes the prompt's owner on success. QUEUE_FULL: streams_max handles are known. */
MUST_CHECK enum status ctx_inbox_take_prompt(struct ctx_inbox *inbox, struct prompt *prompt);
void ctx_inbox_post(struct ctx_inbox *inbox, const struct ctx_message *message);
/* QUEUE_FULL: calls_max are waiting. */
MUST_CHECK enum status ctx_inbox_post_call(struct ctx_inbox *inbox,
                                           const struct ctx_message *message);

/* False: empty. */
bool ctx_inbox_take(struct ctx_inbox *inbox, struct ctx_message *message_out);
/* One handle less: finish was called. */
void ctx_inbox_forget_stream(struct ctx_inbox *inbox);
