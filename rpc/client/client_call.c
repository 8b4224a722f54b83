/*
 * A unary call is one batch. A stream is three at once: what is sent, the status, and the headers, which
 * a message follows, renewed until there is none. on_end comes when all are back: messages end before
 * the status does, but their tags may come in any order.
 */
#include "rpc/client/client_call.h"

#include "rpc/auth/call_auth.h"
#include "rpc/byte_buffer.h"
#include "rpc/client/client_state.h"
#include "rpc/request_id.h"
#include "rpc/status_details.h"

#include <assert.h>
#include <grpc/support/time.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define STATUS_KEY "grpc-status-details-bin"

struct rpc_client_call {
    struct rpc_client *client;
    struct rpc_client_call *next; /* in client->calls, under its lock */
    struct rpc_client_call *previous;
    atomic_uint n_holders; /* the caller, and the call itself until its end */
    struct rpc_tag sent;
    struct rpc_tag headed;
    struct rpc_tag received;
    struct rpc_tag ended;
    uint32_t n_tags; /* the starting thread sets it, the queue thread counts down */

    grpc_call *call;
    grpc_metadata headers[RPC_HEADERS_MAX + 1];
    size_t n_headers;
    grpc_byte_buffer *request;
    grpc_byte_buffer *response;
    grpc_metadata_array initial;
    grpc_metadata_array trailing;
    grpc_status_code code;
    grpc_slice sentence;

    const ProtobufCMessageDescriptor *descriptor;
    uint32_t elements_max;
    bool is_stream;
    struct rpc_life *life; /* the incarnation known on the channel */
    bool is_bound;         /* the server must prove that it knows the key */
    bool is_proven;        /* it has proved it */
    struct call_bond bond;
    bool is_refused; /* a message was refused */
    struct rpc_error refusal;
    uint64_t n_messages;
    rpc_client_message on_message;
    rpc_client_end on_end;
    void *arg;
};

static void call_destroy(struct rpc_client_call *call)
{
    struct rpc_client *client = call->client;
    assert(call->n_tags == 0);
    if (call->call)
        grpc_call_unref(call->call);
    if (call->request)
        grpc_byte_buffer_destroy(call->request);
    if (call->response)
        grpc_byte_buffer_destroy(call->response);
    for (size_t i = 0; i < call->n_headers; i++) {
        grpc_slice_unref(call->headers[i].key);
        grpc_slice_unref(call->headers[i].value);
    }
    grpc_metadata_array_destroy(&call->initial);
    grpc_metadata_array_destroy(&call->trailing);
    grpc_slice_unref(call->sentence);
    rpc_life_release(call->life);
    call_bond_wipe(&call->bond);
    free(call);

    pthread_mutex_lock(&client->lock);
    assert(client->n_calls > 0);
    client->n_calls--;
    pthread_cond_broadcast(&client->changed);
    pthread_mutex_unlock(&client->lock);
}

void rpc_client_call_release(struct rpc_client_call *call)
{
    assert(!call || atomic_load(&call->n_holders) > 0);
    if (call && atomic_fetch_sub(&call->n_holders, 1) == 1)
        call_destroy(call);
}

void rpc_client_call_cancel(struct rpc_client_call *call)
{
    grpc_call_cancel(call->call, NULL);
}

void rpc_client_cancel_calls(struct rpc_client *client)
{
    for (struct rpc_client_call *call = client->calls; call; call = call->next)
        rpc_client_call_cancel(call);
}

/* --- the server's proof --- */

static const grpc_slice *find_metadata(const grpc_metadata_array *metadata, const char *key)
{
    const grpc_slice *found = NULL;
    for (size_t i = 0; i < metadata->count; i++)
        if (grpc_slice_str_cmp(metadata->metadata[i].key, key) == 0)
            found = &metadata->metadata[i].value;
    return found;
}

