#include "router/intake.h"

#include "base/clock.h"
#include "base/log/log.h"
#include "router/admission/admission.h"
#include "router/requests/constraint_request.h"
#include "router/requests/generation_record.h"
#include "router/requests/generation_request.h"
#include "rpc/request_id.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A request on its way through the text thread. */
struct text_work {
    struct intake *intake;
    struct generation *generation;
    uint32_t context_tokens;
};

void intake_fail(struct intake *intake, struct door_call *call, enum status status,
                 struct rpc_error *error)
{
    if (!error->message[0])
        rpc_error_set(error, status, NULL, NULL, "%s", status_text(status));
    status_counters_add(&intake->metrics->requests, status);
    call->ops->fail(call, error);
}

/* ---- a request for tokens ---- */

static void refuse_generation(struct intake *intake, struct generation *generation,
                              enum status status, struct rpc_error *error)
{
    assert(status != STATUS_OK && generation->holders == 0 && "no worker has heard of it");
    generation_tell_refusal(generation, status, error->message, clock_now_ns());
    if (generation->call->pass) /* before the client hears of it, and asks again */
        tenant_pass_settle(generation->call->pass, false, 0, clock_now_ns());
    intake_fail(intake, generation->call, status, error);
    generation_destroy(generation);
}

/* Without a name of its own it has the call's. */
static void name(struct generation *generation)
{
    generation->is_named = generation->request_id[0] != '\0';
    if (!generation->is_named)
        snprintf(generation->request_id, sizeof generation->request_id, "%s",
                 generation->call->ops->request_id(generation->call));
}

static void rename_drawn(struct generation *generation)
{
    char drawn[REQUEST_ID_MAX + 1], id[REQUEST_ID_MAX + 1];
    rpc_request_id_draw(drawn);
    snprintf(id, sizeof id, "%.*s~%.16s", (int)REQUEST_ID_MAX - 17, generation->request_id, drawn);
    memcpy(generation->request_id, id, sizeof id);
    generation->call->ops->set_request_id(generation->call, id);
}

/* A request's own name must be unique. The metadata's need not: proxies hand one on with all that they do for
 * one request of theirs, so it gets a drawn ending. */
static enum status dispatch(struct intake *intake, struct generation *generation,
                            struct rpc_error *error)
{
    assert(!generation->text && generation->n_tokens > 0 && "judged, and tokenized");
    enum status status = dispatch_start(intake->dispatch, generation);
    if (status == STATUS_DUPLICATE_REQUEST && !generation->is_named) {
        rename_drawn(generation);
        status = dispatch_start(intake->dispatch, generation);
    }
    if (status == STATUS_DUPLICATE_REQUEST)
        rpc_error_set(error, status, "request_id", generation->request_id,
                      "request_id \"%s\" belongs to a request that is still running",
                      generation->request_id);
    else if (status == STATUS_MODEL_NOT_FOUND)
        generation_lacks_adapter(generation, "", error);
    return status;
}

