#include "api/openai/openai_call.h"

#include "api/openai/openai_admission.h"
#include "api/openai/openai_call_parts.h"
#include "api/openai/openai_stream.h"
#include "api/openai/openai_whole.h"
#include "base/clock.h"
#include "router/admission/refusal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of a reply that is no stream: a shorter one is made at once. */
#define REPLY_INLINE_BYTES (64u << 10)

static struct openai_prompt *prompt_of(struct door_call *call)
{
    return (struct openai_prompt *)call;
}

/* ---- holders ---- */

static void call_share(struct openai_call *call)
{
    assert(call->n_holders > 0);
    atomic_fetch_add(&call->n_holders, 1);
}

static void call_release(struct openai_call *call)
{
    assert(call->n_holders > 0);
    if (atomic_fetch_sub(&call->n_holders, 1) > 1)
        return;
    for (uint32_t i = 0; i < call->request.n_prompts; i++)
        if (call->prompts && call->prompts[i].owns_pass)
            tenant_pass_destroy(call->prompts[i].base.pass, clock_now_ns());
    for (uint32_t i = 0; call->prompts && i < call->request.n_prompts; i++)
        collected_scores_finish(&call->prompts[i].scores);
    for (uint32_t i = 0; call->choices && i < call->request.n_prompts * call->request.n_choices;
         i++)
        collected_finish(&call->choices[i].collected);
    free(call->prompts);
    free(call->choices);
    openai_request_finish(&call->request);
    pthread_mutex_destroy(&call->mutex);
    http_exchange_release(call->exchange);
    free(call);
}

static void share(struct door_call *call)
{
    call_share(prompt_of(call)->call);
}

static void release(struct door_call *call)
{
    call_release(prompt_of(call)->call);
}

/* ---- who asks, and whether anybody still waits ---- */

static bool is_over(struct door_call *base)
{
    struct openai_call *call = prompt_of(base)->call;
    return call->has_failed || http_exchange_is_over(call->exchange);
}

static enum status end_status(struct door_call *base)
{
    struct openai_call *call = prompt_of(base)->call;
    return call->has_failed ? STATUS_CANCELLED : http_exchange_end_status(call->exchange);
}

static void on_end(struct door_call *base, void (*end)(void *arg, enum status why), void *arg)
{
    struct openai_prompt *prompt = prompt_of(base);
    struct openai_call *call = prompt->call;
    pthread_mutex_lock(&call->mutex);
    const bool is_late = call->is_over;
    const enum status why = call->over;
    assert(!prompt->on_end && "set once");
    if (!is_late) {
        prompt->on_end = end;
        prompt->arg = arg;
    }
    pthread_mutex_unlock(&call->mutex);
    if (is_late)
        end(arg, why);
}

/* On the port's thread. */
static void on_exchange_end(void *arg, enum status why)
{
    struct openai_call *call = arg;
    pthread_mutex_lock(&call->mutex);
    call->is_over = true;
    call->over = why;
    pthread_mutex_unlock(&call->mutex);
    for (uint32_t i = 0; i < call->request.n_prompts; i++)
        if (call->prompts[i].on_end) /* nobody sets it any more */
            call->prompts[i].on_end(call->prompts[i].arg, why);
    call_release(call);
}

static const char *request_id(struct door_call *call)
{
    return prompt_of(call)->request_id;
}

static void set_request_id(struct door_call *call, const char *id)
{
    snprintf(prompt_of(call)->request_id, sizeof prompt_of(call)->request_id, "%s", id);
}

static void origin(struct door_call *call, struct request_origin *origin_out)
{
    openai_origin(prompt_of(call)->call->exchange, prompt_of(call)->request_id, origin_out);
}

static void peer(struct door_call *call, char *peer_out, size_t peer_bytes)
{
    struct rpc_peer from;
    http_exchange_peer_of(prompt_of(call)->call->exchange, &from);
    snprintf(peer_out, peer_bytes, "%s", from.address);
}

/* ---- a whole reply; the call's mutex is held ---- */

static enum status add_text(struct openai_call *call, size_t bytes)
{
    call->text_bytes += bytes;
    return call->text_bytes > call->place->reply_bytes_max ? STATUS_REPLY_TOO_LONG : STATUS_OK;
}

/* ---- door_ops ---- */

