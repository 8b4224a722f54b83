/*
 * open_streams - the streams of one connection that are not over, by rising id.
 *
 * Bound: what the owner lets in. Thread: the owner's.
 */
#pragma once

#include "rpc/relay/request_window.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    STREAM_REQUEST_ENDED = 1, /* the client's half */
    STREAM_ANSWERED = 2,      /* something came back */
    STREAM_ANSWER_ENDED = 4,
};

struct open_stream {
    uint32_t id;
    uint8_t is; /* of the above */
    uint64_t opened_ns;
    uint64_t heard_ns; /* last bytes of the request */
    uint64_t asked_ns; /* the request's end; 0: it has none yet, or was answered */
    struct request_window window;
    uint32_t granted; /* of it, and the client does not know yet */
};

struct open_streams {
    struct open_stream *streams; /* [n] */
    uint32_t n;
    uint32_t n_room;
};

/* id must be above all that are there (asserted). NULL: no memory. Good until the next add or remove. */
struct open_stream *open_streams_add(struct open_streams *streams, uint32_t id);
struct open_stream *open_streams_find(const struct open_streams *streams,
                                      uint32_t id); /* or NULL */
/* Neither its request has ended, nor has an answer begun. */
bool open_stream_is_half(const struct open_stream *stream);
/* Its request has ended, and no answer has begun. */
bool open_stream_is_asked(const struct open_stream *stream);
void open_streams_remove(struct open_streams *streams, struct open_stream *stream);
void open_streams_finish(struct open_streams *streams);
