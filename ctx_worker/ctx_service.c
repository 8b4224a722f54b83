#include "ctx_worker/ctx_service.h"

#include "base/clock.h"
#include "base/log/log.h"
#include "base/secret.h"
#include "ctx_worker/ctx_record.h"
#include "engine/engine_thread.h"
#include "process/caller.h"
#include "rpc/borrow.h"
#include "sampling_params/sampling_codec.h"
#include "worker_common/request_codec.h"
#include "worker_common/worker_stream.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* A prompt of the longest context that a model may have, and the rules of a request. */
#define PREFILL_ELEMENTS_MAX ((1u << 20) + TOKEN_RULES_ELEMENTS_MAX)
#define UNARY_CALLS_MAX      1024u /* of each method: the engine's calls_max is above their sum */

/* One Prefill call. */
struct prefill_stream {
    struct worker_stream base;
    struct ctx_service *service;
    struct ctx_record record; /* the engine's, once it knows the stream, as all below */
    bool has_place;
    bool takes_end; /* the caller does */
    bool is_last;   /* the first token was said: what comes are the last blocks and the seal */
    /* Kept for the message of the seal; EVENT_BACKLOG: none is. */
    struct prefill_event first, ready;
};

static void fail(struct rpc_call *call, enum status status, const struct error *error)
{
    rpc_call_fail_status(call, status, "%s", error->text[0] ? error->text : status_text(status));
}

/* ---- Describe ---- */

/* The caller may read from this worker, and gets its identity. */
static enum status admit(const struct ctx_service *service,
                         const Kvferry__Internal__V1__DescribeRequest *request,
                         struct identity_message *callee_out, struct error *error)
{
    struct worker_identity caller;
    struct cluster_key *key = service->process->auth.key;
    const struct identity_way way_in = {key, IDENTITY_CALLER,
                                        service->identity->address.incarnation};
    TRY(identity_decode(request->caller, &way_in, &caller, error));
    const struct identity_way way_out = {key, IDENTITY_CALLEE, caller.address.incarnation};
    assert(service->lives && service->sender && "set before process_serving");
    enum status status = identity_match(service->identity, &caller, IDENTITY_ALLOWS_ALL, error);
    if (status == STATUS_OK)
        status = described_lives_note(service->lives, &caller.address, error);
    if (status == STATUS_OK)
        status = kv_sender_admit(service->sender, &caller.address);
    secret_wipe(caller.address.secret, sizeof caller.address.secret);
    if (status != STATUS_OK)
        return status;
    TRY(identity_encode(service->identity, &way_out, callee_out, error));
    adapter_set_describe(service->adapters, callee_out);
    log_event(LOG_INFO, &(struct log_about){.peer = caller.name}, "described",
              LOG_HEX("incarnation", caller.address.incarnation));
    return STATUS_OK;
}

static void describe(void *arg, struct rpc_call *call, const ProtobufCMessage *message)
{
    struct ctx_service *service = arg;
    enum status status = process_refuses(service->process);
    if (status != STATUS_OK) {
        rpc_call_fail_status(call, status, "%s", status_text(status));
        return;
    }
    const Kvferry__Internal__V1__DescribeRequest
        *request = (const Kvferry__Internal__V1__DescribeRequest *)message;
    struct identity_message callee;
    struct error error = {0};
    status = admit(service, request, &callee, &error);
    if (status != STATUS_OK) {
        log_event(
            LOG_WARN, &(struct log_about){.peer = request->caller ? request->caller->name : "?"},
            "describe refused", LOG_TEXT("why", error.text[0] ? error.text : status_text(status)));
        fail(call, status, &error);
        return;
    }
    Kvferry__Internal__V1__DescribeResponse response =
        KVFERRY__INTERNAL__V1__DESCRIBE_RESPONSE__INIT;
    response.callee = &callee.message;
    rpc_call_reply(call, &response.base);
}

/* ---- Prefill ---- */

static void on_left(struct worker_stream *stream)
{
    ctx_engine_stream_ended(((struct prefill_stream *)stream)->service->engine, stream);
}

static enum status copy_transfer_id(const ProtobufCBinaryData *from, struct transfer_id *id_out,
                                    struct error *error)
{
    if (from->len != sizeof id_out->bytes)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "transfer_id has %zu bytes; it must be %zu", from->len,
                         sizeof id_out->bytes);
    memcpy(id_out->bytes, from->data, sizeof id_out->bytes);
    return STATUS_OK;
}

