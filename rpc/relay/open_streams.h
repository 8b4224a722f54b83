/*
 * open_streams - the open streams of one connection, by rising id.
 *
 * Bound: the owner limits the streams. Thread: the owner's.
 */
#pragma once

#include "rpc/relay/request_window.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    STREAM_REQUEST_ENDED = 1, /* the client has sent its whole request */
    STREAM_ANSWERED = 2,      /* an answer has begun */
    STREAM_ANSWER_ENDED = 4,
};

struct open_stream {
    uint32_t id;
    uint8_t is; /* flags of the enum above */
    uint64_t opened_ns;
    uint64_t heard_ns; /* when the last bytes of the request arrived */
    uint64_t asked_ns; /* when the request ended; 0: not ended, or answered */
    struct request_window window;
    uint32_t granted; /* bytes granted, of which the client is not told yet */
};

struct open_streams {
    struct open_stream *streams; /* [n] */
    uint32_t n;
    uint32_t n_room;
};

/* id must be above all others (asserted). NULL: no memory. The pointer is valid until the next add or
 * remove. */
struct open_stream *open_streams_add(struct open_streams *streams, uint32_t id);
struct open_stream *open_streams_find(const struct open_streams *streams,
                                      uint32_t id); /* NULL: not open */
/* Its request has not ended, and no answer has begun. */
bool open_stream_is_half(const struct open_stream *stream);
/* Its request has ended, and no answer has begun. */
bool open_stream_is_asked(const struct open_stream *stream);
void open_streams_remove(struct open_streams *streams, struct open_stream *stream);
void open_streams_finish(struct open_streams *streams);
