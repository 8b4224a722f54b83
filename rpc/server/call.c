/* call - begins and ends calls: see call.h and call_state.h. call_metadata.c has the metadata,
 * call_request.c the request, call_send.c the replies. */
#include "rpc/server/call.h"

#include "rpc/server/call_parts.h"
#include "rpc/server/server_state.h"
#include "rpc/status_details.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STATUS_KEY "grpc-status-details-bin"

static void on_closed(struct rpc_tag *tag, bool is_ok);
static void on_sent(struct rpc_tag *tag, bool is_ok);

struct rpc_call *rpc_call_create(struct rpc_server *server, struct rpc_server_method *method)
{
    struct rpc_call *call = calloc(1, sizeof *call);
    if (!call)
        return NULL;
    call->server = server;
    call->method = method;
    call->read = (struct rpc_tag){rpc_call_on_read, call};
    call->closed = (struct rpc_tag){on_closed, call};
    call->sent = (struct rpc_tag){on_sent, call};
    call->unsent_end = &call->unsent;
    call->sentence = grpc_empty_slice();
    pthread_mutex_init(&call->lock, NULL);
    grpc_metadata_array_init(&call->metadata);
    grpc_call_details_init(&call->details);
    return call;
}

void rpc_call_destroy(struct rpc_call *call)
{
    assert(call->n_tags == 0 && call->n_holders == 0 && !call->unsent && !call->in_flight);
    assert(call->unsent_bytes == 0 && !call->is_late);
    if (call->request)
        grpc_byte_buffer_destroy(call->request);
    for (size_t i = 0; i < call->n_trailers; i++)
        grpc_slice_unref(call->trailers[i].value);
    grpc_slice_unref(call->sentence);
    for (size_t i = 0; i < call->n_headers; i++)
        grpc_slice_unref(call->headers[i].value);
    call_bond_wipe(&call->bond);
    grpc_metadata_array_destroy(&call->metadata);
    grpc_call_details_destroy(&call->details);
    if (call->call)
        grpc_call_unref(call->call);
    if (call->pass)
        call->server->options.doorkeeper->destroy(call->server->options.doorkeeper->arg,
                                                  call->pass);
    pthread_mutex_destroy(&call->lock);
    free(call);
}

/* --- under the call's lock --- */

/* Runs before the end is sent: a client that has seen the end of a call must find its slot free. */
static void leave_door(struct rpc_call *call)
{
    const struct rpc_doorkeeper *doorkeeper = call->server->options.doorkeeper;
    if (call->pass && !call->has_left)
        doorkeeper->leave(doorkeeper->arg, call->pass);
    call->has_left = true;
}

static void end(struct rpc_call *call, enum status status)
{
    assert(!call->is_ending && !call->is_over);
    leave_door(call);
    call->is_ending = true;
    call->end_status = status;
    if (!call->is_sending)
        rpc_call_send_next(call);
}

static void fail_locked(struct rpc_call *call, const struct rpc_error *error)
{
    uint8_t details[RPC_STATUS_DETAILS_MAX];
    struct rpc_error named = *error;
    memcpy(named.request_id, call->request_id, sizeof named.request_id);
    assert(call->n_trailers == 0);
    size_t n_details = rpc_error_encode(&named, details);
    call->trailers[call->n_trailers].key = grpc_slice_from_static_string(STATUS_KEY);
    call->trailers[call->n_trailers++].value = grpc_slice_from_copied_buffer((const char *)details,
                                                                             n_details);
    if (call->request_id[0])
        call->trailers[call->n_trailers++] = rpc_call_request_id_metadata(call);
    if (call->is_bound) {
        struct sha256 digest;
        call_digest(details, n_details, &digest);
        call->trailers[call->n_trailers++] = rpc_call_proof(call, CALL_ANSWER_ERROR, &digest);
    }
    call->sentence = grpc_slice_from_copied_string(error->message);
    end(call, error->status);
}

