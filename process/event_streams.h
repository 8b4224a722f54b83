/*
 * event_streams - streams of a server whose readers follow a ring of events (kvcache/span_events.h).
 *
 *     span_events --reader of the stream--> next(): a message --> rpc_call_send, when all before it has left
 *
 * Each period, and when a reader that is behind has taken its message, each stream gets one message of what is new. A stream that its
 * reader does not read holds one message; the ring goes on, so the reader may later be told anew what is there. When it does not read
 * for slow_reader_ms, the server ends it with SLOW_READER.
 *
 * Bounds: streams_max streams, of one caller (caller.h) caller_max: then QUEUE_FULL, SHARE_FULL. One message a stream is unsent.
 *
 * Thread: one of its own makes messages; create and destroy main; the rest any.
 */
#pragma once

#include "base/metrics/metrics.h"
#include "kvcache/span_events.h"
#include "rpc/server/call.h"

#define EVENT_STREAM_MARKS 6

/* Their metrics have one help in each role that has such streams. */
#define KV_EVENTS_HELP                                                                             \
    "Changes of prefix caches, of blocks of prompts, that this process has seen: in a worker "     \
    "its own, in the router those of its workers."
#define KV_EVENT_STREAMS_HELP "Open streams of KV events."
#define KV_EVENT_OVERRUNS_HELP                                                                     \
    "How often a stream of KV events was too far behind, and got a new snapshot."

struct event_streams;

/* What next sees of a stream. */
struct event_stream {
    struct span_reader *reader;
    bool is_first; /* nothing was sent yet: the reader of the stream waits for its headers */
    bool has_more; /* set by next: there is more than this message */
    uint64_t marks[EVENT_STREAM_MARKS]; /* next's own; at first those of open */
};

struct event_streams_options {
    const char *thread_name;
    const struct span_events *events; /* borrowed until destroy */
    uint32_t streams_max, caller_max;
    uint64_t period_ns;
    struct gauge *n_streams; /* NULL: not told, as the next */
    struct counter *n_overruns;
    /* Before the streams are looked at, each period in which there are streams. May be NULL. */
    void (*tick)(void *arg, uint64_t now_ns);
    /* The next message; NULL: there is nothing to say. It is borrowed until the next call. */
    const ProtobufCMessage *(*next)(void *arg, struct event_stream *stream, uint64_t now_ns);
    void *arg;
};

/* Starts the thread. NO_MEMORY, NO_THREAD. */
MUST_CHECK enum status event_streams_create(const struct event_streams_options *options,
                                            struct event_streams **streams_out);
/* The server is closed: all its calls have ended. NULL is fine. */
void event_streams_destroy(struct event_streams *streams);

/* The call becomes a stream, which goes on after that event, or if resumes is false, begins with a snapshot. If there is no room,
 * it fails. marks: NULL or [EVENT_STREAM_MARKS]. */
void event_streams_open(struct event_streams *streams, struct rpc_call *call, bool resumes,
                        uint64_t after, const uint64_t *marks);
uint32_t event_streams_count(struct event_streams *streams);