static void look_for_proof(struct rpc_client_call *call, const grpc_metadata_array *metadata,
                           enum call_answer answer, const struct sha256 *digest)
{
    const grpc_slice *proof = find_metadata(metadata, CALL_PROOF_KEY);
    uint64_t life;
    if (!call->is_bound || call->is_proven || !proof ||
        !call_proof_check(&call->bond, answer, digest, (const char *)GRPC_SLICE_START_PTR(*proof),
                          GRPC_SLICE_LENGTH(*proof), &life))
        return;
    call->is_proven = true;
    atomic_store(&call->life->number, life);
}

/* Errors with a code that gRPC itself makes need no proof; other errors without one are not read. */
static void set_unproven(const struct rpc_client_call *call, struct rpc_error *error_out)
{
    switch (call->code) {
    case GRPC_STATUS_CANCELLED:
    case GRPC_STATUS_DEADLINE_EXCEEDED:
    case GRPC_STATUS_RESOURCE_EXHAUSTED:
    case GRPC_STATUS_UNAVAILABLE:
        rpc_error_decode((int)call->code, (const char *)GRPC_SLICE_START_PTR(call->sentence),
                         GRPC_SLICE_LENGTH(call->sentence), NULL, 0, error_out);
        return;
    case GRPC_STATUS_UNAUTHENTICATED:
        rpc_error_set(error_out, STATUS_UNAUTHENTICATED, NULL, NULL,
                      "the other process does not accept this cluster key, or its clock differs by "
                      "more than %u s",
                      CALL_SKEW_S);
        return;
    default:
        rpc_error_set(error_out, STATUS_UNAUTHENTICATED, NULL, NULL,
                      "the other process did not authenticate with the cluster key");
    }
}

/* --- the end --- */

static void decode_end(struct rpc_client_call *call, struct rpc_error *error_out)
{
    if (call->is_refused) {
        *error_out = call->refusal;
        return;
    }
    const grpc_slice *slice = find_metadata(&call->trailing, STATUS_KEY);
    const uint8_t *details = slice ? GRPC_SLICE_START_PTR(*slice) : NULL;
    size_t n_details = slice ? GRPC_SLICE_LENGTH(*slice) : 0;
    if (call->code != GRPC_STATUS_OK && slice) {
        struct sha256 digest;
        call_digest(details, n_details, &digest);
        look_for_proof(call, &call->trailing, CALL_ANSWER_ERROR, &digest);
    }
    if (call->is_bound && !call->is_proven) {
        set_unproven(call, error_out);
        return;
    }
    rpc_error_decode((int)call->code, (const char *)GRPC_SLICE_START_PTR(call->sentence),
                     GRPC_SLICE_LENGTH(call->sentence), details, n_details, error_out);
    if (error_out->status == STATUS_OK && !call->is_stream && call->n_messages != 1)
        rpc_error_set(error_out, STATUS_CORRUPT, NULL, NULL, "%s",
                      "the server ended a unary call without a message");
}

static void remove_call(struct rpc_client_call *call)
{
    struct rpc_client *client = call->client;
    pthread_mutex_lock(&client->lock);
    assert(call->previous || client->calls == call);
    if (call->previous)
        call->previous->next = call->next;
    else
        client->calls = call->next;
    if (call->next)
        call->next->previous = call->previous;
    pthread_mutex_unlock(&client->lock);
}

static void tag_is_in(struct rpc_client_call *call)
{
    assert(call->n_tags > 0 && rpc_runtime_is_current(call->client->runtime));
    if (--call->n_tags > 0)
        return;
    struct rpc_error error;
    decode_end(call, &error);
    remove_call(call);
    call->on_end(call->arg, &error);
    rpc_client_call_release(call);
}

static void refuse(struct rpc_client_call *call, const struct rpc_error *why)
{
    call->is_refused = true;
    call->refusal = *why;
    rpc_client_call_cancel(call);
}