static enum status piece(struct door_call *base, const struct reply_piece *piece)
{
    struct openai_prompt *prompt = prompt_of(base);
    struct openai_call *call = prompt->call;
    struct openai_choice *choice = openai_choice_of(prompt, piece->index);
    enum status status = STATUS_CANCELLED;
    pthread_mutex_lock(&call->mutex);
    call->kind.tokenizer = call->place->intake->tokenizer;
    if (!call->is_over && !call->has_failed) {
        if (call->request.is_stream)
            status = openai_stream_piece(call, choice, piece);
        else if (call->request.is_echo_alone)
            status = STATUS_OK;
        else if ((status = add_text(call, openai_whole_piece_bytes(call, piece))) == STATUS_OK)
            status = collected_add(&choice->collected, piece, SIZE_MAX);
    }
    pthread_mutex_unlock(&call->mutex);
    return status == STATUS_QUEUE_FULL ? STATUS_CANCELLED
                                       : status; /* a slow reader: on_end says so */
}

/* A stream has them as they come; a whole reply keeps them. */
static enum status scores(struct door_call *base, const uint32_t *token_ids,
                          const struct prompt_scores *told)
{
    struct openai_prompt *prompt = prompt_of(base);
    struct openai_call *call = prompt->call;
    enum status status = STATUS_CANCELLED;
    pthread_mutex_lock(&call->mutex);
    call->kind.tokenizer = call->place->intake->tokenizer;
    if (!call->is_over && !call->has_failed) {
        status = collected_scores_add(&prompt->scores, token_ids, told, SIZE_MAX);
        if (status == STATUS_OK)
            status = call->request.is_stream
                         ? openai_stream_scores(prompt)
                         : add_text(call, openai_whole_scores_bytes(prompt, told->n));
    }
    pthread_mutex_unlock(&call->mutex);
    return status == STATUS_QUEUE_FULL ? STATUS_CANCELLED : status; /* as piece */
}

static enum status progress(struct door_call *call, uint32_t n_done, uint32_t n)
{
    (void)call, (void)n_done, (void)n;
    return STATUS_OK;
}

/* Once; the mutex is held. */
static void tell_failure(struct openai_call *call, const struct rpc_error *error)
{
    struct openai_error told;
    openai_error_of(error, &told);
    openai_request_rename(&call->request, &told);
    openai_error_explain(&told);
    if (error->status == STATUS_REPLY_TOO_LONG)
        snprintf(told.message, sizeof told.message,
                 "the reply is longer than %" PRIu64 " bytes; a stream has no such limit",
                 call->place->reply_bytes_max);
    if (!call->has_begun) {
        openai_error_reply(call->exchange, &told, call->request_id);
    } else if (openai_stream_event(call, openai_error_json(&told)) == STATUS_OK) {
        http_exchange_end(call->exchange);
    } else {
        http_exchange_cut(call->exchange);
    }
}

static void fail(struct door_call *base, const struct rpc_error *error)
{
    struct openai_call *call = prompt_of(base)->call;
    pthread_mutex_lock(&call->mutex);
    bool is_first = !atomic_exchange(&call->has_failed, true);
    if (is_first && !call->is_over)
        tell_failure(call, error);
    pthread_mutex_unlock(&call->mutex);
}

/* On the text thread. Nobody adds to the reply any more. */
static void reply_later(void *arg)
{
    struct openai_call *call = arg;
    struct rpc_error error = {0};
    enum status status = openai_whole_reply(call);
    if (status != STATUS_OK && status != STATUS_CANCELLED) {
        rpc_error_set(&error, status, NULL, NULL, "%s", status_text(status));
        fail(&call->prompts[0].base, &error);
    }
    call_release(call);
}

/* A long one is made where nobody's stream waits for it. */
static enum status reply(struct openai_call *call)
{
    if (call->text_bytes > REPLY_INLINE_BYTES) {
        call_share(call);
        struct error ignored; /* then it is made here */
        if (text_thread_push(call->place->intake->text_thread, reply_later, call, call->text_bytes,
                             &ignored) == STATUS_OK)
            return STATUS_OK;
        call_release(call); /* not the last: the prompt has it, too */
    }
    return openai_whole_reply(call);
}

