/*
 * gzip - inflates a message within a bound. For rpc/ only.
 *
 * gRPC checks the size of a compressed message before it inflates it only, so its own inflating is turned
 * off (server.c), and a few KiB that would become gigabytes cost no more than the bound.
 *
 * Thread: any; no state.
 */
#pragma once

#include "base/status.h"

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <stddef.h>

/* slice_out: the caller unrefs it. INVALID_ARGUMENT: more than n_bytes_max come out; CORRUPT: not one whole
 * gzip stream; NO_MEMORY. */
MUST_CHECK enum status rpc_gzip_inflate(grpc_byte_buffer *buffer, size_t n_bytes_max,
                                        grpc_slice *slice_out);
