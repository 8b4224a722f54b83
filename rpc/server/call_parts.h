/*
 * call_parts - what call.c has of call_send.c: what is sent of a call. Includes gRPC; for rpc/server/ only.
 *
 * Lock: the call's, where a function takes one that others may know.
 */
#pragma once

#include "rpc/server/call_state.h"

/* Packed, and nobody's yet. NULL: no memory. Owned by who adds or discards it. */
struct rpc_message *rpc_message_create(const struct rpc_call *call,
                                       const ProtobufCMessage *message);
void rpc_message_discard(struct rpc_message *message);
/* One that was added: of those that wait, or in flight. */
void rpc_message_destroy(struct rpc_call *call, struct rpc_message *message);

/* Bytes that the call may have unsent: less when all calls together hold too much. */
size_t rpc_call_unsent_bytes_max(const struct rpc_server *server);
void rpc_call_add_unsent(struct rpc_call *call, struct rpc_message *message);
void rpc_call_drop_unsent(struct rpc_call *call);
/* Starts the one batch that is next: headers with the first, a message, the status with the last.
 * More messages behind this one let gRPC gather them into one write. */
void rpc_call_send_next(struct rpc_call *call);
/* The operation that tells the end, once a call. */
void rpc_call_set_close(struct rpc_call *call, grpc_op *operation);
/* Its value is the caller's to unref. */
grpc_metadata rpc_call_request_id_metadata(const struct rpc_call *call);
