#include "router/generation_service.h"

#include "base/clock.h"
#include "base/log/log.h"
#include "router/admission.h"
#include "router/generation_record.h"
#include "router/generation_request.h"
#include "router/text_calls.h"
#include "router/unwanted_call.h"
#include "rpc/request_id.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Token ids in one message: what 4 MiB of them hold. */
#define IDS_MAX (1u << 20)

/* A request on its way through the text thread. */
struct text_work {
    struct generation_service *service;
    struct generation *generation;
    uint32_t context_tokens;
};

static const char *tenant_of(const struct rpc_call *call)
{
    const struct tenant_pass *pass = rpc_call_pass(call);
    return pass ? tenant_pass_name(pass) : "";
}

/* While it loads they wait: what_is_known. */
static bool refuse_new_work(struct generation_service *service, struct rpc_call *call)
{
    enum status refusal = process_refuses(service->process);
    if (refusal == STATUS_OK || refusal == STATUS_LOADING)
        return false;
    call_tell_refusal(call, refusal, tenant_of(call), "");
    status_counters_add(&service->metrics->requests, refusal);
    rpc_call_fail_status(call, refusal, "%s", status_text(refusal));
    return true;
}

static void fail(struct generation_service *service, struct rpc_call *call, enum status status,
                 struct rpc_error *error)
{
    if (!error->message[0])
        rpc_error_set(error, status, NULL, NULL, "%s", status_text(status));
    status_counters_add(&service->metrics->requests, status);
    rpc_call_fail(call, error);
}

/* ---- a request for tokens ---- */

static void refuse_generation(struct generation_service *service, struct generation *generation,
                              enum status status, struct rpc_error *error)
{
    assert(status != STATUS_OK && generation->n_attempts == 0 && "no worker has heard of it");
    generation_tell_refusal(generation, status, error->message, clock_now_ns());
    if (generation->pass) /* before the client hears of it, and asks again */
        tenant_pass_settle(generation->pass, false, 0, clock_now_ns());
    fail(service, generation->call, status, error);
    generation_destroy(generation);
}

/* Without a name of its own it has the call's. */
static void name(struct generation *generation)
{
    generation->is_named = generation->request_id[0] != '\0';
    if (!generation->is_named)
        snprintf(generation->request_id, sizeof generation->request_id, "%s",
                 rpc_call_request_id(generation->call));
}

static void rename_drawn(struct generation *generation)
{
    char drawn[REQUEST_ID_MAX + 1], id[REQUEST_ID_MAX + 1];
    rpc_request_id_draw(drawn);
    snprintf(id, sizeof id, "%.*s~%.16s", (int)REQUEST_ID_MAX - 17, generation->request_id, drawn);
    memcpy(generation->request_id, id, sizeof id);
    rpc_call_set_request_id(generation->call, id);
}

/* A request's own name must be unique. The metadata's need not: proxies hand one on with all that they do for
 * one request of theirs, so it gets a drawn ending. */
static enum status dispatch(struct generation_service *service, struct generation *generation,
                            struct rpc_error *error)
{
    assert(!generation->text && generation->n_tokens > 0 && "judged, and tokenized");
    enum status status = dispatch_start(service->dispatch, generation);
    if (status == STATUS_DUPLICATE_REQUEST && !generation->is_named) {
        rename_drawn(generation);
        status = dispatch_start(service->dispatch, generation);
    }
    if (status == STATUS_DUPLICATE_REQUEST)
        rpc_error_set(error, status, "request_id", generation->request_id,
                      "request_id \"%s\" belongs to a request that is still running",
                      generation->request_id);
    return status;
}

/* Of the tenant's tokens a minute. */
static enum status reserve(const struct generation *generation, struct rpc_error *error)
{
    struct tenant_refusal refusal;
    if (!generation->pass)
        return STATUS_OK;
    enum status status = tenant_pass_reserve(generation->pass, generation->n_tokens,
                                             generation->sampling.params.max_tokens, clock_now_ns(),
                                             &refusal);
    if (status != STATUS_OK)
        admission_refuse(status, &refusal, error);
    return status;
}