/* If messages wait for flow control, gRPC itself ends the call. This end overtakes the messages, but has
 * no details. So its sentence begins with the reason and ends with the request id. */
static void kill_locked(struct rpc_call *call, enum status why)
{
    if (!call->is_over && !call->is_ending && !call->is_sending) { /* no message waits */
        struct rpc_error error;
        rpc_error_set(&error, why, NULL, NULL, "%s", status_text(why));
        fail_locked(call, &error);
        return;
    }
    bool is_all_sent = call->has_sent_status && !call->is_sending;
    if (call->is_over || call->is_killed || is_all_sent)
        return;
    leave_door(call);
    call->is_killed = true;
    call->is_ending = true;
    call->has_sent_status = true; /* nothing more is sent */
    call->end_status = why;
    rpc_call_drop_unsent(call);
    if (why == STATUS_SLOW_READER)
        atomic_fetch_add(&call->server->slow_reader_cancels, 1);
    char sentence[128 + RPC_REQUEST_ID_MAX];
    snprintf(sentence, sizeof sentence, "%s: %s (request %s)", status_reason(why), status_text(why),
             call->request_id);
    grpc_call_cancel_with_status(call->call, (grpc_status_code)status_grpc_code(why), sentence,
                                 NULL);
}

/* Whether the deadline caused the cancellation. The client's own timer ends the call a little before
 * the server's deadline: the timeout in the header is rounded up, by at most one part in 64. */
static enum status cancel_cause(const struct rpc_call *call)
{
    uint64_t now_ns = clock_now_ns();
    uint64_t slack_ns = 10 * NS_PER_MS;
    if (call->deadline_ns == DEADLINE_NONE)
        return STATUS_CANCELLED;
    if (call->deadline_ns > call->accepted_ns)
        slack_ns += (call->deadline_ns - call->accepted_ns) / 64;
    return now_ns + slack_ns >= call->deadline_ns ? STATUS_TIMED_OUT : STATUS_CANCELLED;
}

static void set_over(struct rpc_call *call)
{
    assert(!call->is_over && call->is_watched);
    leave_door(call);
    rpc_call_leave_late(call); /* while it still counts as open */
    call->is_over = true;
    bool was_failed = call->is_ending && call->end_status != STATUS_OK;
    /* The error for a missing message is not the cause if the client has left. */
    bool has_cause = was_failed && (!call->lacks_message || call->is_killed);
    if (call->is_cancelled && !has_cause)
        call->end_status = cancel_cause(call);
    rpc_call_drop_unsent(call);
}

void rpc_call_leave(struct rpc_call *call)
{
    bool is_gone = call->n_holders == 0 && call->n_tags == 0;
    pthread_mutex_unlock(&call->lock);
    if (is_gone)
        rpc_server_call_gone(call->server, call);
}

/* As rpc_call_leave, after set_over: runs on_end first, without the lock. */
static void leave_over(struct rpc_call *call)
{
    struct rpc_server *server = call->server;
    rpc_call_end on_end = call->on_end;
    void *arg = call->on_end_arg;
    enum status why = call->end_status;
    call->on_end = NULL;
    if (server->options.call_counters)
        call_counters_count(server->options.call_counters,
                            call->method ? call->method->counted : NULL, why);
    rpc_call_leave(call);
    if (on_end)
        on_end(arg, why);
    rpc_server_call_over(server);
}

/* --- tags --- */

