#include "gen_worker/gen_service.h"

#include "base/clock.h"
#include "base/log/log.h"
#include "base/utf8.h"
#include "gen_worker/gen_record.h"
#include "model/sampling/beam_search.h"
#include "process/ports/address.h"
#include "process/process_state.h"
#include "proto/kvferry/internal/v1/generation_worker.pb-c.h"
#include "rpc/borrow.h"
#include "sampling_params/sampling_codec.h"
#include "worker_common/request_codec.h"
#include "worker_common/worker_stream.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A prompt of the longest context that a model may have, and the rules of a request. */
#define DECODE_ELEMENTS_MAX   ((1u << 20) + TOKEN_RULES_ELEMENTS_MAX)
#define TOKENS_IN_MESSAGE_MAX 64u

/* One Decode call. */
struct decode_stream {
    struct worker_stream base;
    struct gen_service *service;
    struct request_origin origin; /* trace: the context of place, for calls to context workers */
    struct trace_place place;
    char request_id[ENGINE_REQUEST_ID_MAX + 1]; /* the attempt's */
};

static void on_left(struct worker_stream *stream)
{
    gen_engine_stream_ended(((struct decode_stream *)stream)->service->engine, stream);
}

static enum status check_address(const char *context_worker, struct error *error)
{
    struct address address;
    struct error why = {{0}};
    if (!context_worker[0] || address_parse(context_worker, &address, &why) == STATUS_OK)
        return STATUS_OK;
    return error_set(error, STATUS_INVALID_ARGUMENT, "context_worker: %s", why.text);
}

/* Why the router named no context worker. */
static enum gen_place why_local(Kvferry__V1__PrefillPlace place)
{
    switch (place) {
    case KVFERRY__V1__PREFILL_PLACE__PREFILL_PLACE_PAIR_UNFIT:
        return GEN_PLACE_PAIR_UNFIT;
    case KVFERRY__V1__PREFILL_PLACE__PREFILL_PLACE_HAND_OVER_FAILED:
        return GEN_PLACE_HAND_OVER_FAILED;
    case KVFERRY__V1__PREFILL_PLACE__PREFILL_PLACE_CONTEXT_WORKERS_FULL:
        return GEN_PLACE_CONTEXT_WORKERS_FULL;
    case KVFERRY__V1__PREFILL_PLACE__PREFILL_PLACE_PREFIX_CACHED:
        return GEN_PLACE_PREFIX_CACHED;
    default:
        return GEN_PLACE_NO_CONTEXT_WORKER;
    }
}

static enum status start_decode(struct gen_service *service, struct decode_stream *stream,
                                const Kvferry__Internal__V1__DecodeRequest *message,
                                struct error *error)
{
    assert(service->engine && service->transport && "set before process_serving");
    struct decoded_request decoded;
    TRY(check_address(message->context_worker, error));
    TRY(request_decode(&REQUEST_FIELDS_OF(message), service->vocabulary, service->adapters,
                       &decoded, error));
    decoded.input.deadline_ns = rpc_call_deadline_ns(stream->base.call);
    struct gen_request request = {
        .input = decoded.input,
        .origin = &stream->origin,
        .context_worker = message->context_worker,
        .why_local = why_local(message->why_local),
        .wants_progress = message->return_progress,
        .ends_when_context_full = message->ends_when_context_full,
    };
    const enum status status = gen_engine_generate(service->engine, stream, &request, error);
    request_forget(&decoded);
    return status;
}

static Kvferry__V1__PrefillPlace place_encode(enum gen_place place)
{
    static const Kvferry__V1__PrefillPlace PLACES[GEN_PLACES] = {
        [GEN_PLACE_CONTEXT_WORKER] = KVFERRY__V1__PREFILL_PLACE__PREFILL_PLACE_CONTEXT_WORKER,
        [GEN_PLACE_SHORT_PROMPT] = KVFERRY__V1__PREFILL_PLACE__PREFILL_PLACE_SHORT_PROMPT,
        [GEN_PLACE_PREFIX_CACHED] = KVFERRY__V1__PREFILL_PLACE__PREFILL_PLACE_PREFIX_CACHED,
        [GEN_PLACE_NO_CONTEXT_WORKER] = KVFERRY__V1__PREFILL_PLACE__PREFILL_PLACE_NO_CONTEXT_WORKER,
        [GEN_PLACE_PAIR_UNFIT] = KVFERRY__V1__PREFILL_PLACE__PREFILL_PLACE_PAIR_UNFIT,
        [GEN_PLACE_HAND_OVERS_FULL] = KVFERRY__V1__PREFILL_PLACE__PREFILL_PLACE_HAND_OVERS_FULL,
        [GEN_PLACE_HAND_OVER_FAILED] = KVFERRY__V1__PREFILL_PLACE__PREFILL_PLACE_HAND_OVER_FAILED,
        [GEN_PLACE_CONTEXT_WORKERS_FULL] =
            KVFERRY__V1__PREFILL_PLACE__PREFILL_PLACE_CONTEXT_WORKERS_FULL,
    };
    assert((unsigned)place < GEN_PLACES);
    return PLACES[place];
}

