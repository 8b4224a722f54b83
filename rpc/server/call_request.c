/* call_request - receives the request of a call and runs its handler: see call_state.h.
 *
 * The headers decide whether a call is accepted. Only accepted calls ask gRPC for a message; gRPC's core discards
 * further input of a refused call. */
#include "rpc/byte_buffer.h"
#include "rpc/server/call.h"
#include "rpc/server/call_state.h"
#include "rpc/server/server_state.h"

#include <assert.h>

static void start_reading(struct rpc_call *call)
{
    assert(!call->is_reading && !call->request);
    grpc_op operation = {.op = GRPC_OP_RECV_MESSAGE};
    operation.data.recv_message.recv_message = &call->request;
    call->is_reading = true;
    call->n_tags++;
    rpc_queue_start(call->server->runtime, call->call, &operation, 1, &call->read);
}

static bool is_bidi(const struct rpc_call *call)
{
    return call->method->row->kind == RPC_BIDI_STREAM;
}

void rpc_call_read_if_quiet(struct rpc_call *call)
{
    bool is_quiet = !call->is_reading && !call->is_sending && !call->unsent;
    if (is_bidi(call) && is_quiet && !call->is_ending && !call->is_over)
        start_reading(call);
}

void rpc_call_await_message(struct rpc_call *call)
{
    pthread_mutex_lock(&call->lock);
    call->is_late = call->method->row->while_draining && !call->is_ending;
    if (call->is_late)
        atomic_fetch_add(&call->server->n_late, 1);
    start_reading(call);
    pthread_mutex_unlock(&call->lock);
}

void rpc_call_leave_late(struct rpc_call *call)
{
    assert(!call->is_late || atomic_load(&call->server->n_late) > 0);
    if (call->is_late)
        atomic_fetch_sub(&call->server->n_late, 1);
    call->is_late = false;
}

bool rpc_call_is_awaiting(struct rpc_call *call)
{
    pthread_mutex_lock(&call->lock);
    bool is_awaiting = call->is_reading && !is_bidi(call);
    pthread_mutex_unlock(&call->lock);
    return is_awaiting;
}

static void refuse(struct rpc_call *call, const struct rpc_error *error)
{
    rpc_server_call_refused(call->server);
    rpc_call_fail(call, error);
}

/* Unpacks call->request and runs the row's handler, or fails the call. */
static void handle(struct rpc_call *call)
{
    const struct rpc_method *row = call->method->row;
    struct rpc_server *server = call->server;
    size_t n_bytes_max = row->request_bytes_max ? row->request_bytes_max
                                                : server->options.message_bytes_max;
    ProtobufCMessage *request;
    struct rpc_error error;
    enum status status = rpc_byte_buffer_unpack(call->request, n_bytes_max, row->request,
                                                row->elements_max, rpc_queue_arena(server->runtime),
                                                &error, &request);
    if (call->request)
        grpc_byte_buffer_destroy(call->request);
    call->request = NULL;
    if (status == STATUS_OK)
        row->handler(call->method->service, call, request);
    else
        refuse(call, &error);
}

/* Called with the one message. call->request is NULL if the client has closed its side without a message. */
static void on_message(struct rpc_call *call)
{
    struct rpc_error error;
    enum status status = STATUS_OK;
    if (call->request && call->method->is_inner)
        status = rpc_call_authenticate_message(call, &error);
    if (status == STATUS_OK)
        status = rpc_server_call_is_whole(call->server, call, &error);
    if (status == STATUS_OK)
        handle(call);
    else
        refuse(call, &error);
}

/* Releases the handler's hold. If the peer has left, a missing answer is not a bug. */
static void on_first_read(struct rpc_call *call, bool is_ok)
{
    bool is_wanted = is_ok && !call->is_ending && !call->is_over;
    bool is_over = call->is_over;
    call->lacks_message = is_wanted && !call->request;
    pthread_mutex_unlock(&call->lock);
    if (is_wanted)
        on_message(call);
    if (!is_over)
        rpc_call_handled(call);
    if (is_wanted) {
        rpc_call_release(call);
        return;
    }
    pthread_mutex_lock(&call->lock);
    assert(call->n_holders > 0);
    call->n_holders--;
    rpc_call_leave(call);
}

static void on_next_read(struct rpc_call *call, bool is_ok)
{
    assert(is_bidi(call));
    call->n_holders++; /* the handler's */
    bool has_message = is_ok && call->request && !call->is_ending && !call->is_over;
    pthread_mutex_unlock(&call->lock);
    if (has_message)
        handle(call);
    else
        rpc_call_finish(call);
    pthread_mutex_lock(&call->lock);
    rpc_call_read_if_quiet(call);
    call->n_holders--;
    rpc_call_leave(call);
}

void rpc_call_on_read(struct rpc_tag *tag, bool is_ok)
{
    struct rpc_call *call = tag->owner;
    pthread_mutex_lock(&call->lock);
    assert(call->n_tags > 0 && call->is_reading);
    call->n_tags--;
    call->is_reading = false;
    rpc_call_leave_late(call);
    if (is_bidi(call))
        on_next_read(call, is_ok);
    else
        on_first_read(call, is_ok);
}
