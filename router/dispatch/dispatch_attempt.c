#include "base/log/log.h"
#include "router/dispatch/dispatch_parts.h"
#include "router/requests/beam_replies.h"
#include "router/requests/choice_scores.h"
#include "rpc/borrow.h"
#include "sampling_params/prompt_scores.h"
#include "sampling_params/sampling_codec.h"
#include "sampling_params/standing_codec.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Of a worker's message: a prompt's log-probabilities, each with its likeliest tokens, or fewer tokens with theirs. */
#define ANSWER_ELEMENTS_MAX (2 * PROMPT_SCORES_MAX * (1 + LOGPROBS_MAX))

static void attempt_add(struct attempt **list, struct attempt *attempt)
{
    attempt->next = *list;
    attempt->previous = NULL;
    if (*list)
        (*list)->previous = attempt;
    *list = attempt;
}

static void attempt_remove(struct attempt **list, struct attempt *attempt)
{
    assert(attempt->previous || *list == attempt);
    if (attempt->next)
        attempt->next->previous = attempt->previous;
    if (attempt->previous)
        attempt->previous->next = attempt->next;
    else
        *list = attempt->next;
}

static uint32_t n_tokens_of(const struct attempt *attempt,
                            const Kvferry__Internal__V1__DecodeResponse *message)
{
    size_t n = message->n_token_ids;
    for (size_t i = 0; attempt->is_search && i < message->n_beam_replies; i++)
        n += message->beam_replies[i]->n_token_ids;
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

static void on_message(void *arg, const ProtobufCMessage *message)
{
    struct attempt *attempt = arg;
    const Kvferry__Internal__V1__DecodeResponse
        *response = (const Kvferry__Internal__V1__DecodeResponse *)message;
    struct dispatch *dispatch = attempt->dispatch;
    dispatch_lock(dispatch);
    if (response->finish_reason != KVFERRY__V1__FINISH_REASON__FINISH_REASON_UNSPECIFIED)
        decode_end_take(response, &attempt->end);
    if (response->n_token_ids > 0 || response->prompt_progress || response->n_prompt_logprobs > 0 ||
        (attempt->is_search && beam_replies_are_there(response)))
        router_core_tokens(dispatch->core, attempt->id, n_tokens_of(attempt, response), response);
    dispatch_unlock(dispatch);
}

/* Whether what a worker, or gRPC, says of such an end is about the client's request. Everything else may have
 * addresses, paths and what else is no client's business: the log gets it, the client the status's own text. */
static bool is_for_clients(enum status status)
{
    return status == STATUS_INVALID_ARGUMENT || status == STATUS_PROMPT_TOO_LONG ||
           status == STATUS_NO_BLOCKS || status == STATUS_LOGITS_NOT_FINITE ||
           status == STATUS_CONSTRAINT_UNMET || status == STATUS_UNSUPPORTED ||
           status == STATUS_ADAPTER_MISMATCH;
}

static void log_failed(const struct attempt *attempt, const struct rpc_error *error)
{
    const struct log_about about = log_about_origin(&attempt->origin);
    log_event(LOG_INFO, &about, "attempt failed", LOG_TEXT("status", status_name(error->status)),
              LOG_TEXT("why", error->message));
}

/* A generation worker of an earlier version refused the request's rules: said in words that name the field. */
static enum status say_unknown(const struct attempt *attempt, struct error *why_out)
{
    return error_set(why_out, STATUS_UNSUPPORTED,
                     "%s is not supported by the generation worker, which has an earlier version",
                     attempt->rule);
}

static void on_end(void *arg, const struct rpc_error *error)
{
    struct attempt *attempt = arg;
    struct dispatch *dispatch = attempt->dispatch;
    struct error why;
    const bool is_unknown = attempt->rule && sampling_is_absent(error->status, error->message);
    enum status status = is_unknown ? say_unknown(attempt, &why) : error->status;
    const char *sentence = is_unknown ? why.text : is_for_clients(status) ? error->message : "";
    if (status != STATUS_OK && status != STATUS_CANCELLED)
        log_failed(attempt, error);
    if (status == STATUS_OK && !attempt->end.is_there) {
        status = STATUS_BUG;
        sentence = "the generation worker's stream ended without a last message";
    }
    dispatch_lock(dispatch);
    attempt_remove(&dispatch->attempts, attempt);
    router_core_ended(dispatch->core, attempt->id, status, sentence, &attempt->end);
    rpc_client_call_release(attempt->call);
    free(attempt);
    dispatch_unlock(dispatch);
}

static struct rpc_channel *find_channel(const struct dispatch *dispatch, const char *address)
{
    for (uint32_t i = 0; i < PROCESS_PEERS_MAX; i++)
        if (dispatch->workers[i].channel && strcmp(dispatch->workers[i].address, address) == 0)
            return dispatch->workers[i].channel;
    assert(false && "the core names only workers that were added");
    return NULL;
}

static bool has_unpaired_context(const struct dispatch *dispatch)
{
    bool has_some = router_core_n_ready(dispatch->core, WORKER_CONTEXT) > 0;
    for (uint32_t i = 0; i < PROCESS_PEERS_MAX; i++)
        has_some |= dispatch->workers[i].is_unfit;
    return has_some;
}

/* Why the core chose a generation worker alone: there is no pair, or those that there are have been tried. */
static Kvferry__V1__PrefillPlace why_local(const struct dispatch *dispatch,
                                           const struct choice *choice, uint64_t attempt)
{
    if (choice->context_worker[0])
        return KVFERRY__V1__PREFILL_PLACE__PREFILL_PLACE_UNSPECIFIED;
    if (choice->is_beside)
        return KVFERRY__V1__PREFILL_PLACE__PREFILL_PLACE_PREFIX_CACHED;
    if (router_core_contexts_are_full(dispatch->core, attempt))
        return KVFERRY__V1__PREFILL_PLACE__PREFILL_PLACE_CONTEXT_WORKERS_FULL;
    if (!has_unpaired_context(dispatch))
        return KVFERRY__V1__PREFILL_PLACE__PREFILL_PLACE_NO_CONTEXT_WORKER;
    return choice->was_handed_over ? KVFERRY__V1__PREFILL_PLACE__PREFILL_PLACE_HAND_OVER_FAILED
                                   : KVFERRY__V1__PREFILL_PLACE__PREFILL_PLACE_PAIR_UNFIT;
}

static bool is_watched(const struct dispatch *dispatch)
{
    return dispatch->watch && watch_is_read(dispatch->watch);
}

/* The replies of a beam search come in one message. */
static uint32_t answer_elements_max(const struct sampling_params *params)
{
    if (!beam_params_search(&params->beams))
        return ANSWER_ELEMENTS_MAX;
    const uint64_t n = ANSWER_ELEMENTS_MAX +
                       (uint64_t)params->beams.n_best * ((uint64_t)params->max_tokens + 1);
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

static enum status call_worker(struct dispatch *dispatch, const struct choice *choice,
                               struct attempt *attempt)
{
    const struct generation *generation = choice->generation;
    char request_id[REQUEST_ID_MAX + 1];
    struct sampling_message sampling;
    Kvferry__Internal__V1__Standing standing;
    Kvferry__Internal__V1__DecodeRequest message = KVFERRY__INTERNAL__V1__DECODE_REQUEST__INIT;
    choice_attempt_id(choice, &dispatch->id_key, attempt->id, request_id);
    struct sampling_params params = generation->sampling.params;
    params.seed += choice->index;
    params.scores_prompt = choice_asks_for_scores(choice) && choice_lacks_scores(choice);
    sampling_message_make(&params, &sampling);
    attempt->rule = sampling_first_rule(&params);
    attempt->is_search = generation_is_search(generation);
    struct adapter_message adapter;
    if (!adapter_id_is_none(&generation->adapter)) {
        sampling_message_adapt(&sampling);
        adapter_encode(&generation->adapter, &adapter);
        message.adapter = &adapter.message;
        attempt->rule = "model, an adapter,";
    }
    message.request_id = request_id;
    message.n_token_ids = generation->n_tokens;
    message.token_ids = generation->token_ids;
    message.sampling = sampling.sampling;
    message.ruled_sampling = sampling.ruled_sampling;
    standing_encode(&generation->standing, &standing);
    message.standing = &standing;
    message.cache_salt = borrow(generation->cache_salt);
    message.context_worker = borrow(choice->context_worker);
    message.why_local = why_local(dispatch, choice, attempt->id);
    message.return_progress = (generation->return_progress || is_watched(dispatch)) &&
                              choice->index == 0;
    message.ends_when_context_full = true;
    struct rpc_request request = {
        .path = "/kvferry.internal.v1.GenerationWorkerService/Decode",
        .message = &message.base,
        .response = &kvferry__internal__v1__decode_response__descriptor,
        .is_stream = true,
        .elements_max = answer_elements_max(&params),
        .deadline_ns = generation->deadline_ns,
        .on_message = on_message,
        .on_end = on_end,
        .arg = attempt,
    };
    struct rpc_origin_text origin_text;
    rpc_request_set_origin(&request, &attempt->origin, &origin_text);
    return rpc_channel_start(find_channel(dispatch, choice->generation_worker), &request,
                             &attempt->call);
}

enum status attempt_start(struct dispatch *dispatch, const struct choice *choice, uint64_t id)
{
    const struct generation *generation = choice->generation;
    struct attempt *attempt = calloc(1, sizeof *attempt);
    if (!attempt)
        return STATUS_NO_MEMORY;
    attempt->dispatch = dispatch;
    attempt->id = id;
    memcpy(attempt->origin.request_id, generation->request_id, sizeof generation->request_id);
    attempt->origin.trace = generation->place.context;
    enum status status = call_worker(dispatch, choice, attempt);
    assert((status != STATUS_OK || attempt->call) && "on_end gives it back");
    if (status == STATUS_OK)
        attempt_add(&dispatch->attempts, attempt);
    else
        free(attempt);
    return status;
}

void attempt_cancel(void *arg, uint64_t id)
{
    struct dispatch *dispatch = arg;
    for (struct attempt *at = dispatch->attempts; at; at = at->next)
        if (at->id == id)
            rpc_client_call_cancel(at->call);
}
