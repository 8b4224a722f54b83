/*
 * call_parts - the functions of call_send.c, which sends the messages of a call. Includes gRPC; for
 * rpc/server/ only.
 *
 * Lock: the call's lock, for functions whose call other threads may use.
 */
#pragma once

#include "rpc/server/call_state.h"

/* Packs a message. NULL: no memory. The caller owns it until it adds or discards it. */
struct rpc_message *rpc_message_create(const struct rpc_call *call,
                                       const ProtobufCMessage *message);
void rpc_message_discard(struct rpc_message *message);
/* Frees a message that was added, waiting or in flight. */
void rpc_message_destroy(struct rpc_call *call, struct rpc_message *message);

/* How many unsent bytes the call may have: fewer when all calls together hold too many. */
size_t rpc_call_unsent_bytes_max(const struct rpc_server *server);
void rpc_call_add_unsent(struct rpc_call *call, struct rpc_message *message);
void rpc_call_drop_unsent(struct rpc_call *call);
/* Starts the next batch: headers with the first, a message, the status with the last. If more
 * messages follow, gRPC may gather them into one write. */
void rpc_call_send_next(struct rpc_call *call);
/* The operation that reports the end; once for each call. */
void rpc_call_set_close(struct rpc_call *call, grpc_op *operation);
/* The caller unrefs the value. */
grpc_metadata rpc_call_request_id_metadata(const struct rpc_call *call);