static void on_sent(struct rpc_tag *tag, bool is_ok)
{
    struct rpc_call *call = tag->owner;
    pthread_mutex_lock(&call->lock);
    assert(call->n_tags > 0 && call->is_sending);
    call->n_tags--;
    call->is_sending = false;
    if (call->in_flight)
        rpc_message_destroy(call, call->in_flight);
    call->in_flight = NULL;
    if (call->sent_tells_end) {
        set_over(call);
        leave_over(call);
        return;
    }
    if (is_ok)
        rpc_call_send_next(call);
    else
        rpc_call_drop_unsent(call); /* the peer has left: the end will be reported soon */
    rpc_call_read_if_quiet(call);
    void (*on_quiet)(void *arg) = is_ok && !call->is_sending && !call->is_ending && !call->is_over
                                      ? call->on_quiet
                                      : NULL;
    void *arg = call->on_quiet_arg;
    rpc_call_leave(call);
    if (on_quiet) /* the end comes on this thread, too: arg is still there */
        on_quiet(arg);
}

static void on_closed(struct rpc_tag *tag, bool is_ok)
{
    struct rpc_call *call = tag->owner;
    pthread_mutex_lock(&call->lock);
    assert(call->n_tags > 0 && !call->sent_tells_end);
    call->n_tags--;
    if (!is_ok)
        call->is_cancelled = 1;
    set_over(call);
    leave_over(call);
}

/* --- for the server --- */

void rpc_call_handled(struct rpc_call *call)
{
    pthread_mutex_lock(&call->lock);
    assert(!call->is_over &&
           "its end comes on this thread: a drain never misses a handler that runs");
    if (!call->is_watched) {
        grpc_op operation = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER};
        rpc_call_set_close(call, &operation);
        call->n_tags++;
        rpc_queue_start(call->server->runtime, call->call, &operation, 1, &call->closed);
    }
    if (call->method)
        rpc_call_read_if_quiet(call);
    pthread_mutex_unlock(&call->lock);
}

void rpc_call_kill(struct rpc_call *call, enum status why)
{
    pthread_mutex_lock(&call->lock);
    kill_locked(call, why);
    pthread_mutex_unlock(&call->lock);
}

void rpc_call_check_time(struct rpc_call *call, uint64_t now_ns, uint64_t stopped_ns)
{
    uint64_t slow_reader_ns = call->server->options.slow_reader_ns;
    pthread_mutex_lock(&call->lock);
    if (call->is_sending)
        call->send_start_ns += stopped_ns;
    if (call->is_sending && now_ns > call->send_start_ns &&
        now_ns - call->send_start_ns > slow_reader_ns)
        kill_locked(call, STATUS_SLOW_READER);
    else if (now_ns >= call->deadline_ns)
        kill_locked(call, STATUS_TIMED_OUT);
    pthread_mutex_unlock(&call->lock);
}

/* --- for services --- */

struct rpc_call *rpc_call_share(struct rpc_call *call)
{
    pthread_mutex_lock(&call->lock);
    assert(call->n_holders > 0);
    call->n_holders++;
    pthread_mutex_unlock(&call->lock);
    return call;
}

void rpc_call_release(struct rpc_call *call)
{
    if (!call)
        return;
    pthread_mutex_lock(&call->lock);
    assert(call->n_holders > 0);
    bool is_forgotten = call->n_holders == 1 && !call->is_ending && !call->is_over &&
                        (!call->method || call->method->row->kind != RPC_BIDI_STREAM);
    pthread_mutex_unlock(&call->lock);
    if (is_forgotten)
        rpc_call_fail_status(call, STATUS_BUG, "%s", "the call was left without an answer");

    pthread_mutex_lock(&call->lock);
    call->n_holders--;
    rpc_call_leave(call);
}

enum status rpc_call_send(struct rpc_call *call, const ProtobufCMessage *message)
{
    assert(call->method->row->kind != RPC_UNARY);
    struct rpc_message *packed = rpc_message_create(call, message);
    if (!packed)
        return STATUS_NO_MEMORY;

