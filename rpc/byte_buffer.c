/* byte_buffer - see byte_buffer.h. */
#include "rpc/byte_buffer.h"

#include <assert.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/slice.h>
#include <stdbool.h>

/* An unpacked message takes up to 7 times its wire bytes (measured), and short ones more. */
#define ARENA_BYTES_PER_BYTE 8
#define ARENA_BYTES_MIN      (256u << 10)

grpc_byte_buffer *rpc_byte_buffer_pack(const ProtobufCMessage *message, size_t *n_bytes_out)
{
    size_t n_bytes = protobuf_c_message_get_packed_size(message);
    grpc_slice slice = grpc_slice_malloc(n_bytes);
    size_t n_packed = protobuf_c_message_pack(message, GRPC_SLICE_START_PTR(slice));
    assert(n_packed == n_bytes);
    grpc_byte_buffer *buffer = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_slice_unref(slice);
    *n_bytes_out = n_bytes;
    return buffer;
}

/* One slice of all bytes, which the caller unrefs. */
static bool read_all(grpc_byte_buffer *buffer, grpc_slice *slice_out)
{
    grpc_byte_buffer_reader reader;
    if (!grpc_byte_buffer_reader_init(&reader, buffer))
        return false;
    grpc_slice *only;
    bool is_plain = buffer->type == GRPC_BB_RAW &&
                    buffer->data.raw.compression == GRPC_COMPRESS_NONE &&
                    buffer->data.raw.slice_buffer.count == 1;
    if (is_plain && grpc_byte_buffer_reader_peek(&reader, &only))
        *slice_out = grpc_slice_ref(*only);
    else
        *slice_out = grpc_byte_buffer_reader_readall(&reader);
    grpc_byte_buffer_reader_destroy(&reader);
    return true;
}

static enum status refuse(struct rpc_error *error, const char *what)
{
    rpc_error_set(error, STATUS_INVALID_ARGUMENT, NULL, NULL, "%s", what);
    return STATUS_INVALID_ARGUMENT;
}

enum status rpc_byte_buffer_unpack(grpc_byte_buffer *buffer, size_t n_bytes_max,
                                   const ProtobufCMessageDescriptor *descriptor,
                                   uint32_t elements_max, struct rpc_arena *arena,
                                   struct rpc_error *error, ProtobufCMessage **message_out)
{
    grpc_slice slice;
    if (!buffer)
        return refuse(error, "no message was sent");
    if (!read_all(buffer, &slice))
        return refuse(error, "message cannot be decompressed");

    struct rpc_guard_limits limits = {
        .depth_max = RPC_GUARD_DEPTH_MAX,
        .elements_max = elements_max ? elements_max : RPC_GUARD_ELEMENTS_MAX,
        .unknown_max = RPC_GUARD_UNKNOWN_MAX,
    };
    size_t n_bytes = GRPC_SLICE_LENGTH(slice);
    enum status status;
    rpc_arena_reset(arena, ARENA_BYTES_MIN + ARENA_BYTES_PER_BYTE * n_bytes);
    if (n_bytes > n_bytes_max) {
        rpc_error_set(error, STATUS_INVALID_ARGUMENT, NULL, NULL,
                      "message of %zu bytes: at most %zu", n_bytes, n_bytes_max);
        status = STATUS_INVALID_ARGUMENT;
    } else {
        status = rpc_guard_unpack(descriptor, GRPC_SLICE_START_PTR(slice), n_bytes, &limits, arena,
                                  error, message_out);
    }
    grpc_slice_unref(slice); /* unpacking copied everything */
    return status;
}