static uint64_t caller_of(struct rpc_call *call)
{
    char peer[128];
    rpc_call_peer(call, peer, sizeof peer);
    return caller_of_peer(peer);
}

static enum status start_prefill(struct ctx_service *service, struct prefill_stream *stream,
                                 const Kvferry__Internal__V1__PrefillRequest *message,
                                 struct error *error)
{
    assert(service->engine && service->identity && "set before process_serving");
    stream->record.block_bytes = geometry_block_bytes(&service->identity->geometry);
    struct transfer_id transfer_id;
    struct decoded_request decoded;
    TRY(copy_transfer_id(&message->transfer_id, &transfer_id, error));
    TRY(request_decode(&REQUEST_FIELDS_OF(message), service->vocabulary, service->adapters,
                       &decoded, error));
    decoded.input.deadline_ns = rpc_call_deadline_ns(stream->base.call);
    struct ctx_prefill_request request = {
        .input = decoded.input,
        .transfer_id = transfer_id,
        .held_tokens = message->held_tokens,
        .caller = caller_of(stream->base.call),
        .caller_incarnation = message->caller_incarnation,
        .callee_incarnation = message->callee_incarnation,
        .takes_backlog = message->takes_backlog,
        .reader_step_ns = message->step_ns,
    };
    const enum status status = ctx_engine_prefill(service->engine, stream, &request, error);
    request_forget(&decoded);
    return status;
}

static void begin_record(struct prefill_stream *stream,
                         const Kvferry__Internal__V1__PrefillRequest *request)
{
    const struct ctx_service *service = stream->service;
    struct ctx_record *record = &stream->record;
    record->tracer = service->process->trace.tracer;
    record->n_tokens = (uint32_t)request->n_token_ids;
    rpc_call_peer(stream->base.call, record->peer, sizeof record->peer);
    rpc_call_origin(stream->base.call, &record->origin);
    snprintf(record->request_id, sizeof record->request_id, "%s", request->request_id);
    ctx_record_begin(record, clock_now_ns());
}

static void prefill(void *arg, struct rpc_call *call, const ProtobufCMessage *message)
{
    struct ctx_service *service = arg;
    struct prefill_stream *stream = worker_stream_create(sizeof *stream, call, on_left,
                                                         clock_now_ns());
    if (!stream) {
        status_counters_add(&service->metrics.ended, STATUS_NO_MEMORY);
        rpc_call_fail_status(call, STATUS_NO_MEMORY, "%s", status_text(STATUS_NO_MEMORY));
        return;
    }
    const Kvferry__Internal__V1__PrefillRequest
        *request = (const Kvferry__Internal__V1__PrefillRequest *)message;
    stream->service = service;
    stream->takes_end = request->takes_end;
    begin_record(stream, request);

    struct error error = {0};
    enum status status = process_refuses(service->process);
    if (status == STATUS_OK)
        status = start_prefill(service, stream, request, &error);
    if (status != STATUS_OK) {
        status_counters_add(&service->metrics.ended, status);
        ctx_record_tell(&stream->record, status, error.text, clock_now_ns());
        worker_stream_refuse(&stream->base, status, error.text);
        return;
    }
    worker_stream_begin(&stream->base);
}

/* ---- what the engine says ---- */

static void send(struct prefill_stream *stream,
                 const Kvferry__Internal__V1__PrefillResponse *response)
{
    /* A stream without room is over: on_left tells the engine. */
    enum status status = rpc_call_send(stream->base.call, &response->base);
    if (status == STATUS_QUEUE_FULL)
        log_warn("reader of a prefill is too slow");
}

/* One message in each case; logprobs is memory for the first token's. */
static void fill_first(const struct prefill_event *event, struct token_logprobs_message *logprobs,
                       Kvferry__Internal__V1__PrefillFirstToken *first_out)
{
    kvferry__internal__v1__prefill_first_token__init(first_out);
    first_out->token_id = event->first_token.token_id;
    const struct ranked_row *ranked = event->first_token.ranked;
    if (ranked) {
        first_out->n_ranked_token_ids = first_out->n_ranked_logprobs = ranked->n;
        first_out->ranked_token_ids = borrow(ranked->ids);
        first_out->ranked_logprobs = borrow(ranked->logprobs);
    }
    if (event->first_token.has_logprobs) {
        token_logprobs_encode(&event->first_token.logprobs, logprobs);
        first_out->logprobs = &logprobs->message;
    }
}

