/*
 * guard_fuzz - whatever the guard allows, protobuf-c unpacks: within the arena's cap, into strings
 * that end where they were said to, and packing it again is allowed as well. The same bytes are
 * also read as status details and as a descriptor set, which come from peers and from disk.
 */
#include "google/rpc/status.pb-c.h"
#include "kvferry/v1/generation.pb-c.h"
#include "rpc/guard.h"
#include "rpc/server/descriptor_index.h"
#include "rpc/status_details.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

static const struct rpc_guard_limits LIMITS = {RPC_GUARD_DEPTH_MAX, 1000, RPC_GUARD_UNKNOWN_MAX};

static void require(int holds)
{
    if (!holds)
        abort();
}

/* Unpacked strings must be as long as the packed form says: no NUL got in. */
static void check_again(const ProtobufCMessageDescriptor *descriptor, ProtobufCMessage *message)
{
    size_t n_packed = protobuf_c_message_get_packed_size(message);
    uint8_t *packed = malloc(n_packed ? n_packed : 1);
    require(protobuf_c_message_pack(message, packed) == n_packed);
    struct rpc_error error;
    require(rpc_guard_check(descriptor, packed, n_packed, &LIMITS, &error) == STATUS_OK);
    free(packed);
}

static void guard(const ProtobufCMessageDescriptor *descriptor, const uint8_t *bytes,
                  size_t n_bytes)
{
    struct rpc_arena arena;
    struct rpc_error error;
    ProtobufCMessage *message;
    size_t cap = (256u << 10) + 8 * n_bytes;
    rpc_arena_init(&arena);
    rpc_arena_reset(&arena, cap);
    enum status checked = rpc_guard_check(descriptor, bytes, n_bytes, &LIMITS, &error);
    enum status status = rpc_guard_unpack(descriptor, bytes, n_bytes, &LIMITS, &arena, &error,
                                          &message);
    require(arena.total_bytes <= cap);
    require(checked == STATUS_OK || status == checked);
    if (status == STATUS_OK)
        check_again(descriptor, message);
    else
        require(error.message[0] != '\0');
    rpc_arena_finish(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    if (n_bytes == 0)
        return 0;
    const uint8_t *body = bytes + 1;
    size_t n_body = n_bytes - 1;
    struct rpc_error error;
    struct rpc_descriptor_index *index;
    switch (bytes[0] % 4) {
    case 0:
        guard(&kvferry__v1__generate_request__descriptor, body, n_body);
        break;
    case 1:
        guard(&google__rpc__status__descriptor, body, n_body);
        break;
    case 2:
        rpc_error_decode(8, "", 0, body, n_body, &error);
        break;
    default:
        if (rpc_descriptor_index_create(body, n_body, &index) == STATUS_OK)
            rpc_descriptor_index_destroy(index);
    }
    return 0;
}