/* Writes the log line and the spans of the request. */
static void tell(const struct decode_stream *stream, const struct gen_finish *finish,
                 const char *transport)
{
    const struct gen_record record = {
        .origin = &stream->origin,
        .place = &stream->place,
        .tracer = stream->service->process->trace.tracer,
        .request_id = stream->request_id,
        .transport = transport,
        .prefill_place = prefill_place_name(place_encode(finish->place)),
        .arrived_ns = stream->base.arrived_ns,
    };
    gen_record_tell(&record, finish, clock_now_ns());
}

/* The same for a request that the engine never had, perhaps because the worker is still loading. */
static void tell_refusal(const struct decode_stream *stream, enum status status,
                         const char *sentence)
{
    const struct gen_finish finish = {.status = status, .sentence = sentence};
    tell(stream, &finish, NULL);
}

static struct decode_stream *stream_create(struct gen_service *service, struct rpc_call *call,
                                           const char *request_id)
{
    struct decode_stream *stream = worker_stream_create(sizeof *stream, call, on_left,
                                                        clock_now_ns());
    if (!stream)
        return NULL;
    stream->service = service;
    rpc_call_origin(call, &stream->origin);
    tracer_enter(service->process->trace.tracer, &stream->origin.trace, &stream->place);
    stream->origin.trace = stream->place.context;
    snprintf(stream->request_id, sizeof stream->request_id, "%s", request_id);
    return stream;
}

static void decode(void *arg, struct rpc_call *call, const ProtobufCMessage *message)
{
    struct gen_service *service = arg;
    const Kvferry__Internal__V1__DecodeRequest
        *request = (const Kvferry__Internal__V1__DecodeRequest *)message;
    struct decode_stream *stream = stream_create(service, call, request->request_id);
    if (!stream) {
        status_counters_add(&service->metrics.ended, STATUS_NO_MEMORY);
        rpc_call_fail_status(call, STATUS_NO_MEMORY, "%s", status_text(STATUS_NO_MEMORY));
        return;
    }

    struct error error = {0};
    enum status status = process_refuses(service->process);
    if (status == STATUS_OK)
        status = start_decode(service, stream, request, &error);
    if (status != STATUS_OK) {
        status_counters_add(&service->metrics.ended, status);
        tell_refusal(stream, status, error.text);
        worker_stream_refuse(&stream->base, status, error.text);
        return;
    }
    worker_stream_begin(&stream->base);
}

/* ---- what the engine says ---- */

static void set_timing(const struct gen_service *service, const struct gen_finish *finish,
                       Kvferry__V1__Timing *timing_out)
{
    const struct gen_timing *from = &finish->timing;
    kvferry__v1__timing__init(timing_out);
    timing_out->queue_us = from->queue_us;
    timing_out->prefill_us = from->prefill_us;
    timing_out->transfer_us = from->transfer_us;
    timing_out->decode_us = from->decode_us;
    timing_out->first_token_us = from->first_token_us;
    timing_out->kv_bytes_received = from->kv_bytes_received;
    timing_out->kv_tokens_received = from->kv_tokens_received;
    timing_out->kv_tokens_recomputed = from->kv_tokens_recomputed;
    timing_out->context_worker = borrow(finish->context_worker ? finish->context_worker : "");
    timing_out->generation_worker = borrow(service->process->name);
    if (from->kv_bytes_received > 0)
        timing_out->transport = borrow(service->transport);
    timing_out->prefill_place = place_encode(finish->place);
}

/* Usage and timing of a message. */
struct figures_message {
    Kvferry__V1__Usage usage;
    Kvferry__V1__Timing timing;
    char reason[sizeof((struct error *)0)->text];
};

