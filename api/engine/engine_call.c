#include "api/engine/engine_call.h"

#include "rpc/request_id.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRAWN_CHARACTERS 16

static struct engine_call *call_of(struct door_call *call)
{
    return (struct engine_call *)call;
}

static void destroy(struct rpc_door_call *door)
{
    struct engine_call *call = (struct engine_call *)door;
    if (call->leave) /* before anything of it goes: until then it may be found */
        call->leave(call);
    for (uint32_t i = 0; i < call->n_choices; i++) {
        collected_finish(&call->choices[i].collected);
        free(call->choices[i].stop_string);
    }
    collected_scores_finish(&call->scores);
    free(call->choices);
    free(call->prompt_ids);
    pthread_mutex_destroy(&call->lock);
    free(call);
}

/* ---- the reply ---- */

static uint64_t reply_bytes_max(const struct engine_call *call)
{
    return call->place->config->reply_bytes_max;
}

/* Of a token in a message, at most: its id, and its log-probabilities with theirs. */
static size_t token_bytes(const struct engine_wants *wants)
{
    return 5 + (wants->has_logprobs ? 16 * ((size_t)wants->n_top + 1) : 0);
}

/* The first piece's. */
static enum status keep_prompt(struct engine_call *call, const struct reply_piece *piece)
{
    if (!call->wants.has_prompt_ids || call->prompt_ids)
        return STATUS_OK;
    call->prompt_ids = malloc(piece->n_prompt * sizeof *call->prompt_ids);
    if (!call->prompt_ids)
        return STATUS_NO_MEMORY;
    memcpy(call->prompt_ids, piece->prompt_ids, piece->n_prompt * sizeof *call->prompt_ids);
    return STATUS_OK;
}

static enum status keep(struct engine_call *call, struct engine_choice *choice,
                        const struct reply_piece *piece)
{
    struct reply_piece kept = *piece;
    TRY(keep_prompt(call, piece));
    if (!call->wants.has_text)
        kept.text_bytes = 0;
    call->kept_bytes += kept.text_bytes + piece->n * token_bytes(&call->wants);
    if (call->kept_bytes + collected_scores_bytes(&call->scores) > reply_bytes_max(call))
        return STATUS_REPLY_TOO_LONG;
    return collected_add(&choice->collected, &kept, reply_bytes_max(call));
}

/* A message was made: what only the first has is not needed any more. */
static void begun(struct engine_call *call)
{
    call->has_begun = true;
    collected_scores_finish(&call->scores);
}

static enum status piece(struct door_call *door, const struct reply_piece *piece)
{
    struct engine_call *call = call_of(door);
    enum status status = STATUS_CANCELLED;
    pthread_mutex_lock(&call->lock);
    assert(piece->index < call->n_choices && piece->n > 0);
    if (!call->is_aborted) {
        struct engine_choice *choice = &call->choices[piece->index];
        choice->n_tokens += piece->n;
        call->n_prompt = piece->n_prompt;
        status = call->wants.is_stream ? call->form->piece(call, piece) : keep(call, choice, piece);
        if (call->wants.is_stream)
            begun(call);
    }
    pthread_mutex_unlock(&call->lock);
    return status;
}

static enum status say_end(struct engine_call *call, uint32_t index, const struct reply_end *reply)
{
    struct engine_choice *choice = &call->choices[index];
    const struct engine_end end = {.index = index,
                                   .reply = reply,
                                   .collected = &choice->collected,
                                   .n_tokens = choice->n_tokens};
    assert(!choice->is_done && "each once");
    choice->is_done = true;
    if (reply)
        call->n_prompt = reply->usage.prompt_tokens;
    enum status status = call->form->end(call, &end);
    begun(call);
    collected_finish(&choice->collected);
    return status;
}

/* Of what end borrows it has its own. */
static enum status keep_end(struct engine_call *call, const struct reply_end *end)
{
    struct engine_choice *choice = &call->choices[end->index];
    ProtobufCBinaryData *stop = &choice->end.stop_string;
    if (call->wants.has_text)
        TRY(collected_add_text(&choice->collected, end->text, end->text_bytes,
                               reply_bytes_max(call)));
    choice->end = *end;
    choice->end.text = choice->end.request_id = NULL;
    choice->end.text_bytes = 0;
    if (stop->len > 0) {
        choice->stop_string = malloc(stop->len);
        if (!choice->stop_string)
            return STATUS_NO_MEMORY;
        memcpy(choice->stop_string, stop->data, stop->len);
        stop->data = choice->stop_string;
    }
    choice->has_ended = true;
    return STATUS_OK;
}

static enum status say_ends_in_order(struct engine_call *call)
{
    for (uint32_t i = 0; i < call->n_choices && call->choices[i].has_ended; i++)
        if (!call->choices[i].is_done)
            TRY(say_end(call, i, &call->choices[i].end));
    return STATUS_OK;
}

static enum status take_end(struct engine_call *call, const struct reply_end *end)
{
    if (call->wants.is_stream)
        return say_end(call, end->index, end);
    TRY(keep_end(call, end));
    return say_ends_in_order(call);
}

static void finish(struct engine_call *call)
{
    if (!call->door.base.is_whole)
        rpc_call_finish(call->door.rpc);
}

/* A cut sentence of the cluster may name its machines. */
static void fail(struct door_call *door, const struct rpc_error *error)
{
    struct rpc_error told = *error;
    bool is_about_request = error->field[0] ||
                            status_grpc_code(error->status) ==
                                status_grpc_code(STATUS_INVALID_ARGUMENT) ||
                            error->status == STATUS_QUEUE_FULL;
    if (error->status == STATUS_REPLY_TOO_LONG)
        snprintf(told.message, sizeof told.message,
                 "the reply is longer than %llu bytes; a stream without log-probabilities of the "
                 "prompt has no such limit",
                 (unsigned long long)reply_bytes_max(call_of(door)));
    else if (!is_about_request)
        snprintf(told.message, sizeof told.message, "%s", status_text(error->status));
    engine_fields_rename(call_of(door)->form->fields, &told);
    rpc_call_fail(call_of(door)->door.rpc, &told);
}

