/*
 * guard - checks a wire message against its descriptor before protobuf-c unpacks it.
 *
 * protobuf-c recurses on depth, merges repeated singular messages in quadratic time, allocates for
 * each element, and accepts any bytes as a string. The guard walks the wire once, allocates
 * nothing, and refuses: varints over 10 bytes, tag 0 or over 32 bits, groups, a wire type that
 * does not fit, lengths past the end, nesting over depth_max, more than elements_max elements in
 * all, more than unknown_max unknown fields, a second occurrence of a singular field or of a
 * member of one oneof, and strings that are not UTF-8 or contain NUL. Strings that may hold U+0000 are
 * bytes in C (proto/README.md): their readers check them.
 *
 * Thread: any; no state.
 */
#pragma once

#include "base/status.h"
#include "rpc/arena.h"
#include "rpc/rpc_error.h"

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>
#include <stdint.h>

#define RPC_GUARD_DEPTH_MAX    8    /* levels of sub-messages */
#define RPC_GUARD_UNKNOWN_MAX  64   /* unknown fields in a message and its sub-messages */
#define RPC_GUARD_ELEMENTS_MAX 4096 /* default of methods without a limit */

struct rpc_guard_limits {
    uint32_t depth_max;
    uint32_t elements_max; /* repeated elements of the message and its sub-messages */
    uint32_t unknown_max;
};

/* INVALID_ARGUMENT: error has the path of the field and a sentence. */
MUST_CHECK enum status rpc_guard_check(const ProtobufCMessageDescriptor *descriptor,
                                       const uint8_t *bytes, size_t n_bytes,
                                       const struct rpc_guard_limits *limits,
                                       struct rpc_error *error);

/* The same, then unpacks into arena, which the caller has reset. The message lives until the next
 * reset of arena; never call free_unpacked on it. INVALID_ARGUMENT also: over the arena's cap. */
MUST_CHECK enum status rpc_guard_unpack(const ProtobufCMessageDescriptor *descriptor,
                                        const uint8_t *bytes, size_t n_bytes,
                                        const struct rpc_guard_limits *limits,
                                        struct rpc_arena *arena, struct rpc_error *error,
                                        ProtobufCMessage **message_out);