/* The reason may contain text of another process, cut inside a character. */
static void figures_encode(const struct gen_service *service, const struct gen_finish *finish,
                           struct figures_message *message_out)
{
    kvferry__v1__usage__init(&message_out->usage);
    message_out->usage.prompt_tokens = finish->prompt_tokens;
    message_out->usage.cached_tokens = finish->cached_tokens;
    message_out->usage.generated_tokens = finish->generated_tokens;
    message_out->usage.draft_tokens = finish->draft_tokens;
    message_out->usage.accepted_tokens = finish->accepted_tokens;
    set_timing(service, finish, &message_out->timing);
    const char *reason = finish->place_reason ? finish->place_reason : "";
    utf8_clean(reason, strlen(reason), message_out->reason, sizeof message_out->reason);
    message_out->timing.prefill_reason = message_out->reason;
}

/* Sends at most TOKENS_IN_MESSAGE_MAX tokens. figures is NULL, or goes with them. */
static enum status send_tokens(struct decode_stream *stream, const struct gen_tokens *tokens,
                               uint32_t from, struct figures_message *figures)
{
    Kvferry__Internal__V1__DecodeResponse response = KVFERRY__INTERNAL__V1__DECODE_RESPONSE__INIT;
    uint32_t ids[TOKENS_IN_MESSAGE_MAX];
    struct token_logprobs_message messages[TOKENS_IN_MESSAGE_MAX];
    Kvferry__V1__TokenLogprobs *list[TOKENS_IN_MESSAGE_MAX];
    assert(from < tokens->n_tokens && "a message has at least one token");
    uint32_t left = tokens->n_tokens - from;
    uint32_t n = left < TOKENS_IN_MESSAGE_MAX ? left : TOKENS_IN_MESSAGE_MAX;
    const struct token_logprobs *logprobs = tokens->logprobs ? tokens->logprobs + from : NULL;
    /* protobuf-c has no const, so the engine's array is copied. */
    memcpy(ids, tokens->token_ids + from, n * sizeof *ids);
    response.n_token_ids = n;
    response.token_ids = ids;
    for (uint32_t i = 0; logprobs && i < n; i++) {
        token_logprobs_encode(&logprobs[i], &messages[i]);
        list[i] = &messages[i].message;
    }
    if (logprobs) {
        response.n_logprobs = n;
        response.logprobs = list;
    }
    if (figures) {
        response.usage = &figures->usage;
        response.timing = &figures->timing;
    }
    return rpc_call_send(stream->base.call, &response.base);
}

enum status gen_service_tokens(struct gen_service *service, void *handle,
                               const struct gen_tokens *tokens)
{
    struct decode_stream *stream = handle;
    struct figures_message figures;
    assert(!atomic_load(&stream->base.is_finished) && "finish is the last that the engine says");
    if (tokens->so_far)
        figures_encode(service, tokens->so_far, &figures);
    for (uint32_t from = 0; from < tokens->n_tokens; from += TOKENS_IN_MESSAGE_MAX) {
        bool tells = tokens->so_far && from == 0;
        if (send_tokens(stream, tokens, from, tells ? &figures : NULL) == STATUS_QUEUE_FULL)
            return STATUS_SLOW_READER;
        /* CANCELLED: on_left tells the engine. */
    }
    return STATUS_OK;
}

enum status gen_service_scores(struct gen_service *service, void *handle,
                               const struct prompt_scores *scores)
{
    struct decode_stream *stream = handle;
    Kvferry__Internal__V1__DecodeResponse response = KVFERRY__INTERNAL__V1__DECODE_RESPONSE__INIT;
    assert(!atomic_load(&stream->base.is_finished) && "finish is the last that the engine says");
    prompt_scores_encode(scores, &service->scores);
    response.first_prompt_token = scores->first;
    response.n_prompt_logprobs = scores->n;
    response.prompt_logprobs = service->scores.list;
    /* CANCELLED: on_left tells the engine. */
    return rpc_call_send(stream->base.call, &response.base) == STATUS_QUEUE_FULL
               ? STATUS_SLOW_READER
               : STATUS_OK;
}

void gen_service_progress(void *handle, uint32_t n_done, uint32_t n_prompt)
{
    struct decode_stream *stream = handle;
    Kvferry__Internal__V1__DecodeResponse response = KVFERRY__INTERNAL__V1__DECODE_RESPONSE__INIT;
    Kvferry__V1__PromptProgress progress = KVFERRY__V1__PROMPT_PROGRESS__INIT;
    assert(!atomic_load(&stream->base.is_finished) && n_done <= n_prompt);
    progress.prompt_tokens = n_prompt;
    progress.done_tokens = n_done;
    response.prompt_progress = &progress;
    enum status status = rpc_call_send(stream->base.call, &response.base);
    (void)status; /* after a failure on_left tells the engine */
}