    enum status status = STATUS_OK;
    pthread_mutex_lock(&call->lock);
    if (call->is_ending || call->is_over) {
        status = STATUS_CANCELLED;
    } else if (call->unsent_bytes > 0 &&
               call->unsent_bytes + packed->cost_bytes >
                   rpc_call_unsent_bytes_max(call->server) + call->kept_bytes_max) {
        kill_locked(call, STATUS_SLOW_READER);
        status = STATUS_QUEUE_FULL;
    } else {
        rpc_call_add_unsent(call, packed);
        if (!call->is_sending)
            rpc_call_send_next(call);
    }
    pthread_mutex_unlock(&call->lock);
    if (status != STATUS_OK)
        rpc_message_discard(packed);
    return status;
}

void rpc_call_finish(struct rpc_call *call)
{
    assert(call->method->row->kind != RPC_UNARY);
    pthread_mutex_lock(&call->lock);
    if (!call->is_ending && !call->is_over)
        end(call, STATUS_OK);
    pthread_mutex_unlock(&call->lock);
}

void rpc_call_reply(struct rpc_call *call, const ProtobufCMessage *message)
{
    assert(call->method->row->kind == RPC_UNARY);
    struct rpc_message *packed = rpc_message_create(call, message);
    if (!packed) {
        rpc_call_fail_status(call, STATUS_NO_MEMORY, "%s", status_text(STATUS_NO_MEMORY));
        return;
    }
    pthread_mutex_lock(&call->lock);
    if (call->is_ending || call->is_over) {
        rpc_message_discard(packed);
    } else {
        rpc_call_add_unsent(call, packed);
        end(call, STATUS_OK);
    }
    pthread_mutex_unlock(&call->lock);
}

void rpc_call_fail(struct rpc_call *call, const struct rpc_error *error)
{
    assert(error->status != STATUS_OK);
    pthread_mutex_lock(&call->lock);
    if (!call->is_ending && !call->is_over)
        fail_locked(call, error);
    pthread_mutex_unlock(&call->lock);
}

void rpc_call_fail_status(struct rpc_call *call, enum status status, const char *format, ...)
{
    char sentence[2 * sizeof((struct rpc_error *)0)->message];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);

    struct rpc_error error;
    rpc_error_set(&error, status, NULL, NULL, "%s", sentence);
    rpc_call_fail(call, &error);
}

void *rpc_call_pass(const struct rpc_call *call)
{
    return call->pass;
}

void rpc_call_on_end(struct rpc_call *call, rpc_call_end on_end, void *arg)
{
    pthread_mutex_lock(&call->lock);
    assert(!call->on_end);
    bool is_over = call->is_over;
    enum status why = call->end_status;
    if (!is_over) {
        call->on_end = on_end;
        call->on_end_arg = arg;
    }
    pthread_mutex_unlock(&call->lock);
    if (is_over)
        on_end(arg, why);
}

void rpc_call_on_quiet(struct rpc_call *call, void (*on_quiet)(void *arg), void *arg)
{
    pthread_mutex_lock(&call->lock);
    if (!call->is_ending && !call->is_over) {
        assert(!call->on_quiet && !call->has_sent_headers);
        call->on_quiet = on_quiet;
        call->on_quiet_arg = arg;
    }
    pthread_mutex_unlock(&call->lock);
}

void rpc_call_keeps(struct rpc_call *call, size_t bytes_max)
{
    pthread_mutex_lock(&call->lock);
    call->kept_bytes_max = bytes_max;
    pthread_mutex_unlock(&call->lock);
}

bool rpc_call_is_over(struct rpc_call *call)
{
    pthread_mutex_lock(&call->lock);
    bool is_over = call->is_over || (call->is_ending && call->has_sent_status);
    pthread_mutex_unlock(&call->lock);
    return is_over;
}

enum status rpc_call_end_status(struct rpc_call *call)
{
    pthread_mutex_lock(&call->lock);
    enum status status = call->end_status;
    pthread_mutex_unlock(&call->lock);
    return status;
}

uint64_t rpc_call_deadline_ns(const struct rpc_call *call)
{
    return call->deadline_ns;
}
