/* byte_buffer - see byte_buffer.h: pack, inflate, unpack. */
#include "rpc/byte_buffer.h"

#include "rpc/gzip.h"

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

/* All bytes in one slice, which the caller unrefs. Fails as rpc_gzip_inflate does. */
static enum status read_all(grpc_byte_buffer *buffer, size_t n_bytes_max, grpc_slice *slice_out)
{
    assert(buffer->type == GRPC_BB_RAW);
    if (buffer->data.raw.compression == GRPC_COMPRESS_GZIP)
        return rpc_gzip_inflate(buffer, n_bytes_max, slice_out);
    grpc_byte_buffer_reader reader;
    if (buffer->data.raw.compression != GRPC_COMPRESS_NONE ||
        !grpc_byte_buffer_reader_init(&reader, buffer))
        return STATUS_CORRUPT;
    grpc_slice *only;
    bool is_one = buffer->data.raw.slice_buffer.count == 1;
    if (is_one && grpc_byte_buffer_reader_peek(&reader, &only))
        *slice_out = grpc_slice_ref(*only);
    else
        *slice_out = grpc_byte_buffer_reader_readall(&reader);
    grpc_byte_buffer_reader_destroy(&reader);
    return STATUS_OK;
}

void rpc_byte_buffer_digest(const grpc_byte_buffer *buffer, struct sha256 *digest_out)
{
    struct sha256_sum sum;
    sha256_begin(&sum);
    for (size_t i = 0; buffer && i < buffer->data.raw.slice_buffer.count; i++) {
        grpc_slice slice = buffer->data.raw.slice_buffer.slices[i];
        sha256_add(&sum, GRPC_SLICE_START_PTR(slice), GRPC_SLICE_LENGTH(slice));
    }
    enum status status = sha256_end(&sum, digest_out);
    assert(status == STATUS_OK); /* fails only without memory, or without SHA-256 in OpenSSL */
}

static enum status refuse(struct rpc_error *error, enum status status, size_t n_bytes_max)
{
    switch (status) {
    case STATUS_INVALID_ARGUMENT:
        rpc_error_set(error, status, NULL, NULL, "message of more than %zu bytes when decompressed",
                      n_bytes_max);
        return status;
    case STATUS_CORRUPT:
        rpc_error_set(error, STATUS_INVALID_ARGUMENT, NULL, NULL,
                      "message is marked as compressed but is not a gzip stream");
        return STATUS_INVALID_ARGUMENT;
    default:
        rpc_error_set(error, status, NULL, NULL, "%s", status_text(status));
        return status;
    }
}

enum status rpc_byte_buffer_unpack(grpc_byte_buffer *buffer, size_t n_bytes_max,
                                   const ProtobufCMessageDescriptor *descriptor,
                                   uint32_t elements_max, struct rpc_arena *arena,
                                   struct rpc_error *error, ProtobufCMessage **message_out)
{
    grpc_slice slice;
    if (!buffer) {
        rpc_error_set(error, STATUS_INVALID_ARGUMENT, NULL, NULL, "no message was sent");
        return STATUS_INVALID_ARGUMENT;
    }
    enum status status = read_all(buffer, n_bytes_max, &slice);
    if (status != STATUS_OK)
        return refuse(error, status, n_bytes_max);

    struct rpc_guard_limits limits = {
        .depth_max = RPC_GUARD_DEPTH_MAX,
        .elements_max = elements_max ? elements_max : RPC_GUARD_ELEMENTS_MAX,
        .unknown_max = RPC_GUARD_UNKNOWN_MAX,
    };
    size_t n_bytes = GRPC_SLICE_LENGTH(slice);
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
