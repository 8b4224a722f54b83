/* gzip - see gzip.h. */
#define ZLIB_CONST /* zlib's input pointer is const */
#include "rpc/gzip.h"

#include <assert.h>
#include <grpc/byte_buffer_reader.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define GZIP_WINDOW_BITS (15 + 16) /* the largest window; a gzip header, no other */
#define ROOM_FIRST       4096u

struct inflater {
    z_stream stream;
    uint8_t *bytes; /* [room]; the stream appends */
    size_t room;
    size_t room_max; /* one byte more than is allowed */
    bool has_ended;
};

static size_t n_inflated(const struct inflater *inflater)
{
    return inflater->room - inflater->stream.avail_out;
}

static enum status grow(struct inflater *inflater)
{
    size_t n = n_inflated(inflater);
    assert(inflater->stream.avail_out == 0 && n <= inflater->room_max);
    if (n == inflater->room_max)
        return STATUS_INVALID_ARGUMENT;
    size_t room = inflater->room ? 2 * inflater->room : ROOM_FIRST;
    if (room > inflater->room_max)
        room = inflater->room_max;
    uint8_t *larger = realloc(inflater->bytes, room);
    if (!larger)
        return STATUS_NO_MEMORY;
    inflater->bytes = larger;
    inflater->room = room;
    inflater->stream.next_out = larger + n;
    inflater->stream.avail_out = (uInt)(room - n);
    return STATUS_OK;
}

/* Inflates one piece of the message. */
static enum status push(struct inflater *inflater, const grpc_slice *piece)
{
    z_stream *stream = &inflater->stream;
    stream->next_in = GRPC_SLICE_START_PTR(*piece);
    stream->avail_in = (uInt)GRPC_SLICE_LENGTH(*piece);
    while (!inflater->has_ended && (stream->avail_in > 0 || stream->avail_out == 0)) {
        if (stream->avail_out == 0)
            TRY(grow(inflater));
        int result = inflate(stream, Z_NO_FLUSH);
        inflater->has_ended = result == Z_STREAM_END;
        if (result == Z_BUF_ERROR) /* no more output */
            return STATUS_OK;
        if (result != Z_OK && result != Z_STREAM_END)
            return result == Z_MEM_ERROR ? STATUS_NO_MEMORY : STATUS_CORRUPT;
    }
    return stream->avail_in > 0 ? STATUS_CORRUPT : STATUS_OK; /* more after its end */
}

static enum status push_all(struct inflater *inflater, grpc_byte_buffer_reader *reader)
{
    grpc_slice *piece;
    while (grpc_byte_buffer_reader_peek(reader, &piece))
        if (GRPC_SLICE_LENGTH(*piece) > 0)
            TRY(push(inflater, piece));
    if (!inflater->has_ended)
        return STATUS_CORRUPT;
    return n_inflated(inflater) == inflater->room_max ? STATUS_INVALID_ARGUMENT : STATUS_OK;
}

enum status rpc_gzip_inflate(grpc_byte_buffer *buffer, size_t n_bytes_max, grpc_slice *slice_out)
{
    assert(n_bytes_max < UINT_MAX); /* zlib counts in unsigned int */
    struct inflater inflater = {.room_max = n_bytes_max + 1};
    grpc_byte_buffer_reader reader;
    if (!grpc_byte_buffer_reader_init(&reader, buffer))
        return STATUS_CORRUPT;
    enum status status = STATUS_NO_MEMORY;
    if (inflateInit2(&inflater.stream, GZIP_WINDOW_BITS) == Z_OK) {
        status = push_all(&inflater, &reader);
        inflateEnd(&inflater.stream);
    }
    grpc_byte_buffer_reader_destroy(&reader);
    if (status == STATUS_OK)
        *slice_out = grpc_slice_new(inflater.bytes, n_inflated(&inflater), free);
    else
        free(inflater.bytes);
    return status;
}
