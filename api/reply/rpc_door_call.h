/*
 * rpc_door_call - what a door_call over gRPC does the same way in every protocol: it is the rpc_call, with holders of its own.
 *
 * Thread: as door_ops.
 */
#pragma once

#include "router/requests/door.h"
#include "rpc/server/call.h"

struct rpc_door_call {
    struct door_call base; /* first */
    _Atomic uint32_t n_holders;
    struct rpc_call *rpc;
    void (*destroy)(struct rpc_door_call *call); /* frees the object that it is a part of */
};

/* Members of a protocol's door_ops. */
#define RPC_DOOR_OPS                                                                               \
    .share = rpc_door_call_share, .release = rpc_door_call_release,                                \
    .is_over = rpc_door_call_is_over, .end_status = rpc_door_call_end_status,                      \
    .on_end = rpc_door_call_on_end, .request_id = rpc_door_call_request_id,                        \
    .set_request_id = rpc_door_call_set_request_id, .origin = rpc_door_call_origin,                \
    .peer = rpc_door_call_peer

/* One holder, the caller; takes one of rpc. */
void rpc_door_call_init(struct rpc_door_call *call, const struct door_ops *ops,
                        struct rpc_call *rpc, bool is_whole,
                        void (*destroy)(struct rpc_door_call *call));
/* As share, but for who only knows of the call: false when its last holder has let go. */
bool rpc_door_call_try_share(struct rpc_door_call *call);

/* door_ops of these names. */
void rpc_door_call_share(struct door_call *call);
void rpc_door_call_release(struct door_call *call);
bool rpc_door_call_is_over(struct door_call *call);
enum status rpc_door_call_end_status(struct door_call *call);
void rpc_door_call_on_end(struct door_call *call, void (*on_end)(void *arg, enum status why),
                          void *arg);
const char *rpc_door_call_request_id(struct door_call *call);
void rpc_door_call_set_request_id(struct door_call *call, const char *id);
void rpc_door_call_origin(struct door_call *call, struct request_origin *origin_out);
void rpc_door_call_peer(struct door_call *call, char *peer_out, size_t peer_bytes);