static enum status take_end(struct openai_call *call, struct openai_choice *choice,
                            const struct reply_end *end)
{
    enum status status;
    reply_usage_add(&call->usage, end, !call->request.is_echo_alone);
    choice->reason = call->request.is_echo_alone ? KVFERRY__V1__FINISH_REASON__FINISH_REASON_LENGTH
                                                 : end->reason;
    choice->has_beam_score = end->has_beam_score && !call->request.is_echo_alone;
    choice->beam_score = end->beam_score;
    if (end->is_last)
        call->n_live--;
    if (call->request.is_stream) {
        status = openai_stream_end_choice(call, choice, end);
        return status == STATUS_OK && call->n_live == 0 ? openai_stream_end(call) : status;
    }
    if (!call->request.is_echo_alone) {
        TRY(add_text(call, end->text_bytes));
        TRY(collected_add_text(&choice->collected, end->text, end->text_bytes, SIZE_MAX));
    }
    return call->n_live == 0 ? reply(call) : STATUS_OK;
}

static enum status end(struct door_call *base, struct reply_end *end)
{
    struct openai_prompt *prompt = prompt_of(base);
    struct openai_call *call = prompt->call;
    struct rpc_error error = {0};
    enum status status = STATUS_CANCELLED;
    pthread_mutex_lock(&call->mutex);
    assert(call->n_live > 0);
    call->kind.tokenizer = call->place->intake->tokenizer;
    if (!call->is_over && !call->has_failed)
        status = take_end(call, openai_choice_of(prompt, end->index), end);
    pthread_mutex_unlock(&call->mutex);
    if (status == STATUS_OK || status == STATUS_CANCELLED)
        return status;
    rpc_error_set(&error, status, NULL, NULL, "%s", status_text(status));
    fail(base, &error);
    return status;
}

static const struct door_ops OPS = {
    .share = share,
    .release = release,
    .is_over = is_over,
    .end_status = end_status,
    .on_end = on_end,
    .request_id = request_id,
    .set_request_id = set_request_id,
    .origin = origin,
    .peer = peer,
    .piece = piece,
    .progress = progress,
    .scores = scores,
    .end = end,
    .fail = fail,
};

/* ---- asking ---- */

static void refuse(const struct openai_place *place, struct http_exchange *exchange,
                   const struct openai_error *error)
{
    struct request_origin from;
    struct rpc_peer at;
    const struct tenant_pass *pass = http_exchange_pass(exchange);
    enum status status = error->code == 500 ? STATUS_NO_MEMORY : STATUS_INVALID_ARGUMENT;
    openai_origin(exchange, NULL, &from);
    http_exchange_peer_of(exchange, &at);
    const struct log_about about = {
        .request_id = from.request_id, .trace = &from.trace, .peer = at.address};
    refusal_tell(&about, status, pass ? tenant_pass_name(pass) : "", error->message);
    status_counters_add(&place->intake->metrics->requests, status);
    openai_error_reply(exchange, error, from.request_id);
}

static void name_prompt(const struct openai_call *call, struct openai_prompt *prompt, uint32_t i)
{
    if (i == 0)
        snprintf(prompt->request_id, sizeof prompt->request_id, "%s", call->request_id);
    else
        snprintf(prompt->request_id, sizeof prompt->request_id, "%.100s~p%" PRIu32,
                 call->request_id, i);
}

static enum status admit_prompt(struct openai_prompt *prompt, struct rpc_error *error)
{
    struct http_exchange *exchange = prompt->call->exchange;
    struct request_origin from;
    openai_origin(exchange, prompt->request_id, &from);
    TRY(openai_admit(prompt->call->place->admission, exchange, &from, &prompt->base.pass, error));
    prompt->owns_pass = true;
    return STATUS_OK;
}

/* Each prompt is a request to the tenant's quotas; the first has the exchange's pass. */
static enum status make_prompts(struct openai_call *call, uint64_t now_ns, struct rpc_error *error)
{
    struct openai_request *request = &call->request;
    uint32_t n_choices = request->n_prompts * request->n_choices;
    call->prompts = calloc(request->n_prompts, sizeof *call->prompts);
    call->choices = calloc(n_choices, sizeof *call->choices);
    if (!call->prompts || !call->choices)
        return STATUS_NO_MEMORY;
    for (uint32_t i = 0; i < request->n_prompts; i++) {
        struct openai_prompt *prompt = &call->prompts[i];
        prompt->call = call;
        prompt->base = (struct door_call){.ops = &OPS,
                                          .pass = http_exchange_pass(call->exchange),
                                          .deadline_ns = now_ns + call->place->default_deadline_ns,
                                          .is_whole = !request->is_stream};
        prompt->scores.n_top = request->sampling.prompt_logprobs;
        name_prompt(call, prompt, i);
        if (i > 0 && prompt->base.pass)
            TRY(admit_prompt(prompt, error));
    }
    call->n_live = request->n_prompts;
    return STATUS_OK;
}

