/*
 * byte_buffer - protobuf-c messages in and out of gRPC's byte buffers. For rpc/ only.
 */
#pragma once

#include "base/sha256.h"
#include "rpc/guard.h"

#include <grpc/byte_buffer.h>
#include <protobuf-c/protobuf-c.h>
#include <stddef.h>

/* The caller owns the buffer: grpc_byte_buffer_destroy. */
grpc_byte_buffer *rpc_byte_buffer_pack(const ProtobufCMessage *message, size_t *n_bytes_out);

/* SHA-256 of the bytes as they are on the wire, compressed or not; of none for NULL. */
void rpc_byte_buffer_digest(const grpc_byte_buffer *buffer, struct sha256 *digest_out);

/* Resets arena, guards, and unpacks into it. In place when the buffer is one plain slice; gzip is inflated.
 * buffer NULL (the peer sent no message) is INVALID_ARGUMENT. */
MUST_CHECK enum status rpc_byte_buffer_unpack(grpc_byte_buffer *buffer, size_t n_bytes_max,
                                              const ProtobufCMessageDescriptor *descriptor,
                                              uint32_t elements_max, struct rpc_arena *arena,
                                              struct rpc_error *error,
                                              ProtobufCMessage **message_out);