/* The salt that workers and the core know: of a tenant's own cache, or its group's. */
static enum status salt(struct generation *generation)
{
    char text[SHA256_TEXT];
    _Static_assert(sizeof text <= sizeof generation->cache_salt, "a MAC is a salt");
    if (!generation->pass)
        return STATUS_OK;
    TRY(tenant_pass_salt(generation->pass, generation->cache_salt, text));
    memcpy(generation->cache_salt, text, sizeof text);
    return STATUS_OK;
}

/* Chat templates write the beginning of text themselves, and then it is there twice. Transformers and others do
 * what they are told, too. */
static void tell_double(struct generation_service *service, const struct generation *generation)
{
    const uint32_t *ids = generation->token_ids;
    if (!generation->add_special || generation->n_tokens < 2 || ids[0] != ids[1] ||
        ids[0] >= tokenizer_n_ids(service->tokenizer) ||
        !tokenizer_is_special(service->tokenizer, ids[0]) ||
        atomic_exchange(&service->has_told_double, true))
        return;
    log_write(LOG_WARN, generation->request_id,
              "a text begins with special token %" PRIu32
              ", which is added to texts: the prompt has it twice unless add_special_tokens is "
              "false (logged once)",
              ids[0]);
}

/* The generation is judged and copied. */
static void start(struct generation_service *service, struct generation *generation,
                  uint32_t context_tokens)
{
    struct rpc_error error = {0};
    bool is_text = generation->text;
    enum status status;
    assert(generation->holders == 0 && "dispatch does not know it yet");
    if (unwanted_call_look(generation->call))
        status = unwanted_call_status(generation->call);
    else
        status = generation_tokenize(generation, service->tokenizer, context_tokens, &error);
    if (status == STATUS_OK && is_text)
        tell_double(service, generation);
    if (status == STATUS_OK)
        status = generation_prepare(generation, service->tokenizer, service->reply_bytes_max);
    if (status == STATUS_OK)
        status = salt(generation);
    if (status == STATUS_OK) /* last: who is refused for another reason pays nothing */
        status = reserve(generation, &error);
    if (status == STATUS_OK)
        status = dispatch(service, generation, &error);
    if (status != STATUS_OK)
        refuse_generation(service, generation, status, &error);
}

static void start_later(void *arg)
{
    struct text_work work = *(struct text_work *)arg;
    free(arg);
    start(work.service, work.generation, work.context_tokens);
}

/* The generation's text is long. */
static enum status start_on_text_thread(struct generation_service *service,
                                        struct generation *generation, uint32_t context_tokens)
{
    struct text_work *work = malloc(sizeof *work);
    if (!work)
        return STATUS_NO_MEMORY;
    *work = (struct text_work){service, generation, context_tokens};
    enum status status = text_thread_push(service->text_thread, start_later, work,
                                          generation->text_bytes);
    if (status != STATUS_OK)
        free(work);
    return status;
}

static void judge(struct generation_service *service, const struct arrival *arrival,
                  const struct model_card *card)
{
    struct rpc_error error = {0};
    struct request_limits limits = {
        .model_name = service->model_name,
        .defaults = service->defaults,
        .card = *card,
        .text_bytes_max = service->text_bytes_max,
        .priority_max = service->priority_max,
    };
    struct generation *generation = generation_create(
        arrival->call, arrival->kind == ARRIVAL_COMPLETE, service->process->trace.tracer,
        arrival->arrived_ns);
    if (!generation) {
        fail(service, arrival->call, STATUS_NO_MEMORY, &error);
        return;
    }
    const Kvferry__V1__GenerateRequest *message = (const Kvferry__V1__GenerateRequest *)
                                                      arrival->message;
    enum status status = generation_take(generation, message, &limits, &error);
    name(generation);
    bool is_long = generation->text_bytes > service->text_inline_bytes;
    if (status == STATUS_OK && is_long)
        status = start_on_text_thread(service, generation, card->context_tokens);
    if (status != STATUS_OK)
        refuse_generation(service, generation, status, &error);
    else if (!is_long)
        start(service, generation, card->context_tokens);
}