static struct openai_call *call_create(const struct openai_place *place,
                                       struct http_exchange *exchange, int64_t now_unix_s)
{
    struct openai_call *call = calloc(1, sizeof *call);
    struct request_origin from;
    if (!call)
        return NULL;
    call->place = place;
    call->exchange = http_exchange_share(exchange);
    atomic_init(&call->n_holders, 1);
    atomic_init(&call->has_failed, false);
    pthread_mutex_init(&call->mutex, NULL);
    openai_origin(exchange, NULL, &from);
    memcpy(call->request_id, from.request_id, sizeof call->request_id);
    call->kind.created = now_unix_s;
    call->kind.model = place->model_name;
    return call;
}

static void describe(struct openai_call *call)
{
    const struct openai_request *request = &call->request;
    snprintf(call->id, sizeof call->id, "%s-%s", request->is_chat ? "chatcmpl" : "cmpl",
             call->request_id);
    call->kind.id = call->id;
    if (request->message.model[0]) /* it may be an adapter's */
        call->kind.model = request->message.model;
    call->kind.is_chat = request->is_chat;
    call->kind.has_logprobs = request->has_logprobs;
    call->kind.n_top_logprobs = request->n_top_logprobs;
    call->kind.has_prompt_logprobs = request->has_prompt_logprobs;
    call->kind.n_prompt_logprobs = request->n_prompt_logprobs;
    call->kind.return_token_ids = request->return_token_ids;
    call->kind.include_usage = request->is_stream && request->include_usage;
    call->kind.tools = request->constraint.tools;
    call->kind.tool_name = request->constraint.tool_name;
}

static void ask(struct openai_call *call)
{
    struct openai_error wrong = {0};
    struct openai_request *request = &call->request;
    for (uint32_t i = 0; i < request->n_prompts && !call->has_failed; i++) {
        if (openai_request_set_prompt(request, i, &wrong)) {
            intake_generate(call->place->intake, &call->prompts[i].base, &request->message);
            continue;
        }
        struct rpc_error error = {0};
        rpc_error_set(&error, STATUS_INVALID_ARGUMENT, wrong.param, NULL, "%s", wrong.message);
        intake_refuse(call->place->intake, &call->prompts[i].base, STATUS_INVALID_ARGUMENT, &error);
    }
}

void openai_call_serve(const struct openai_place *place, struct http_exchange *exchange,
                       bool is_chat, uint64_t now_ns, int64_t now_unix_s)
{
    struct openai_error wrong;
    struct rpc_error error = {0};
    size_t bytes;
    struct openai_call *call = call_create(place, exchange, now_unix_s);
    if (!call) {
        http_exchange_cut(exchange);
        return;
    }
    const char *body = http_exchange_body(exchange, &bytes);
    if (!openai_request_read(&call->request, is_chat, &place->intake->chat, body, bytes, &wrong)) {
        refuse(place, exchange, &wrong);
        call->request.n_prompts = 0;
        call_release(call);
        return;
    }
    http_exchange_drop_body(exchange);
    describe(call);
    enum status status = make_prompts(call, now_ns, &error);
    if (status != STATUS_OK) {
        if (!error.message[0])
            rpc_error_set(&error, status, NULL, NULL, "%s", status_text(status));
        openai_error_of(&error, &wrong);
        refuse(place, exchange, &wrong);
        call_release(call);
        return;
    }
    call_share(call);
    http_exchange_on_end(exchange, on_exchange_end, call);
    if (call->request.is_stream && call->request.sampling.beam_width > 1)
        http_exchange_keeps(exchange, place->reply_bytes_max); /* all replies come at once */
    if (call->request.is_stream)
        http_exchange_on_quiet(exchange, openai_stream_on_quiet, call);
    ask(call);
    call_release(call);
}