/* Passes the received message to on_message, or cancels the call because of it. */
static void take_message(struct rpc_client_call *call)
{
    ProtobufCMessage *message;
    struct rpc_error error, why;
    assert(call->response && !call->is_refused);
    if (call->is_bound && !call->is_proven) {
        set_unproven(call, &why);
        refuse(call, &why);
        return;
    }
    enum status status = rpc_byte_buffer_unpack(
        call->response, call->client->options.message_bytes_max, call->descriptor,
        call->elements_max, rpc_queue_arena(call->client->runtime), &error, &message);
    grpc_byte_buffer_destroy(call->response);
    call->response = NULL;
    call->n_messages++;
    if (status == STATUS_OK) {
        if (call->on_message)
            call->on_message(call->arg, message);
        return;
    }
    rpc_error_set(&why, STATUS_CORRUPT, error.field, NULL, "the server sent: %s", error.message);
    refuse(call, &why);
}

static void receive_next(struct rpc_client_call *call)
{
    assert(!call->response && !call->is_refused);
    grpc_op operation = {.op = GRPC_OP_RECV_MESSAGE};
    operation.data.recv_message.recv_message = &call->response;
    rpc_queue_start(call->client->runtime, call->call, &operation, 1, &call->received);
}

static void on_sent(struct rpc_tag *tag, bool is_ok)
{
    (void)is_ok; /* the status has the reason */
    tag_is_in(tag->owner);
}

static void on_headed(struct rpc_tag *tag, bool is_ok)
{
    (void)is_ok; /* without headers there is no proof */
    struct rpc_client_call *call = tag->owner;
    look_for_proof(call, &call->initial, CALL_ANSWER_STREAM, NULL);
    receive_next(call); /* only now: a message is unpacked after its sender has proved itself */
}

static void on_received(struct rpc_tag *tag, bool is_ok)
{
    struct rpc_client_call *call = tag->owner;
    if (is_ok && call->response) {
        take_message(call);
        if (!call->is_refused) {
            receive_next(call);
            return;
        }
    }
    tag_is_in(call);
}

static void on_ended(struct rpc_tag *tag, bool is_ok)
{
    (void)is_ok; /* receiving a status always succeeds */
    struct rpc_client_call *call = tag->owner;
    if (!call->is_stream && call->response && call->code == GRPC_STATUS_OK) {
        struct sha256 digest;
        if (call->is_bound) {
            rpc_byte_buffer_digest(call->response, &digest);
            look_for_proof(call, &call->initial, CALL_ANSWER_UNARY, &digest);
        }
        take_message(call);
    }
    tag_is_in(call);
}

/* --- the start --- */

static void add_header(struct rpc_request *request, const char *key, const char *value)
{
    assert(request->n_headers < RPC_HEADERS_MAX);
    request->headers[request->n_headers++] = (struct rpc_header){key, value};
}

void rpc_request_set_origin(struct rpc_request *request, const struct request_origin *origin,
                            struct rpc_origin_text *text)
{
    if (origin->request_id[0])
        add_header(request, RPC_REQUEST_ID_KEY, origin->request_id);
    if (!trace_context_is_some(&origin->trace))
        return;
    traceparent_format(&origin->trace, text->traceparent);
    add_header(request, TRACEPARENT_KEY, text->traceparent);
}

static gpr_timespec grpc_deadline(uint64_t deadline_ns)
{
    uint64_t now_ns = clock_now_ns();
    if (deadline_ns == DEADLINE_NONE || (deadline_ns > now_ns && deadline_ns - now_ns > INT64_MAX))
        return gpr_inf_future(GPR_CLOCK_MONOTONIC);
    uint64_t left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
    return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                        gpr_time_from_nanos((int64_t)left_ns, GPR_TIMESPAN));
}

