/* call_send - sends the headers, messages and status of a call, and keeps messages that wait. See call.h and
 * call_state.h. */
#include "rpc/byte_buffer.h"
#include "rpc/request_id.h"
#include "rpc/server/call_parts.h"
#include "rpc/server/server_state.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGE_COST_BYTES 64 /* overhead of a message: the buffer and its list node */

void rpc_message_destroy(struct rpc_call *call, struct rpc_message *message)
{
    assert(message->cost_bytes <= call->unsent_bytes);
    call->unsent_bytes -= message->cost_bytes;
    atomic_fetch_sub(&call->server->buffered_bytes, message->cost_bytes);
    grpc_byte_buffer_destroy(message->buffer);
    free(message);
}

void rpc_call_drop_unsent(struct rpc_call *call)
{
    while (call->unsent) {
        struct rpc_message *message = call->unsent;
        call->unsent = message->next;
        rpc_message_destroy(call, message);
    }
    call->unsent_end = &call->unsent;
}

static struct rpc_message *take_unsent(struct rpc_call *call)
{
    struct rpc_message *message = call->unsent;
    if (!message)
        return NULL;
    call->unsent = message->next;
    if (!call->unsent)
        call->unsent_end = &call->unsent;
    return message;
}

void rpc_call_add_unsent(struct rpc_call *call, struct rpc_message *message)
{
    call->unsent_bytes += message->cost_bytes;
    atomic_fetch_add(&call->server->buffered_bytes, message->cost_bytes);
    *call->unsent_end = message;
    call->unsent_end = &message->next;
}

static void set_status_operation(struct rpc_call *call, grpc_op *operation)
{
    operation->op = GRPC_OP_SEND_STATUS_FROM_SERVER;
    operation->data.send_status_from_server.status = (grpc_status_code)status_grpc_code(
        call->end_status);
    if (call->end_status != STATUS_OK)
        operation->data.send_status_from_server.status_details = &call->sentence;
    operation->data.send_status_from_server.trailing_metadata_count = call->n_trailers;
    operation->data.send_status_from_server.trailing_metadata = call->trailers;
    call->has_sent_status = true;
}

void rpc_call_set_close(struct rpc_call *call, grpc_op *operation)
{
    assert(!call->is_watched);
    operation->op = GRPC_OP_RECV_CLOSE_ON_SERVER;
    operation->data.recv_close_on_server.cancelled = &call->is_cancelled;
    call->is_watched = true;
}

grpc_metadata rpc_call_request_id_metadata(const struct rpc_call *call)
{
    return (grpc_metadata){.key = grpc_slice_from_static_string(RPC_REQUEST_ID_KEY),
                           .value = grpc_slice_from_copied_string(call->request_id)};
}

/* The proof for the headers. In a unary call it covers the one message. */
static grpc_metadata proof_before(const struct rpc_call *call)
{
    struct sha256 digest;
    if (call->method->row->kind != RPC_UNARY || !call->unsent)
        return rpc_call_proof(call, CALL_ANSWER_STREAM, NULL);
    rpc_byte_buffer_digest(call->unsent->buffer, &digest);
    return rpc_call_proof(call, CALL_ANSWER_UNARY, &digest);
}

/* Headers are sent only with a message. An error before the first message has no headers
 * ("Trailers-Only"): so clients know that they may retry the request. */
static void set_headers_operation(struct rpc_call *call, grpc_op *operation)
{
    assert(call->n_headers == 0);
    operation->op = GRPC_OP_SEND_INITIAL_METADATA;
    call->has_sent_headers = true;
    if (call->is_ending && call->end_status != STATUS_OK && !call->unsent)
        return;
    call->headers[call->n_headers++] = rpc_call_request_id_metadata(call);
    if (call->is_bound)
        call->headers[call->n_headers++] = proof_before(call);
    operation->data.send_initial_metadata.count = call->n_headers;
    operation->data.send_initial_metadata.metadata = call->headers;
}

void rpc_call_send_next(struct rpc_call *call)
{
    assert(!call->is_sending);
    if (call->is_over || call->has_sent_status || (!call->unsent && !call->is_ending))
        return;
    grpc_op operations[4];
    size_t n = 0;
    memset(operations, 0, sizeof operations);
    if (!call->has_sent_headers)
        set_headers_operation(call, &operations[n++]);
    call->in_flight = take_unsent(call);
    if (call->in_flight) {
        operations[n].op = GRPC_OP_SEND_MESSAGE;
        operations[n].flags = call->unsent ? GRPC_WRITE_BUFFER_HINT : 0;
        operations[n++].data.send_message.send_message = call->in_flight->buffer;
    }
    if (call->is_ending && !call->unsent) {
        set_status_operation(call, &operations[n++]);
        if (!call->is_watched) {
            rpc_call_set_close(call, &operations[n++]);
            call->sent_tells_end = true;
        }
    }
    call->is_sending = true;
    call->send_start_ns = clock_now_ns();
    call->n_tags++;
    rpc_queue_start(call->server->runtime, call->call, operations, n, &call->sent);
}

size_t rpc_call_unsent_bytes_max(const struct rpc_server *server)
{
    const struct rpc_server_options *options = &server->options;
    uint64_t limit = options->call_buffer_bytes_max;
    assert(options->calls_max > 0);
    if (atomic_load(&server->buffered_bytes) > options->buffered_bytes_max) {
        uint64_t share = options->buffered_bytes_max / options->calls_max;
        limit = share < limit ? share : limit;
    }
    return (size_t)limit;
}

struct rpc_message *rpc_message_create(const struct rpc_call *call, const ProtobufCMessage *message)
{
    assert(message->descriptor == call->method->row->response);
    struct rpc_message *packed = calloc(1, sizeof *packed);
    if (!packed)
        return NULL;
    size_t n_bytes;
    packed->buffer = rpc_byte_buffer_pack(message, &n_bytes);
    packed->cost_bytes = n_bytes + MESSAGE_COST_BYTES;
    return packed;
}

void rpc_message_discard(struct rpc_message *message)
{
    grpc_byte_buffer_destroy(message->buffer);
    free(message);
}