/* ---- before enough is known ---- */

/* The card is set with EARLY_MODEL. Before process_serving nothing else of the service is looked at. */
static enum early_known what_is_known(struct generation_service *service,
                                      struct model_card *card_out)
{
    if (process_refuses(service->process) == STATUS_LOADING)
        return EARLY_NOTHING;
    assert(service->workers && service->dispatch && "set before it serves");
    return worker_clients_card(service->workers, card_out) ? EARLY_MODEL : EARLY_TOKENIZER;
}

static void refuse_arrival(struct generation_service *service, const struct arrival *arrival,
                           enum status status, struct rpc_error *error)
{
    call_tell_refusal(arrival->call, status, tenant_of(arrival->call), error->message);
    fail(service, arrival->call, status, error);
}

static const char *model_of(const struct arrival *arrival)
{
    switch (arrival->kind) {
    case ARRIVAL_TOKENIZE:
        return ((const Kvferry__V1__TokenizeRequest *)arrival->message)->model;
    case ARRIVAL_DETOKENIZE:
        return ((const Kvferry__V1__DetokenizeRequest *)arrival->message)->model;
    default:
        return ((const Kvferry__V1__GenerateRequest *)arrival->message)->model;
    }
}

struct wait_end {
    struct generation_service *service;
    struct model_card card; /* when it is known */
};

static void on_wait_end(void *arg, const struct arrival *arrival, enum status status,
                        const char *sentence)
{
    struct wait_end *end = arg;
    struct rpc_error error = {0};
    if (status == STATUS_OK && arrival->kind == ARRIVAL_TOKENIZE) {
        text_calls_tokenize(end->service, arrival->call, arrival->message);
        return;
    }
    if (status == STATUS_OK && arrival->kind == ARRIVAL_DETOKENIZE) {
        text_calls_detokenize(end->service, arrival->call, arrival->message);
        return;
    }
    if (status == STATUS_OK) {
        judge(end->service, arrival, &end->card);
        return;
    }
    if (sentence[0])
        rpc_error_set(&error, status, NULL, NULL, "%s", sentence);
    refuse_arrival(end->service, arrival, status, &error);
}

static struct standing standing_of(const struct generation_service *service,
                                   const struct arrival *arrival)
{
    bool is_for_tokens = arrival->kind == ARRIVAL_GENERATE || arrival->kind == ARRIVAL_COMPLETE;
    return request_standing(rpc_call_pass(arrival->call),
                            is_for_tokens ? (const Kvferry__V1__GenerateRequest *)arrival->message
                                          : NULL,
                            service->priority_max);
}

/* With those that wait. The one thing that can be judged already is. */
static void wait_for_more(struct generation_service *service, const struct arrival *arrival,
                          enum early_known known)
{
    struct rpc_error error = {0};
    struct wait_end end = {.service = service};
    enum status status = request_check_model(model_of(arrival), "model", service->model_name,
                                             &error);
    if (status == STATUS_OK) {
        const struct standing standing = standing_of(service, arrival);
        status = early_requests_push(service->early, arrival, &standing, on_wait_end, &end);
    }
    if (status == STATUS_NO_GENERATION_WORKER && known == EARLY_NOTHING)
        status = STATUS_LOADING;
    if (status == STATUS_OK)
        counter_add(service->metrics->series.waited, 1);
    else
        refuse_arrival(service, arrival, status, &error);
}

static void take(struct generation_service *service, const struct arrival *arrival)
{
    struct model_card card;
    enum early_known known = what_is_known(service, &card);
    if (known == EARLY_MODEL && early_requests_count(service->early) == 0)
        judge(service, arrival, &card);
    else
        wait_for_more(service, arrival, known);
}