/* Adds the proof that this process knows the key to the headers. */
static enum status sign(struct rpc_client_call *call, const struct rpc_request *request)
{
    const struct rpc_client_options *options = &call->client->options;
    struct call_terms terms = {.method = request->path,
                               .callee = request->for_any_life ? CALL_ANY_LIFE
                                                               : atomic_load(&call->life->number)};
    char text[CALL_TEXT_MAX];
    rpc_byte_buffer_digest(call->request, &terms.digest);
    TRY(call_auth_sign(options->key, &terms, options->now_ms(), &call->bond, text));
    call->is_bound = true;
    assert(call->n_headers < sizeof call->headers / sizeof *call->headers);
    call->headers[call->n_headers++] = (grpc_metadata){
        .key = grpc_slice_from_static_string(CALL_AUTH_KEY),
        .value = grpc_slice_from_copied_string(text)};
    return STATUS_OK;
}

static struct rpc_client_call *call_create(struct rpc_channel *channel,
                                           const struct rpc_request *request)
{
    struct rpc_client *client = channel->client;
    struct rpc_client_call *call = calloc(1, sizeof *call);
    if (!call)
        return NULL;
    call->client = client;
    atomic_init(&call->n_holders, 1);
    call->sent = (struct rpc_tag){on_sent, call};
    call->headed = (struct rpc_tag){on_headed, call};
    call->received = (struct rpc_tag){on_received, call};
    call->ended = (struct rpc_tag){on_ended, call};
    call->descriptor = request->response;
    call->elements_max = request->elements_max;
    call->is_stream = request->is_stream;
    call->on_message = request->on_message;
    call->on_end = request->on_end;
    call->arg = request->arg;
    call->sentence = grpc_empty_slice();
    grpc_metadata_array_init(&call->initial);
    grpc_metadata_array_init(&call->trailing);
    for (size_t i = 0; i < request->n_headers; i++) {
        call->headers[i].key = grpc_slice_from_copied_string(request->headers[i].key);
        call->headers[i].value = grpc_slice_from_copied_string(request->headers[i].value);
    }
    call->n_headers = request->n_headers;
    call->life = channel->life;
    atomic_fetch_add(&call->life->n_holders, 1);
    size_t n_bytes;
    call->request = rpc_byte_buffer_pack(request->message, &n_bytes);
    void *method = grpc_channel_register_call(channel->channel, request->path, NULL, NULL);
    call->call = grpc_channel_create_registered_call(
        channel->channel, NULL, GRPC_PROPAGATE_DEFAULTS, rpc_queue(client->runtime), method,
        grpc_deadline(request->deadline_ns), NULL);
    return call;
}

static void add_call(struct rpc_client_call *call)
{
    struct rpc_client *client = call->client;
    pthread_mutex_lock(&client->lock);
    client->n_calls++;
    call->next = client->calls;
    if (call->next)
        call->next->previous = call;
    client->calls = call;
    pthread_mutex_unlock(&client->lock);
}

static grpc_op status_operation(struct rpc_client_call *call)
{
    grpc_op operation = {.op = GRPC_OP_RECV_STATUS_ON_CLIENT};
    operation.data.recv_status_on_client.trailing_metadata = &call->trailing;
    operation.data.recv_status_on_client.status = &call->code;
    operation.data.recv_status_on_client.status_details = &call->sentence;
    return operation;
}

