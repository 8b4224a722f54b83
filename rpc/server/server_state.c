#include "rpc/server/server_state.h"

#include "rpc/server/call_state.h"

#include <assert.h>

void rpc_server_call_came(struct rpc_server *server, struct rpc_call *call, uint64_t now_ns)
{
    call->n_holders = 1; /* the handler's hold */
    call->accepted_ns = now_ns;
    rpc_call_take_deadline(call);
    pthread_mutex_lock(&server->lock);
    call->next = server->calls;
    if (call->next)
        call->next->previous = call;
    server->calls = call;
    server->n_open++;
    server->n_accepted++;
    pthread_mutex_unlock(&server->lock);
}

enum status rpc_server_call_limit(struct rpc_server *server, const struct rpc_call *call)
{
    if (!call->method)
        return STATUS_UNIMPLEMENTED;
    const struct rpc_method *row = call->method->row;
    if (atomic_load(&server->is_draining) && !row->while_draining)
        return STATUS_DRAINING;
    if (atomic_load(&server->n_live) >= server->options.calls_max)
        return STATUS_QUEUE_FULL;
    if (row->calls_max > 0 && atomic_load(&call->method->n_live) >= row->calls_max)
        return STATUS_QUEUE_FULL;
    return STATUS_OK;
}

void rpc_server_call_live(struct rpc_server *server, struct rpc_call *call)
{
    call->is_live = true;
    atomic_fetch_add(&server->n_live, 1);
    atomic_fetch_add(&call->method->n_live, 1);
}

enum status rpc_server_call_is_whole(struct rpc_server *server, struct rpc_call *call,
                                     struct rpc_error *error)
{
    enum status status = rpc_server_call_limit(server, call);
    if (status == STATUS_OK)
        rpc_server_call_live(server, call);
    else
        rpc_error_set(error, status, NULL, NULL, "%s", status_text(status));
    return status;
}

void rpc_server_call_refused(struct rpc_server *server)
{
    pthread_mutex_lock(&server->lock);
    server->n_refused++;
    pthread_mutex_unlock(&server->lock);
}

void rpc_server_call_over(struct rpc_server *server)
{
    pthread_mutex_lock(&server->lock);
    assert(server->n_open > 0 && "a call is over once");
    server->n_open--;
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
}

void rpc_server_call_gone(struct rpc_server *server, struct rpc_call *call)
{
    bool was_accepted = call->call != NULL;
    if (was_accepted) {
        pthread_mutex_lock(&server->lock);
        if (call->previous)
            call->previous->next = call->next;
        else
            server->calls = call->next;
        if (call->next)
            call->next->previous = call->previous;
        pthread_mutex_unlock(&server->lock);
    }
    if (call->is_live) {
        atomic_fetch_sub(&server->n_live, 1);
        atomic_fetch_sub(&call->method->n_live, 1);
    }
    rpc_call_destroy(call);

    pthread_mutex_lock(&server->lock);
    assert(server->n_objects > 0);
    server->n_objects--;
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
}