static void fill_ready(const struct prefill_event *event,
                       Kvferry__Internal__V1__PrefillReady *ready_out)
{
    kvferry__internal__v1__prefill_ready__init(ready_out);
    assert(event->ready.n_blocks > 0 && event->ready.block_ids);
    ready_out->first_block = event->ready.first_block;
    ready_out->n_block_ids = event->ready.n_blocks;
    ready_out->block_ids = borrow(event->ready.block_ids);
    if (event->ready.digests) {
        ready_out->n_digests = event->ready.n_blocks;
        ready_out->digests = borrow(event->ready.digests);
    }
}

static void fill_sealed(const struct prefill_event *event,
                        Kvferry__Internal__V1__PrefillSealed *sealed_out)
{
    kvferry__internal__v1__prefill_sealed__init(sealed_out);
    sealed_out->n_tokens = event->sealed.n_tokens;
    sealed_out->cached_tokens = event->sealed.cached_tokens;
    sealed_out->queue_us = event->sealed.queue_us;
    sealed_out->compute_us = event->sealed.compute_us;
}

static void send_scores(struct prefill_stream *stream, const struct prefill_event *event)
{
    struct prompt_scores_message *message = &stream->service->scores;
    Kvferry__Internal__V1__PrefillScores scores = KVFERRY__INTERNAL__V1__PREFILL_SCORES__INIT;
    prompt_scores_encode(&event->scores, message);
    scores.first_token = event->scores.first;
    scores.n_logprobs = event->scores.n;
    scores.logprobs = message->list;
    Kvferry__Internal__V1__PrefillResponse response = KVFERRY__INTERNAL__V1__PREFILL_RESPONSE__INIT;
    response.event_case = KVFERRY__INTERNAL__V1__PREFILL_RESPONSE__EVENT_SCORES;
    response.scores = &scores;
    send(stream, &response);
}

static void observe_place(const struct ctx_service *service, struct prefill_stream *stream)
{
    if (!stream->has_place)
        histogram_observe(service->metrics.series.queue,
                          (double)(clock_now_ns() - stream->base.arrived_ns) / (double)NS_PER_S);
    stream->has_place = true;
}

static void send_accepted(struct prefill_stream *stream, const struct prefill_event *event)
{
    Kvferry__Internal__V1__PrefillResponse response = KVFERRY__INTERNAL__V1__PREFILL_RESPONSE__INIT;
    Kvferry__Internal__V1__PrefillAccepted accepted = KVFERRY__INTERNAL__V1__PREFILL_ACCEPTED__INIT;
    accepted.n_blocks = event->accepted.n_blocks;
    accepted.block_tokens = event->accepted.block_tokens;
    response.event_case = KVFERRY__INTERNAL__V1__PREFILL_RESPONSE__EVENT_ACCEPTED;
    response.accepted = &accepted;
    send(stream, &response);
}

static void send_backlog(struct prefill_stream *stream, const struct prefill_event *event)
{
    Kvferry__Internal__V1__PrefillResponse response = KVFERRY__INTERNAL__V1__PREFILL_RESPONSE__INIT;
    Kvferry__Internal__V1__PrefillBacklog backlog = KVFERRY__INTERNAL__V1__PREFILL_BACKLOG__INIT;
    backlog.token_ns = event->backlog.token_ns;
    backlog.waiting_tokens = event->backlog.n_tokens;
    response.event_case = KVFERRY__INTERNAL__V1__PREFILL_RESPONSE__EVENT_BACKLOG;
    response.backlog = &backlog;
    send(stream, &response);
}

static void send_first_token(struct prefill_stream *stream, const struct prefill_event *event)
{
    Kvferry__Internal__V1__PrefillResponse response = KVFERRY__INTERNAL__V1__PREFILL_RESPONSE__INIT;
    Kvferry__Internal__V1__PrefillFirstToken first;
    struct token_logprobs_message logprobs;
    stream->is_last = true;
    if (stream->takes_end && !stream->service->kv_digest) {
        stream->first = *event;
        return;
    }
    fill_first(event, &logprobs, &first);
    response.event_case = KVFERRY__INTERNAL__V1__PREFILL_RESPONSE__EVENT_FIRST_TOKEN;
    response.first_token = &first;
    send(stream, &response);
}

static void send_ready(struct prefill_stream *stream, const struct prefill_event *event)
{
    Kvferry__Internal__V1__PrefillResponse response = KVFERRY__INTERNAL__V1__PREFILL_RESPONSE__INIT;
    Kvferry__Internal__V1__PrefillReady ready;
    if (stream->takes_end && stream->is_last) {
        stream->ready = *event;
        return;
    }
    fill_ready(event, &ready);
    response.event_case = KVFERRY__INTERNAL__V1__PREFILL_RESPONSE__EVENT_READY;
    response.ready = &ready;
    send(stream, &response);
}

