/*
 * gen_inbox - what other threads tell a generation engine, in the order of its inbox.
 *
 * Requests, descriptions and events of prefills are passed as heap objects, everything else by value.
 *
 * Bounds: two messages for each of prefills_max prefills, and events_max other messages from context workers and operators,
 * which are counted.
 *
 * Thread: take_job and post_event from any; the others on the engine thread.
 */
#pragma once

#include "engine/engine_inbox.h"
#include "engine/prefill_event.h"
#include "gen_worker/gen_described.h"
#include "gen_worker/gen_prefill.h"
#include "gen_worker/job.h"

enum gen_message_kind {
    GEN_MESSAGE_REQUEST,
    GEN_MESSAGE_STREAM_ENDED,
    GEN_MESSAGE_PREFILL_END,
    GEN_MESSAGE_COMMIT_RESULT,
    /* counted by events_max: */
    GEN_MESSAGE_DESCRIBED,
    GEN_MESSAGE_PREFILL_EVENT,
    GEN_MESSAGE_DROP_PEER,
    GEN_MESSAGE_DISTRUST,
    GEN_MESSAGE_FLUSH
};

/* A prefill event with its arrays, in one allocation. Scores are arrays of 4-byte words, too. */
struct gen_event_box {
    struct prefill_event event;
    uint32_t arrays[]; /* block ids, then digests; or scores */
};

struct gen_message {
    enum gen_message_kind kind;
    union {
        void *handle;         /* a stream, or a call to answer */
        uint64_t prefill;     /* of messages from context workers */
        uint64_t incarnation; /* of DROP_PEER, DISTRUST */
    };
    union { /* heap objects are owned by who holds the message */
        struct job *job;
        struct gen_described *described;
        struct gen_event_box *box;
        struct {
            enum status status;
            struct error error;
        } end; /* of PREFILL_END, COMMIT_RESULT */
    };
};

MUST_CHECK enum status gen_inbox_init(struct engine_inbox *inbox,
                                      const struct gen_engine_options *options);
/* Destroys the messages that were not taken. A zeroed inbox is fine. */
void gen_inbox_finish(struct engine_inbox *inbox);

/* Becomes the job's owner on success. QUEUE_FULL: streams_max handles are known. */
MUST_CHECK enum status gen_inbox_take_job(struct engine_inbox *inbox, struct job *job);
/* Copies the event. QUEUE_FULL: events_max are waiting. NO_MEMORY. */
MUST_CHECK enum status gen_inbox_post_event(struct engine_inbox *inbox, uint64_t prefill,
                                            const struct prefill_event *event);

/* False: empty. */
bool gen_inbox_take(struct engine_inbox *inbox, struct gen_message *message_out);
/* Destroys the message's heap object, where no other owner has taken it. */
void gen_message_finish(struct gen_message *message);