/* A beam search computes all of its beams, however many it tells. */
static uint32_t expected_tokens(const struct generation *generation)
{
    const uint32_t n_replies = generation_is_search(generation)
                                   ? generation->sampling.params.beams.n_beams
                                   : generation->n_choices;
    const uint64_t n = (uint64_t)n_replies * sampling_choice_expected_tokens(&generation->sampling);
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

/* Of the tenant's tokens a minute; what an answer has beyond that, the tenant owes at its end. */
static enum status reserve(const struct generation *generation, struct rpc_error *error)
{
    struct tenant_refusal refusal;
    if (!generation->call->pass)
        return STATUS_OK;
    enum status status = tenant_pass_reserve(generation->call->pass, generation->n_tokens,
                                             expected_tokens(generation), clock_now_ns(), &refusal);
    if (status != STATUS_OK)
        admission_refuse(status, &refusal, error);
    return status;
}

/* The salt that workers and the core know: of a tenant's own cache, or its group's. */
static enum status salt(struct generation *generation)
{
    char text[SHA256_TEXT];
    _Static_assert(sizeof text <= sizeof generation->cache_salt, "a MAC is a salt");
    if (!generation->call->pass)
        return STATUS_OK;
    TRY(tenant_pass_salt(generation->call->pass, generation->cache_salt, text));
    memcpy(generation->cache_salt, text, sizeof text);
    return STATUS_OK;
}

/* The same prompt with another adapter has other KV. */
static void mix_salt(struct generation *generation)
{
    char digest[ADAPTER_DIGEST_BYTES] = "";
    if (!adapter_id_is_none(&generation->adapter))
        adapter_digest_format(generation->adapter.digest, digest);
    snprintf(generation->route_salt, sizeof generation->route_salt, "%s%s%s", digest,
             digest[0] ? " " : "", generation->cache_salt);
}

/* Chat templates write the beginning of text themselves, and then it is there twice. Transformers and others do
 * what they are told, too. */
static void tell_double(struct intake *intake, const struct generation *generation)
{
    const uint32_t *ids = generation->token_ids;
    if (!generation->add_special || generation->n_tokens < 2 || ids[0] != ids[1] ||
        ids[0] >= tokenizer_n_ids(intake->tokenizer) ||
        !tokenizer_is_special(intake->tokenizer, ids[0]) ||
        atomic_exchange(&intake->has_told_double, true))
        return;
    log_write(LOG_WARN, generation->request_id,
              "a text begins with special token %" PRIu32
              ", which is added to texts: the prompt has it twice unless add_special_tokens is "
              "false (logged once)",
              ids[0]);
}

static const struct reply_constraint *constraint_of(const struct generation *generation)
{
    const struct token_rules *rules = generation->rules;
    return rules && rules->constraint.kind != REPLY_FREE ? &rules->constraint : NULL;
}

static enum status check_constraint(const struct intake *intake,
                                    const struct generation *generation, struct rpc_error *error)
{
    const struct reply_constraint *constraint = constraint_of(generation);
    return constraint ? constraint_request_check(constraint, &intake->constraints, error)
                      : STATUS_OK;
}

/* The prompt of a chat request; on the text thread. */
static enum status render(struct intake *intake, struct generation *generation,
                          struct rpc_error *error)
{
    if (!generation->is_chat)
        return STATUS_OK;
    if (intake->renderer)
        return generation_render(generation, intake->renderer, intake->tokenizer,
                                 (int64_t)(clock_unix_ms() / 1000), error);
    rpc_error_set(error, STATUS_NO_CHAT_TEMPLATE, "chat", NULL,
                  "%s: use text, or ask the operator for one (chat_template)",
                  status_text(STATUS_NO_CHAT_TEMPLATE));
    return STATUS_NO_CHAT_TEMPLATE;
}

/* The generation is judged and copied. */
static void start(struct intake *intake, struct generation *generation, uint32_t context_tokens)
{
    struct rpc_error error = {0};
    bool is_text = generation->text;
    enum status status;
    assert(generation->holders == 0 && "dispatch does not know it yet");
    if (door_call_is_over(generation->call))
        status = door_call_end_status(generation->call);
    else
        status = check_constraint(intake, generation, &error);
    if (status == STATUS_OK)
        status = render(intake, generation, &error);
    if (status == STATUS_OK)
        status = generation_tokenize(generation, intake->tokenizer, context_tokens, &error);
    if (status == STATUS_OK && is_text)
        tell_double(intake, generation);
    if (status == STATUS_OK)
        status = generation_prepare(generation, intake->tokenizer);
    if (status == STATUS_OK)
        status = salt(generation);
    if (status == STATUS_OK)
        mix_salt(generation);
    if (status == STATUS_OK) /* last: who is refused for another reason pays nothing */
        status = reserve(generation, &error);
    if (status == STATUS_OK)
        status = dispatch(intake, generation, &error);
    if (status != STATUS_OK)
        refuse_generation(intake, generation, status, &error);
}

static void start_later(void *arg)
{
    struct text_work work = *(struct text_work *)arg;
    free(arg);
    start(work.intake, work.generation, work.context_tokens);
}

static size_t constraint_bytes(const struct generation *generation)
{
    const struct reply_constraint *constraint = constraint_of(generation);
    return constraint ? reply_constraint_bytes(constraint) : 0;
}

/* The generation's text is long, or its constraint. */
static enum status start_on_text_thread(struct intake *intake, struct generation *generation,
                                        uint32_t context_tokens, struct rpc_error *error)
{
    struct error why = {0};
    struct text_work *work = malloc(sizeof *work);
    if (!work)
        return STATUS_NO_MEMORY;
    *work = (struct text_work){intake, generation, context_tokens};
    enum status status = text_thread_push(intake->text_thread, start_later, work,
                                          generation->text_bytes + constraint_bytes(generation),
                                          &why);
    if (status == STATUS_OK)
        return STATUS_OK;
    free(work);
    rpc_error_set(error, status, NULL, NULL, "%s", why.text);
    return status;
}

static void judge(struct intake *intake, const struct arrival *arrival,
                  const struct model_card *card)
{
    struct rpc_error error = {0};
    struct request_limits limits = {
        .model_name = intake->model_name,
        .defaults = intake->defaults,
        .card = *card,
        .text_bytes_max = intake->text_bytes_max,
        .chat = &intake->chat,
        .chat_tokens_max = intake->chat_tokens_max,
        .priority_max = intake->priority_max,
    };
    struct generation *generation = generation_create(arrival->call, intake->process->trace.tracer,
                                                      arrival->arrived_ns);
    if (!generation) {
        intake_fail(intake, arrival->call, STATUS_NO_MEMORY, &error);
        return;
    }
    const Kvferry__V1__GenerateRequest *message = (const Kvferry__V1__GenerateRequest *)
                                                      arrival->message;
    enum status status = generation_take(generation, message, &limits, &error);
    name(generation);
    bool is_long = generation->is_chat || generation->text_bytes + constraint_bytes(generation) >
                                              intake->text_inline_bytes;
    if (status == STATUS_OK && is_long)
        status = start_on_text_thread(intake, generation, card->context_tokens, &error);
    if (status != STATUS_OK)
        refuse_generation(intake, generation, status, &error);
    else if (!is_long)
        start(intake, generation, card->context_tokens);
}

/* ---- before enough is known ---- */

/* The card is set with EARLY_MODEL. Before process_serving nothing else of the service is looked at. */
static enum early_known what_is_known(struct intake *intake, struct model_card *card_out)
{
    if (process_refuses(intake->process) == STATUS_LOADING)
        return EARLY_NOTHING;
    assert(intake->workers && intake->dispatch && "set before it serves");
    return worker_clients_card(intake->workers, card_out) ? EARLY_MODEL : EARLY_TOKENIZER;
}

void intake_refuse(struct intake *intake, struct door_call *call, enum status status,
                   struct rpc_error *error)
{
    call_tell_refusal(call, status, error->message);
    intake_fail(intake, call, status, error);
}

struct wait_end {
    struct intake *intake;
    struct model_card card; /* when it is known */
};

static void on_wait_end(void *arg, const struct arrival *arrival, enum status status,
                        const char *sentence)
{
    struct wait_end *end = arg;
    struct rpc_error error = {0};
    if (status == STATUS_OK && arrival->serve) {
        arrival->serve(arrival->arg, arrival);
        return;
    }
    if (status == STATUS_OK) {
        judge(end->intake, arrival, &end->card);
        return;
    }
    if (sentence[0])
        rpc_error_set(&error, status, NULL, NULL, "%s", sentence);
    intake_refuse(end->intake, arrival->call, status, &error);
}

static struct standing standing_of(const struct intake *intake, const struct arrival *arrival)
{
    return request_standing(arrival->call->pass,
                            arrival->serve ? NULL
                                           : (const Kvferry__V1__GenerateRequest *)arrival->message,
                            intake->priority_max);
}

/* With those that wait. */
static void wait_for_more(struct intake *intake, const struct arrival *arrival,
                          enum early_known known)
{
    struct rpc_error error = {0};
    struct wait_end end = {.intake = intake};
    const struct standing standing = standing_of(intake, arrival);
    enum status status = early_requests_push(intake->early, arrival, &standing, on_wait_end, &end);
    if (status == STATUS_NO_GENERATION_WORKER && known == EARLY_NOTHING)
        status = STATUS_LOADING;
    if (status == STATUS_OK)
        counter_add(intake->metrics->series.waited, 1);
    else
        intake_refuse(intake, arrival->call, status, &error);
}

void intake_look(struct intake *intake, uint64_t now_ns)
{
    struct wait_end end = {.intake = intake};
    enum early_known known = what_is_known(intake, &end.card);
    early_requests_step(intake->early, now_ns, known, on_wait_end, &end);
}

void intake_drain(struct intake *intake)
{
    struct wait_end end = {.intake = intake};
    early_requests_drain(intake->early, on_wait_end, &end);
}

/* ---- arriving ---- */

/* From here on replies and errors have the message's name. A bad one is refused when the message is judged. */
static void name_call(struct door_call *call, const char *id)
{
    struct rpc_error ignored;
    if (id[0] && rpc_request_id_check("request_id", id, strlen(id), &ignored) == STATUS_OK)
        call->ops->set_request_id(call, id);
}

/* While it loads they wait: what_is_known. */
static enum status refusal(const struct intake *intake)
{
    enum status status = process_refuses(intake->process);
    return status == STATUS_LOADING ? STATUS_OK : status;
}

enum status intake_check_model(struct intake *intake, const char *model, const char *field,
                               struct rpc_error *error)
{
    static const struct model_card NOTHING = {.n_adapters = 0};
    struct model_card card;
    struct adapter_id ignored;
    const bool is_known = what_is_known(intake, &card) == EARLY_MODEL;
    return request_find_model(model, field, intake->model_name, is_known ? &card : &NOTHING, error,
                              &ignored);
}

void intake_generate(struct intake *intake, struct door_call *call,
                     const Kvferry__V1__GenerateRequest *message)
{
    struct model_card card;
    struct rpc_error error = {0};
    const struct arrival arrival = {.call = call,
                                    .message = &message->base,
                                    .needs = EARLY_MODEL,
                                    .arrived_ns = clock_now_ns()};
    name_call(call, message->request_id);
    enum status status = refusal(intake);
    enum early_known known = status == STATUS_OK ? what_is_known(intake, &card) : EARLY_NOTHING;
    if (status == STATUS_OK && known == EARLY_MODEL && early_requests_count(intake->early) == 0) {
        judge(intake, &arrival, &card);
        return;
    }
    if (status == STATUS_OK) /* its model may be an adapter, which a worker has not told yet */
        wait_for_more(intake, &arrival, known);
    else
        intake_refuse(intake, call, status, &error);
}

void intake_serve(struct intake *intake, const struct arrival *arrival)
{
    assert(arrival->serve && arrival->needs == EARLY_TOKENIZER);
    struct arrival now = *arrival;
    now.arrived_ns = clock_now_ns();
    if (process_refuses(intake->process) == STATUS_LOADING)
        wait_for_more(intake, &now, EARLY_NOTHING);
    else
        now.serve(now.arg, &now);
}