static enum status end(struct door_call *door, struct reply_end *end)
{
    struct engine_call *call = call_of(door);
    struct rpc_error error = {0};
    enum status status = STATUS_OK;
    pthread_mutex_lock(&call->lock);
    assert(end->index < call->n_choices);
    bool is_aborted = call->is_aborted;
    if (!is_aborted)
        status = take_end(call, end);
    pthread_mutex_unlock(&call->lock);
    if (is_aborted)
        return STATUS_OK;
    if (status == STATUS_OK && end->is_last)
        finish(call);
    if (status != STATUS_NO_MEMORY && status != STATUS_REPLY_TOO_LONG)
        return STATUS_OK; /* the call may be over already: its on_end says how */
    rpc_error_set(&error, status, NULL, NULL, "%s", status_text(status));
    fail(door, &error);
    return status;
}

/* Log-probabilities of a part of the prompt would be taken for those of all of it. */
static void drop_part_of_scores(struct engine_call *call)
{
    if (!collected_scores_are_of(&call->scores, call->n_prompt))
        collected_scores_finish(&call->scores);
}

void engine_call_abort(struct engine_call *call)
{
    pthread_mutex_lock(&call->lock);
    bool was_aborted = call->is_aborted;
    call->is_aborted = true;
    drop_part_of_scores(call);
    pthread_mutex_unlock(&call->lock);
    if (was_aborted || rpc_call_is_over(call->door.rpc))
        return;
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < call->n_choices && status == STATUS_OK; i++) {
        struct engine_choice *choice = &call->choices[i];
        if (!choice->is_done)
            status = say_end(call, i, choice->has_ended ? &choice->end : NULL);
    }
    finish(call);
}

static enum status scores(struct door_call *door, const uint32_t *token_ids,
                          const struct prompt_scores *told)
{
    struct engine_call *call = call_of(door);
    enum status status = STATUS_CANCELLED;
    pthread_mutex_lock(&call->lock);
    if (!call->is_aborted)
        status = collected_scores_add(&call->scores, token_ids, told, reply_bytes_max(call));
    pthread_mutex_unlock(&call->lock);
    return status;
}

static enum status progress(struct door_call *call, uint32_t n_done, uint32_t n)
{
    (void)call, (void)n_done, (void)n;
    assert(false && "only kvferry.v1 asks for it");
    return STATUS_BUG;
}

static const struct door_ops OPS = {
    RPC_DOOR_OPS, .piece = piece, .progress = progress, .scores = scores, .end = end, .fail = fail,
};

enum status engine_call_send(struct engine_call *call, const ProtobufCMessage *message)
{
    if (!call->door.base.is_whole)
        return rpc_call_send(call->door.rpc, message);
    rpc_call_reply(call->door.rpc, message);
    return STATUS_OK;
}

/* ---- the beginning ---- */

/* The inner id is the client's if it can be one; else what of it can, with a drawn ending. Without any the call's stays. */
static void name(struct rpc_call *rpc, const char *client_id)
{
    char id[RPC_REQUEST_ID_MAX + 1], drawn[RPC_REQUEST_ID_MAX + 1];
    struct rpc_error ignored;
    size_t bytes = strlen(client_id);
    if (bytes == 0)
        return;
    if (rpc_request_id_check("request_id", client_id, bytes, &ignored) == STATUS_OK) {
        rpc_call_set_request_id(rpc, client_id);
        return;
    }
    const size_t most = RPC_REQUEST_ID_MAX - DRAWN_CHARACTERS - 1;
    size_t n = bytes < most ? bytes : most;
    for (size_t i = 0; i < n; i++)
        id[i] = client_id[i] > ' ' && client_id[i] <= '~' ? client_id[i] : '?';
    rpc_request_id_draw(drawn);
    snprintf(id + n, sizeof id - n, "~%.*s", DRAWN_CHARACTERS, drawn);
    rpc_call_set_request_id(rpc, id);
}

static uint32_t n_choices(const struct engine_ask *ask)
{
    uint32_t n = ask->sampling.n > 0 ? ask->sampling.n : 1;
    return n < CHOICES_MAX ? n : CHOICES_MAX; /* more is refused later */
}

struct engine_call *engine_call_create(const struct engine_place *place, struct rpc_call *rpc,
                                       const struct engine_ask *ask, const struct engine_form *form)
{
    struct engine_call *call = calloc(1, sizeof *call);
    if (!call)
        return NULL;
    call->n_choices = n_choices(ask);
    call->choices = calloc(call->n_choices, sizeof *call->choices);
    if (!call->choices) {
        free(call);
        return NULL;
    }
    call->place = place;
    call->form = form;
    call->wants = ask->wants;
    call->n_prompt = (uint32_t)ask->ids.n_ids;
    snprintf(call->client_id, sizeof call->client_id, "%s", ask->client_id);
    pthread_mutex_init(&call->lock, NULL);
    rpc_door_call_init(&call->door, &OPS, rpc, ask->wants.is_unary, destroy);
    call->door.base.ends_with_context = true;
    call->scores.n_top = ask->sampling.prompt_logprobs;
    if ((!ask->wants.is_stream || ask->wants.has_scores) && !ask->wants.is_unary)
        rpc_call_keeps(rpc, reply_bytes_max(call));
    name(rpc, ask->client_id);
    return call;
}
