/*
 * engine_inbox - how other threads reach an engine: a bounded ring of messages, in order, and two flags that need no room: drain
 * and stop.
 *
 * A message is plain bytes of one size. Whoever has the message owns a heap object in it.
 *
 *     of streams   a request is counted until its stream is forgotten; the end of a stream is not
 *     counted      at most counted_max that were not taken yet
 *     others       bounded by the caller: others_max
 *
 * Bounds: room for four messages of each of streams_max streams (its request and its end, and as many again for streams that
 * finished while their end was in the ring), counted_max and others_max. A sender that must not fail and finds the ring full
 * yields until the engine, which never blocks, has taken a message.
 *
 * Thread: init, finish, take, peek, forget_stream and wait on the engine's; the others from any.
 */
#pragma once

#include "base/status.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct engine_inbox_bounds {
    uint32_t streams_max, counted_max, others_max;
};

struct engine_inbox {
    struct ring *ring;
    struct engine_inbox_bounds bounds;
    atomic_uint n_streams, n_counted;
    atomic_bool drain_wanted, stop_wanted;
};

MUST_CHECK enum status engine_inbox_init(struct engine_inbox *inbox, size_t message_bytes,
                                         const struct engine_inbox_bounds *bounds);
/* Drops the messages that were not taken: take them first. A zeroed inbox is fine. */
void engine_inbox_finish(struct engine_inbox *inbox);

/* The request of a new stream. QUEUE_FULL: streams_max are known. */
MUST_CHECK enum status engine_inbox_post_stream(struct engine_inbox *inbox, const void *message);
/* QUEUE_FULL: counted_max are waiting. */
MUST_CHECK enum status engine_inbox_post_counted(struct engine_inbox *inbox, const void *message);
void engine_inbox_post(struct engine_inbox *inbox, const void *message);

/* False: empty. After a message that was counted call taken_counted. */
bool engine_inbox_take(struct engine_inbox *inbox, void *message_out);
/* Copies the message at index at, which stays in the inbox and keeps its heap object. False: there is none. */
bool engine_inbox_peek(const struct engine_inbox *inbox, uint32_t at, void *message_out);
void engine_inbox_taken_counted(struct engine_inbox *inbox);
/* A stream was finished. */
void engine_inbox_forget_stream(struct engine_inbox *inbox);
bool engine_inbox_is_empty(const struct engine_inbox *inbox);

/* Both stay set and wake the engine. A stop is a drain, too. */
void engine_inbox_drain(struct engine_inbox *inbox);
void engine_inbox_stop(struct engine_inbox *inbox);
bool engine_inbox_wants_drain(const struct engine_inbox *inbox);
bool engine_inbox_wants_stop(const struct engine_inbox *inbox);

/* Sleeps until a message, a wake or until_ns. */
void engine_inbox_wait(struct engine_inbox *inbox, uint64_t until_ns);
void engine_inbox_wake(struct engine_inbox *inbox);