/* A request about text: true: it waits, or was refused. */
static bool came_too_early(struct generation_service *service, struct rpc_call *call,
                           const ProtobufCMessage *message, enum arrival_kind kind)
{
    const struct arrival arrival = {
        .call = call, .message = message, .kind = kind, .arrived_ns = clock_now_ns()};
    if (process_refuses(service->process) != STATUS_LOADING)
        return false;
    wait_for_more(service, &arrival, EARLY_NOTHING);
    return true;
}

void generation_service_look(struct generation_service *service, uint64_t now_ns)
{
    struct wait_end end = {.service = service};
    enum early_known known = what_is_known(service, &end.card);
    early_requests_step(service->early, now_ns, known, on_wait_end, &end);
}

void generation_service_drain(struct generation_service *service)
{
    struct wait_end end = {.service = service};
    early_requests_drain(service->early, on_wait_end, &end);
}

/* ---- Generate, Complete ---- */

/* From here on replies and errors have the message's name. A bad one is refused when the message is judged. */
static void name_call(struct rpc_call *call, const char *id)
{
    struct rpc_error ignored;
    if (id[0] && rpc_request_id_check("request_id", id, strlen(id), &ignored) == STATUS_OK)
        rpc_call_set_request_id(call, id);
}

static void take_message(struct generation_service *service, struct rpc_call *call,
                         const ProtobufCMessage *message, enum arrival_kind kind)
{
    const struct arrival arrival = {
        .call = call, .message = message, .kind = kind, .arrived_ns = clock_now_ns()};
    name_call(call, ((const Kvferry__V1__GenerateRequest *)message)->request_id);
    if (!refuse_new_work(service, call))
        take(service, &arrival);
}

static void generate(void *arg, struct rpc_call *call, const ProtobufCMessage *message)
{
    take_message(arg, call, message, ARRIVAL_GENERATE);
}

static void complete(void *arg, struct rpc_call *call, const ProtobufCMessage *message)
{
    take_message(arg, call, message, ARRIVAL_COMPLETE);
}

/* ---- Tokenize, Detokenize ---- */

static void tokenize(void *arg, struct rpc_call *call, const ProtobufCMessage *message)
{
    if (!came_too_early(arg, call, message, ARRIVAL_TOKENIZE))
        text_calls_tokenize(arg, call, message);
}

static void detokenize(void *arg, struct rpc_call *call, const ProtobufCMessage *message)
{
    if (!came_too_early(arg, call, message, ARRIVAL_DETOKENIZE))
        text_calls_detokenize(arg, call, message);
}

struct rpc_service generation_service_row(struct generation_service *service)
{
    static const struct rpc_method METHODS[] = {
        {.path = "/kvferry.v1.GenerationService/Generate",
         .kind = RPC_SERVER_STREAM,
         .request = &kvferry__v1__generate_request__descriptor,
         .response = &kvferry__v1__generate_response__descriptor,
         .elements_max = IDS_MAX,
         .handler = generate},
        {.path = "/kvferry.v1.GenerationService/Complete",
         .kind = RPC_UNARY,
         .request = &kvferry__v1__generate_request__descriptor, /* has the same fields */
         .response = &kvferry__v1__complete_response__descriptor,
         .elements_max = IDS_MAX,
         .handler = complete},
        {.path = "/kvferry.v1.GenerationService/Tokenize",
         .kind = RPC_UNARY,
         .request = &kvferry__v1__tokenize_request__descriptor,
         .response = &kvferry__v1__tokenize_response__descriptor,
         .handler = tokenize},
        {.path = "/kvferry.v1.GenerationService/Detokenize",
         .kind = RPC_UNARY,
         .request = &kvferry__v1__detokenize_request__descriptor,
         .response = &kvferry__v1__detokenize_response__descriptor,
         .elements_max = IDS_MAX,
         .handler = detokenize},
    };
    return (struct rpc_service){
        .name = "kvferry.v1.GenerationService",
        .methods = METHODS,
        .n_methods = sizeof METHODS / sizeof *METHODS,
        .arg = service,
    };
}