/* With what was kept for it. Each message that is sent wakes the queue's thread, so one costs less than three. */
static void send_sealed(struct prefill_stream *stream, const struct prefill_event *event)
{
    Kvferry__Internal__V1__PrefillResponse response = KVFERRY__INTERNAL__V1__PREFILL_RESPONSE__INIT;
    Kvferry__Internal__V1__PrefillEnd end = KVFERRY__INTERNAL__V1__PREFILL_END__INIT;
    Kvferry__Internal__V1__PrefillFirstToken first;
    Kvferry__Internal__V1__PrefillReady ready;
    Kvferry__Internal__V1__PrefillSealed sealed;
    struct token_logprobs_message logprobs;
    fill_sealed(event, &sealed);
    if (stream->takes_end) {
        if (stream->first.kind == EVENT_FIRST_TOKEN) {
            fill_first(&stream->first, &logprobs, &first);
            end.first_token = &first;
        }
        if (stream->ready.kind == EVENT_READY) {
            fill_ready(&stream->ready, &ready);
            end.ready = &ready;
        }
        end.sealed = &sealed;
        response.event_case = KVFERRY__INTERNAL__V1__PREFILL_RESPONSE__EVENT_END;
        response.end = &end;
    } else {
        response.event_case = KVFERRY__INTERNAL__V1__PREFILL_RESPONSE__EVENT_SEALED;
        response.sealed = &sealed;
    }
    send(stream, &response);
}

static void send_event(void *arg, void *handle, const struct prefill_event *event)
{
    const struct ctx_service *service = arg;
    struct prefill_stream *stream = handle;
    assert(!atomic_load(&stream->base.is_finished) && "finish is the last that the engine says");
    ctx_record_note(&stream->record, event, clock_now_ns());
    switch (event->kind) {
    case EVENT_BACKLOG:
        send_backlog(stream, event);
        break;
    case EVENT_ACCEPTED:
        observe_place(service, stream);
        send_accepted(stream, event);
        break;
    case EVENT_SCORES:
        send_scores(stream, event);
        break;
    case EVENT_READY:
        send_ready(stream, event);
        break;
    case EVENT_FIRST_TOKEN:
        send_first_token(stream, event);
        break;
    case EVENT_SEALED:
        histogram_observe(service->metrics.common.prefill, (double)event->sealed.compute_us / 1e6);
        send_sealed(stream, event);
        break;
    }
}

static void finish(void *arg, void *handle, enum status status, const char *sentence)
{
    const struct ctx_service *service = arg;
    struct prefill_stream *stream = handle;
    observe_place(service, stream); /* a prompt that never got a slot has waited, too */
    status_counters_add(&service->metrics.ended, status);
    ctx_record_tell(&stream->record, status, sentence, clock_now_ns());
    worker_stream_finish(&stream->base, status, sentence);
}

/* ---- Commit, Abort ---- */

static void commit(void *arg, struct rpc_call *call, const ProtobufCMessage *message)
{
    struct ctx_service *service = arg;
    const Kvferry__Internal__V1__CommitRequest
        *request = (const Kvferry__Internal__V1__CommitRequest *)message;
    struct held_commit asked = {.kv_bytes = request->kv_bytes,
                                .incarnation = request->callee_incarnation};
    struct error error = {0};
    if (process_refuses(service->process) == STATUS_LOADING) {
        rpc_call_fail_status(call, STATUS_LOADING, "%s", status_text(STATUS_LOADING));
        return;
    }
    enum status status = copy_transfer_id(&request->transfer_id, &asked.id, &error);
    if (status == STATUS_OK)
        status = ctx_engine_commit(service->engine, &asked, &error);
    if (status != STATUS_OK) {
        fail(call, status, &error);
        return;
    }
    Kvferry__Internal__V1__CommitResponse response = KVFERRY__INTERNAL__V1__COMMIT_RESPONSE__INIT;
    rpc_call_reply(call, &response.base);
}

