/*
 * gen_inbox - what other threads tell a generation engine, in order: a bounded ring of messages.
 *
 * Requests, descriptions and ready events cross as heap objects, everything else by value.
 *
 * Bounds: room for four messages of each of streams_max handles, two of each of prefills_max
 * prefills, and events_max of what context workers and operators say, which is counted. A sender
 * that must not fail and finds the ring full yields until the engine, which never blocks, has taken
 * something.
 *
 * Thread: post* from any; take on the engine thread.
 */
#pragma once

#include "base/ring.h"
#include "gen_worker/job.h"

#include <stdatomic.h>

enum gen_message_kind {
    GEN_MESSAGE_REQUEST,
    GEN_MESSAGE_STREAM_ENDED,
    GEN_MESSAGE_PREFILL_END,
    GEN_MESSAGE_COMMIT_RESULT,
    /* counted by events_max: */
    GEN_MESSAGE_DESCRIBED,
    GEN_MESSAGE_PREFILL_EVENT,
    GEN_MESSAGE_DROP_PEER,
    GEN_MESSAGE_FLUSH
};

/* A prefill event with its arrays, in one allocation. */
struct gen_event_box {
    struct gen_prefill_event event;
    uint32_t arrays[]; /* block ids, then digests */
};

struct gen_message {
    enum gen_message_kind kind;
    union {
        void *handle;         /* a stream, or a call to answer */
        uint64_t prefill;     /* of what context workers say */
        uint64_t incarnation; /* of DROP_PEER */
    };
    union { /* heap objects are owned by who holds the message */
        struct job *job;
        struct transport_address *address;
        struct gen_event_box *box;
        struct {
            enum status status;
            struct error error;
        } end; /* of PREFILL_END, COMMIT_RESULT */
    };
};

struct gen_inbox {
    struct ring *ring;
    uint32_t streams_max, events_max;
    atomic_uint n_streams, n_events;
    atomic_bool drain_wanted, stop_wanted;
};

MUST_CHECK enum status gen_inbox_init(struct gen_inbox *inbox,
                                      const struct gen_engine_options *options);
/* Destroys what nobody took. A zeroed inbox is fine. */
void gen_inbox_finish(struct gen_inbox *inbox);

/* Becomes the job's owner on success. QUEUE_FULL: streams_max handles are known. */
MUST_CHECK enum status gen_inbox_take_job(struct gen_inbox *inbox, struct job *job);
/* Copies the event. QUEUE_FULL: events_max are waiting. NO_MEMORY. */
MUST_CHECK enum status gen_inbox_post_event(struct gen_inbox *inbox, uint64_t prefill,
                                            const struct gen_prefill_event *event);
/* Becomes the owner of a heap object in the message on success. QUEUE_FULL. */
MUST_CHECK enum status gen_inbox_post_counted(struct gen_inbox *inbox,
                                              const struct gen_message *message);
void gen_inbox_post(struct gen_inbox *inbox, const struct gen_message *message);

/* False: empty. */
bool gen_inbox_take(struct gen_inbox *inbox, struct gen_message *message_out);
/* Destroys the message's heap object; for one that was not handed on. */
void gen_message_finish(struct gen_message *message);
/* One handle less: finish was called. */
void gen_inbox_forget_stream(struct gen_inbox *inbox);
