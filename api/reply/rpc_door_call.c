#include "api/reply/rpc_door_call.h"

#include <assert.h>
#include <stdatomic.h>

static struct rpc_door_call *of(struct door_call *call)
{
    return (struct rpc_door_call *)call;
}

void rpc_door_call_init(struct rpc_door_call *call, const struct door_ops *ops,
                        struct rpc_call *rpc, bool is_whole,
                        void (*destroy)(struct rpc_door_call *call))
{
    call->base = (struct door_call){.ops = ops,
                                    .pass = rpc_call_pass(rpc),
                                    .deadline_ns = rpc_call_deadline_ns(rpc),
                                    .is_whole = is_whole};
    atomic_init(&call->n_holders, 1);
    call->rpc = rpc_call_share(rpc);
    call->destroy = destroy;
}

bool rpc_door_call_try_share(struct rpc_door_call *call)
{
    uint32_t n = atomic_load(&call->n_holders);
    while (n > 0)
        if (atomic_compare_exchange_weak(&call->n_holders, &n, n + 1))
            return true;
    return false;
}

void rpc_door_call_share(struct door_call *call)
{
    uint32_t n = atomic_fetch_add(&of(call)->n_holders, 1);
    assert(n > 0);
    (void)n;
}

void rpc_door_call_release(struct door_call *call)
{
    struct rpc_door_call *self = of(call);
    uint32_t n = atomic_fetch_sub(&self->n_holders, 1);
    assert(n > 0);
    if (n > 1)
        return;
    struct rpc_call *rpc = self->rpc;
    self->destroy(self);
    rpc_call_release(
        rpc); /* last: the server's end waits for its calls, and what is opened with it goes then */
}

bool rpc_door_call_is_over(struct door_call *call)
{
    return rpc_call_is_over(of(call)->rpc);
}

enum status rpc_door_call_end_status(struct door_call *call)
{
    return rpc_call_end_status(of(call)->rpc);
}

void rpc_door_call_on_end(struct door_call *call, void (*on_end)(void *arg, enum status why),
                          void *arg)
{
    rpc_call_on_end(of(call)->rpc, on_end, arg);
}

const char *rpc_door_call_request_id(struct door_call *call)
{
    return rpc_call_request_id(of(call)->rpc);
}

void rpc_door_call_set_request_id(struct door_call *call, const char *id)
{
    rpc_call_set_request_id(of(call)->rpc, id);
}

void rpc_door_call_origin(struct door_call *call, struct request_origin *origin_out)
{
    rpc_call_origin(of(call)->rpc, origin_out);
}

void rpc_door_call_peer(struct door_call *call, char *peer_out, size_t peer_bytes)
{
    rpc_call_peer(of(call)->rpc, peer_out, peer_bytes);
}