/* The replies of a beam search: the messages, then the tokens that they point to. */
struct beam_messages {
    Kvferry__Internal__V1__BeamReply replies[BEAMS_MAX];
    Kvferry__Internal__V1__BeamReply *list[BEAMS_MAX];
    uint32_t tokens[];
};

/* NULL: no memory. */
static struct beam_messages *beams_encode(const struct gen_finish *finish)
{
    size_t n_tokens = 0;
    for (uint32_t i = 0; i < finish->n_best; i++)
        n_tokens += beam_search_result(finish->search, i).n_tokens;
    struct beam_messages *messages = malloc(sizeof *messages + n_tokens * sizeof(uint32_t));
    if (!messages)
        return NULL;
    uint32_t *tokens = messages->tokens;
    for (uint32_t i = 0; i < finish->n_best; i++) {
        const struct beam_result result = beam_search_result(finish->search, i);
        Kvferry__Internal__V1__BeamReply *reply = &messages->replies[i];
        kvferry__internal__v1__beam_reply__init(reply);
        beam_search_tokens(finish->search, i, tokens);
        reply->token_ids = tokens;
        reply->n_token_ids = result.n_tokens;
        reply->score = result.score;
        reply->finish_reason = result.is_end ? KVFERRY__V1__FINISH_REASON__FINISH_REASON_STOP
                                             : KVFERRY__V1__FINISH_REASON__FINISH_REASON_LENGTH;
        if (result.stop != BEAM_STOP_NONE) {
            reply->stop_presence_case = KVFERRY__INTERNAL__V1__BEAM_REPLY__STOP_PRESENCE_STOP;
            reply->stop = result.stop;
        }
        messages->list[i] = reply;
        tokens += result.n_tokens;
    }
    return messages;
}

static enum status send_last(struct gen_service *service, struct decode_stream *stream,
                             const struct gen_finish *finish)
{
    Kvferry__Internal__V1__DecodeResponse response = KVFERRY__INTERNAL__V1__DECODE_RESPONSE__INIT;
    struct figures_message figures;
    figures_encode(service, finish, &figures);
    response.finish_reason = finish->reason == GEN_FINISH_STOP
                                 ? KVFERRY__V1__FINISH_REASON__FINISH_REASON_STOP
                                 : KVFERRY__V1__FINISH_REASON__FINISH_REASON_LENGTH;
    response.constraint_complete = finish->is_complete;
    response.usage = &figures.usage;
    response.timing = &figures.timing;
    struct beam_messages *beams = finish->search ? beams_encode(finish) : NULL;
    if (finish->search && !beams)
        return STATUS_NO_MEMORY;
    if (beams) {
        response.n_beam_replies = finish->n_best;
        response.beam_replies = beams->list;
    }
    const enum status status = rpc_call_send(stream->base.call, &response.base);
    free(beams);
    return status;
}

void gen_service_finish(struct gen_service *service, void *handle, const struct gen_finish *finish)
{
    struct decode_stream *stream = handle;
    enum status status = finish->status;
    gen_metrics_ended(&service->metrics, finish);
    tell(stream, finish, service->transport);
    /* Not OK: the call is over already, or has no memory for its last message. */
    if (status == STATUS_OK)
        status = send_last(service, stream, finish);
    worker_stream_finish(&stream->base, status, finish->sentence);
}

struct rpc_service gen_service_row(struct gen_service *service)
{
    static const struct rpc_method METHODS[] = {
        {.path = "/kvferry.internal.v1.GenerationWorkerService/Decode",
         .kind = RPC_SERVER_STREAM,
         .request = &kvferry__internal__v1__decode_request__descriptor,
         .response = &kvferry__internal__v1__decode_response__descriptor,
         .elements_max = DECODE_ELEMENTS_MAX,
         .roles = TLS_ROLE_BIT(ROUTER),
         .handler = decode},
    };
    return (struct rpc_service){
        .name = "kvferry.internal.v1.GenerationWorkerService",
        .methods = METHODS,
        .n_methods = sizeof METHODS / sizeof *METHODS,
        .arg = service,
    };
}
