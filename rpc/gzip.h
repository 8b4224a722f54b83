/*
 * gzip - inflates a message up to a size limit. For rpc/ only.
 *
 * gRPC checks the size of a compressed message only before it inflates it, so its inflating is turned off
 * (server.c). With this function, a few KiB that would inflate to gigabytes use no more memory than the
 * limit.
 *
 * Thread: any; no state.
 */
#pragma once

#include "base/status.h"

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <stddef.h>

/* slice_out: the caller unrefs it. INVALID_ARGUMENT: the inflated message is larger than n_bytes_max;
 * CORRUPT: not one whole gzip stream; NO_MEMORY. */
MUST_CHECK enum status rpc_gzip_inflate(grpc_byte_buffer *buffer, size_t n_bytes_max,
                                        grpc_slice *slice_out);
