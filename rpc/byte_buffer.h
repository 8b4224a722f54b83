/*
 * byte_buffer - packs protobuf-c messages into gRPC's byte buffers, and unpacks them. For rpc/
 * only.
 */
#pragma once

#include "base/sha256.h"
#include "rpc/guard.h"

#include <grpc/byte_buffer.h>
#include <protobuf-c/protobuf-c.h>
#include <stddef.h>

/* The caller owns the buffer: grpc_byte_buffer_destroy. */
grpc_byte_buffer *rpc_byte_buffer_pack(const ProtobufCMessage *message, size_t *n_bytes_out);

/* SHA-256 of the bytes on the wire, compressed or not; for NULL, of no bytes. */
void rpc_byte_buffer_digest(const grpc_byte_buffer *buffer, struct sha256 *digest_out);

/* Resets arena, checks the message with the guard, and unpacks it into arena. One plain slice is read in
 * place; gzip is inflated. INVALID_ARGUMENT also: buffer is NULL (the peer sent no message). */
MUST_CHECK enum status rpc_byte_buffer_unpack(grpc_byte_buffer *buffer, size_t n_bytes_max,
                                              const ProtobufCMessageDescriptor *descriptor,
                                              uint32_t elements_max, struct rpc_arena *arena,
                                              struct rpc_error *error,
                                              ProtobufCMessage **message_out);