static void abort_request(void *arg, struct rpc_call *call, const ProtobufCMessage *message)
{
    struct ctx_service *service = arg;
    const Kvferry__Internal__V1__AbortRequest
        *request = (const Kvferry__Internal__V1__AbortRequest *)message;
    struct error error = {0};
    size_t bytes = strlen(request->request_id);
    if (process_refuses(service->process) == STATUS_LOADING) {
        rpc_call_fail_status(call, STATUS_LOADING, "%s", status_text(STATUS_LOADING));
        return;
    }
    if (bytes == 0 || bytes > ENGINE_REQUEST_ID_MAX) {
        struct rpc_error refusal;
        rpc_error_set(&refusal, STATUS_INVALID_ARGUMENT, "request_id", NULL,
                      "request_id has %zu bytes; it must have 1 .. %u", bytes,
                      ENGINE_REQUEST_ID_MAX);
        rpc_call_fail(call, &refusal);
        return;
    }
    (void)rpc_call_share(call);
    enum status status = ctx_engine_abort(service->engine, call, request->request_id);
    if (status == STATUS_OK)
        return;
    rpc_call_release(call);
    fail(call, status, &error);
}

static void abort_reply(void *arg, void *handle, enum ctx_abort_found found)
{
    (void)arg;
    static const Kvferry__Internal__V1__AbortFound FOUND[] = {
        [CTX_FOUND_NOTHING] = KVFERRY__INTERNAL__V1__ABORT_FOUND__ABORT_FOUND_NOTHING,
        [CTX_FOUND_QUEUED] = KVFERRY__INTERNAL__V1__ABORT_FOUND__ABORT_FOUND_QUEUED,
        [CTX_FOUND_RUNNING] = KVFERRY__INTERNAL__V1__ABORT_FOUND__ABORT_FOUND_RUNNING,
        [CTX_FOUND_SEALED] = KVFERRY__INTERNAL__V1__ABORT_FOUND__ABORT_FOUND_SEALED,
    };
    assert(found < sizeof FOUND / sizeof *FOUND);
    struct rpc_call *call = handle;
    Kvferry__Internal__V1__AbortResponse response = KVFERRY__INTERNAL__V1__ABORT_RESPONSE__INIT;
    response.found = FOUND[found];
    rpc_call_reply(call, &response.base);
    rpc_call_release(call);
}

static void flush_reply(void *arg, void *handle, uint32_t blocks_evicted)
{
    (void)arg;
    admin_service_flushed(handle, blocks_evicted);
    rpc_call_release(handle);
}

struct ctx_engine_ops ctx_service_ops(struct ctx_service *service)
{
    return (struct ctx_engine_ops){
        .arg = service,
        .now_ns = engine_thread_now_ns,
        .event = send_event,
        .finish = finish,
        .abort_reply = abort_reply,
        .flush_reply = flush_reply,
    };
}

struct rpc_service ctx_service_row(struct ctx_service *service)
{
    static const struct rpc_method METHODS[] = {
        {.path = "/kvferry.internal.v1.ContextWorkerService/Describe",
         .kind = RPC_UNARY,
         .request = &kvferry__internal__v1__describe_request__descriptor,
         .response = &kvferry__internal__v1__describe_response__descriptor,
         .request_bytes_max = 16384,
         .roles = TLS_ROLE_BIT(GENERATION),
         .handler = describe},
        {.path = "/kvferry.internal.v1.ContextWorkerService/Prefill",
         .kind = RPC_SERVER_STREAM,
         .request = &kvferry__internal__v1__prefill_request__descriptor,
         .response = &kvferry__internal__v1__prefill_response__descriptor,
         .elements_max = PREFILL_ELEMENTS_MAX,
         .roles = TLS_ROLE_BIT(GENERATION),
         .handler = prefill},
        {.path = "/kvferry.internal.v1.ContextWorkerService/Commit",
         .kind = RPC_UNARY,
         .request = &kvferry__internal__v1__commit_request__descriptor,
         .response = &kvferry__internal__v1__commit_response__descriptor,
         .request_bytes_max = 4096,
         .calls_max = UNARY_CALLS_MAX,
         .roles = TLS_ROLE_BIT(GENERATION),
         .handler = commit},
        {.path = "/kvferry.internal.v1.ContextWorkerService/Abort",
         .kind = RPC_UNARY,
         .request = &kvferry__internal__v1__abort_request__descriptor,
         .response = &kvferry__internal__v1__abort_response__descriptor,
         .request_bytes_max = 4096,
         .calls_max = UNARY_CALLS_MAX,
         .roles = TLS_ROLE_BIT(GENERATION),
         .handler = abort_request},
    };
    return (struct rpc_service){
        .name = "kvferry.internal.v1.ContextWorkerService",
        .methods = METHODS,
        .n_methods = sizeof METHODS / sizeof *METHODS,
        .arg = service,
    };
}
