#include "rpc/relay/open_streams.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 4

static bool grow(struct open_streams *streams)
{
    uint32_t n_room = streams->n_room ? streams->n_room * 2 : FIRST_ROOM;
    struct open_stream *grown = realloc(streams->streams, n_room * sizeof *grown);
    if (!grown)
        return false;
    streams->streams = grown;
    streams->n_room = n_room;
    return true;
}

struct open_stream *open_streams_add(struct open_streams *streams, uint32_t id)
{
    assert(streams->n == 0 || streams->streams[streams->n - 1].id < id);
    if (streams->n == streams->n_room && !grow(streams))
        return NULL;
    struct open_stream *stream = &streams->streams[streams->n++];
    *stream = (struct open_stream){.id = id, .window.allowed = REQUEST_WINDOW_BYTES};
    return stream;
}

bool open_stream_is_half(const struct open_stream *stream)
{
    return !(stream->is & (STREAM_REQUEST_ENDED | STREAM_ANSWERED));
}

bool open_stream_is_asked(const struct open_stream *stream)
{
    return (stream->is & STREAM_REQUEST_ENDED) && !(stream->is & STREAM_ANSWERED);
}

struct open_stream *open_streams_find(const struct open_streams *streams, uint32_t id)
{
    uint32_t low = 0, high = streams->n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (streams->streams[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < streams->n && streams->streams[low].id == id ? &streams->streams[low] : NULL;
}

void open_streams_remove(struct open_streams *streams, struct open_stream *stream)
{
    size_t index = (size_t)(stream - streams->streams);
    assert(index < streams->n);
    streams->n--;
    memmove(stream, stream + 1, (streams->n - index) * sizeof *stream);
}

void open_streams_finish(struct open_streams *streams)
{
    free(streams->streams);
    *streams = (struct open_streams){0};
}