static void start_batches(struct rpc_client_call *call, bool wait_for_ready)
{
    grpc_op operations[6];
    memset(operations, 0, sizeof operations);
    operations[0].op = GRPC_OP_SEND_INITIAL_METADATA;
    operations[0].data.send_initial_metadata.count = call->n_headers;
    operations[0].data.send_initial_metadata.metadata = call->headers;
    operations[0].flags = GRPC_INITIAL_METADATA_WAIT_FOR_READY_EXPLICITLY_SET |
                          (wait_for_ready ? GRPC_INITIAL_METADATA_WAIT_FOR_READY : 0);
    operations[1].op = GRPC_OP_SEND_MESSAGE;
    operations[1].data.send_message.send_message = call->request;
    operations[2].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
    operations[3].op = GRPC_OP_RECV_INITIAL_METADATA;
    operations[3].data.recv_initial_metadata.recv_initial_metadata = &call->initial;

    struct rpc_runtime *runtime = call->client->runtime;
    call->n_tags = call->is_stream ? 3 : 1; /* the tags of headers and messages count as one */
    if (!call->is_stream) {
        operations[4].op = GRPC_OP_RECV_MESSAGE;
        operations[4].data.recv_message.recv_message = &call->response;
        operations[5] = status_operation(call);
        rpc_queue_start(runtime, call->call, operations, 6, &call->ended);
        return;
    }
    /* Each batch keeps the call alive until its tag arrives, so the last one may use it, too. */
    grpc_op status = status_operation(call);
    rpc_queue_start(runtime, call->call, &status, 1, &call->ended);
    rpc_queue_start(runtime, call->call, operations, 3, &call->sent);
    rpc_queue_start(runtime, call->call, &operations[3], 1, &call->headed);
}

enum status rpc_channel_start(struct rpc_channel *channel, const struct rpc_request *request,
                              struct rpc_client_call **call_out)
{
    assert(request->on_end && request->n_headers <= RPC_HEADERS_MAX);
    assert(request->path[0] == '/' && request->message && request->response);
    struct rpc_client_call *call = call_create(channel, request);
    if (!call)
        return STATUS_NO_MEMORY;
    add_call(call);
    if (channel->client->options.key) {
        enum status status = sign(call, request);
        if (status != STATUS_OK) {
            remove_call(call);
            rpc_client_call_release(call);
            return status;
        }
    }
    if (call_out) {
        atomic_fetch_add(&call->n_holders, 1);
        *call_out = call;
    }
    if (request->deadline_ns <= clock_now_ns()) /* gRPC's timer might fire after an answer */
        grpc_call_cancel_with_status(call->call, GRPC_STATUS_DEADLINE_EXCEEDED,
                                     status_text(STATUS_TIMED_OUT), NULL);
    start_batches(call, request->wait_for_ready);
    return STATUS_OK;
}

/* --- blocking --- */

struct waiter {
    pthread_mutex_t lock;
    pthread_cond_t over;
    bool is_over;
    struct rpc_error *error_out;
    rpc_client_message on_message;
    void *arg;
};

static void pass_message(void *arg, const ProtobufCMessage *message)
{
    struct waiter *waiter = arg;
    if (waiter->on_message)
        waiter->on_message(waiter->arg, message);
}

static void wake(void *arg, const struct rpc_error *error)
{
    struct waiter *waiter = arg;
    pthread_mutex_lock(&waiter->lock);
    *waiter->error_out = *error;
    waiter->is_over = true;
    pthread_cond_signal(&waiter->over);
    pthread_mutex_unlock(&waiter->lock);
}

enum status rpc_channel_call_wait(struct rpc_channel *channel, const struct rpc_request *request,
                                  struct rpc_error *error_out)
{
    assert(!rpc_runtime_is_current(channel->client->runtime) && !request->on_end);
    struct waiter waiter = {
        .error_out = error_out, .on_message = request->on_message, .arg = request->arg};
    pthread_mutex_init(&waiter.lock, NULL);
    pthread_cond_init(&waiter.over, NULL);
    struct rpc_request waited = *request;
    waited.on_message = pass_message;
    waited.on_end = wake;
    waited.arg = &waiter;

    enum status status = rpc_channel_start(channel, &waited, NULL);
    if (status == STATUS_OK) {
        pthread_mutex_lock(&waiter.lock);
        while (!waiter.is_over)
            pthread_cond_wait(&waiter.over, &waiter.lock);
        pthread_mutex_unlock(&waiter.lock);
        status = error_out->status;
    } else {
        rpc_error_set(error_out, status, NULL, NULL, "%s", status_text(status));
    }
    pthread_cond_destroy(&waiter.over);
    pthread_mutex_destroy(&waiter.lock);
    return status;
}
