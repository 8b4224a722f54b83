#include "router/dispatch.h"

#include "base/clock.h"
#include "base/log/log.h"
#include "base/random.h"
#include "process/process_state.h"
#include "router/generation_reply.h"
#include "sampling_params/sampling_codec.h"
#include "sampling_params/standing_codec.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One Decode call, from start_decode to its end. */
struct attempt {
    struct attempt *next, *previous;
    struct dispatch *dispatch;
    struct rpc_client_call *call;
    uint64_t id;
    struct request_origin origin;
    struct decode_end end;
};

/* By its number in the core. */
struct dispatch_worker {
    char address[ADDRESS_TEXT_MAX];
    struct rpc_channel *channel; /* NULL: it has left, or is not a generation worker */
    bool is_unfit;
};

struct dispatch {
    pthread_mutex_t mutex;
    struct router_core *core;
    struct router_metrics *metrics;
    struct reply_scratch *scratch;
    struct hash_key id_key;
    struct dispatch_worker workers[PROCESS_PEERS_MAX];
    struct generation *generations;
    uint32_t n_generations;
    struct attempt *attempts;
    struct generation *failed;   /* generations whose call could not be started */
    struct generation *stopping; /* generations whose call must be cancelled */
};

static void lock(struct dispatch *dispatch)
{
    pthread_mutex_lock(&dispatch->mutex);
    assert(!dispatch->failed && !dispatch->stopping && "each unlock settles what the ops left");
}

/* ---- lists ---- */

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

static void generation_add(struct dispatch *dispatch, struct generation *generation)
{
    generation->next = dispatch->generations;
    generation->previous = NULL;
    if (generation->next)
        generation->next->previous = generation;
    dispatch->generations = generation;
    dispatch->n_generations++;
}

static void generation_remove(struct dispatch *dispatch, struct generation *generation)
{
    assert(generation->previous || dispatch->generations == generation);
    assert(dispatch->n_generations > 0);
    if (generation->next)
        generation->next->previous = generation->previous;
    if (generation->previous)
        generation->previous->next = generation->next;
    else
        dispatch->generations = generation->next;
    dispatch->n_generations--;
}

/* Ids of other tenants do not conflict, and are not revealed. */
static bool is_live(const struct dispatch *dispatch, const struct generation *generation)
{
    for (const struct generation *at = dispatch->generations; at; at = at->next)
        if (!at->is_finished && strcmp(at->request_id, generation->request_id) == 0 &&
            strcmp(generation_tenant(at), generation_tenant(generation)) == 0)
            return true;
    return false;
}

static void generation_release(struct generation *generation)
{
    assert(generation->holders > 0);
    if (--generation->holders == 0)
        generation_destroy(generation);
}

/* ---- work that the ops have queued ---- */

/* Failed calls first: the core may place such a request again, and that may fail, too. */
static void settle(struct dispatch *dispatch)
{
    while (dispatch->failed || dispatch->stopping) {
        struct generation *generation = dispatch->failed;
        if (generation) {
            assert(!generation->is_finished && generation->failed_status != STATUS_OK);
            dispatch->failed = generation->next_failed;
            router_core_ended(dispatch->core, generation->failed_attempt, generation->failed_status,
                              "", NULL);
            continue;
        }
        generation = dispatch->stopping;
        assert(generation->is_stopping && generation->holders > 0);
        dispatch->stopping = generation->next_stopping;
        if (!generation->is_finished)
            (void)router_core_cancel(dispatch->core, generation);
        generation_release(generation);
    }
}

static void unlock(struct dispatch *dispatch)
{
    settle(dispatch);
    pthread_mutex_unlock(&dispatch->mutex);
}

/* ---- Decode ---- */

static void on_message(void *arg, const ProtobufCMessage *message)
{
    struct attempt *attempt = arg;
    const Kvferry__Internal__V1__DecodeResponse
        *response = (const Kvferry__Internal__V1__DecodeResponse *)message;
    struct dispatch *dispatch = attempt->dispatch;
    lock(dispatch);
    if (response->finish_reason != KVFERRY__V1__FINISH_REASON__FINISH_REASON_UNSPECIFIED)
        decode_end_take(response, &attempt->end);
    if (response->n_token_ids > 0 || response->prompt_progress)
        router_core_tokens(dispatch->core, attempt->id, (uint32_t)response->n_token_ids, response);
    unlock(dispatch);
}

/* Whether the sentence of a worker or of gRPC is about the client's request. Other sentences may have addresses
 * and paths: they go to the log, and the client gets the status's text. */
static bool is_for_clients(enum status status)
{
    return status == STATUS_INVALID_ARGUMENT || status == STATUS_PROMPT_TOO_LONG ||
           status == STATUS_NO_BLOCKS || status == STATUS_LOGITS_NOT_FINITE;
}

static void log_failed(const struct attempt *attempt, const struct rpc_error *error)
{
    const struct log_about about = log_about_origin(&attempt->origin);
    log_event(LOG_INFO, &about, "attempt failed", LOG_TEXT("status", status_name(error->status)),
              LOG_TEXT("why", error->message));
}

static void on_end(void *arg, const struct rpc_error *error)
{
    struct attempt *attempt = arg;
    struct dispatch *dispatch = attempt->dispatch;
    enum status status = error->status;
    const char *sentence = is_for_clients(status) ? error->message : "";
    if (status != STATUS_OK && status != STATUS_CANCELLED)
        log_failed(attempt, error);
    if (status == STATUS_OK && !attempt->end.is_there) {
        status = STATUS_BUG;
        sentence = "the generation worker's stream ended without a last message";
    }
    lock(dispatch);
    attempt_remove(&dispatch->attempts, attempt);
    router_core_ended(dispatch->core, attempt->id, status, sentence, &attempt->end);
    rpc_client_call_release(attempt->call);
    free(attempt);
    unlock(dispatch);
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

/* Why the core chose a generation worker without a context worker: there is no pair, or all pairs were tried. */
static Kvferry__V1__PrefillPlace why_local(const struct dispatch *dispatch,
                                           const struct generation *generation, uint64_t attempt)
{
    if (generation->context_worker[0])
        return KVFERRY__V1__PREFILL_PLACE__PREFILL_PLACE_UNSPECIFIED;
    if (router_core_contexts_are_full(dispatch->core, attempt))
        return KVFERRY__V1__PREFILL_PLACE__PREFILL_PLACE_CONTEXT_WORKERS_FULL;
    if (!has_unpaired_context(dispatch))
        return KVFERRY__V1__PREFILL_PLACE__PREFILL_PLACE_NO_CONTEXT_WORKER;
    return generation->was_handed_over ? KVFERRY__V1__PREFILL_PLACE__PREFILL_PLACE_HAND_OVER_FAILED
                                       : KVFERRY__V1__PREFILL_PLACE__PREFILL_PLACE_PAIR_UNFIT;
}

static enum status call_worker(struct dispatch *dispatch, struct generation *generation,
                               struct attempt *attempt)
{
    char request_id[REQUEST_ID_MAX + 1];
    Kvferry__V1__SamplingParams sampling;
    Kvferry__Internal__V1__Standing standing;
    Kvferry__Internal__V1__DecodeRequest message = KVFERRY__INTERNAL__V1__DECODE_REQUEST__INIT;
    generation_attempt_id(generation, &dispatch->id_key, attempt->id, request_id);
    sampling_encode(&generation->sampling.params, &sampling);
    message.request_id = request_id;
    message.n_token_ids = generation->n_tokens;
    message.token_ids = generation->token_ids;
    message.sampling = &sampling;
    standing_encode(&generation->standing, &standing);
    message.standing = &standing;
    message.cache_salt = generation->cache_salt;
    message.context_worker = generation->context_worker;
    message.why_local = why_local(dispatch, generation, attempt->id);
    message.return_progress = generation->return_progress;
    message.ends_when_context_full = true;
    struct rpc_request request = {
        .path = "/kvferry.internal.v1.GenerationWorkerService/Decode",
        .message = &message.base,
        .response = &kvferry__internal__v1__decode_response__descriptor,
        .is_stream = true,
        .deadline_ns = generation->deadline_ns,
        .on_message = on_message,
        .on_end = on_end,
        .arg = attempt,
    };
    struct rpc_origin_text origin_text;
    rpc_request_set_origin(&request, &attempt->origin, &origin_text);
    return rpc_channel_start(find_channel(dispatch, generation->generation_worker), &request,
                             &attempt->call);
}

static enum status start_attempt(struct dispatch *dispatch, struct generation *generation,
                                 uint64_t id)
{
    struct attempt *attempt = calloc(1, sizeof *attempt);
    if (!attempt)
        return STATUS_NO_MEMORY;
    attempt->dispatch = dispatch;
    attempt->id = id;
    memcpy(attempt->origin.request_id, generation->request_id, sizeof generation->request_id);
    attempt->origin.trace = generation->place.context;
    enum status status = call_worker(dispatch, generation, attempt);
    assert((status != STATUS_OK || attempt->call) && "on_end gives it back");
    if (status == STATUS_OK)
        attempt_add(&dispatch->attempts, attempt);
    else
        free(attempt);
    return status;
}

static void start_decode(void *arg, void *stream, uint64_t id, const char *generation_worker,
                         const char *context_worker)
{
    struct dispatch *dispatch = arg;
    struct generation *generation = stream;
    assert(!generation->is_finished && generation_worker[0]);
    if (generation->n_attempts++ == 0)
        generation->placed_ns = clock_now_ns();
    generation->was_handed_over |= generation->context_worker[0] != '\0';
    snprintf(generation->generation_worker, sizeof generation->generation_worker, "%s",
             generation_worker);
    snprintf(generation->context_worker, sizeof generation->context_worker, "%s", context_worker);
    const struct log_about about = {.request_id = generation->request_id,
                                    .trace = &generation->place.context};
    log_event(LOG_DEBUG, &about, "placed", LOG_U64("attempt", generation->n_attempts),
              LOG_TEXT("generation_worker", generation_worker),
              LOG_TEXT("context_worker", context_worker));
    enum status status = start_attempt(dispatch, generation, id);
    if (status == STATUS_OK)
        return;
    generation->failed_attempt = id;
    generation->failed_status = status;
    generation->next_failed = dispatch->failed;
    dispatch->failed = generation;
}

static void cancel_decode(void *arg, uint64_t id)
{
    struct dispatch *dispatch = arg;
    for (struct attempt *at = dispatch->attempts; at; at = at->next)
        if (at->id == id)
            rpc_client_call_cancel(at->call);
}

/* It waits again, as if it had not been placed. */
static void refused(void *arg, void *stream)
{
    struct generation *generation = stream;
    (void)arg;
    assert(generation->n_attempts > 0 && !generation->first_token_ns);
    if (--generation->n_attempts == 0)
        generation->placed_ns = 0;
    generation->context_worker[0] = '\0'; /* there was no KV transfer */
}

static void tokens(void *arg, void *stream, const void *payload)
{
    struct dispatch *dispatch = arg;
    struct generation *generation = stream;
    bool was_stopping = generation->is_stopping;
    assert(!generation->is_finished && generation->n_attempts > 0);
    generation_tokens(generation, payload, dispatch->scratch, dispatch->metrics, clock_now_ns());
    if (was_stopping || !generation->is_stopping)
        return;
    generation->holders++;
    generation->next_stopping = dispatch->stopping;
    dispatch->stopping = generation;
}

static void finish(void *arg, void *stream, enum status status, const char *sentence,
                   const void *payload)
{
    struct dispatch *dispatch = arg;
    struct generation *generation = stream;
    assert(!generation->is_finished && "the core finishes each once");
    generation->is_finished = true;
    generation_finish(generation, status, sentence, payload, dispatch->metrics, clock_now_ns());
    generation_remove(dispatch, generation);
    generation_release(generation);
}

/* ---- the client's side ---- */

/* The dispatch that a call's end belongs to. */
struct call_end {
    struct dispatch *dispatch;
    struct generation *generation;
};

static void on_call_end(void *arg, enum status why)
{
    struct call_end end = *(struct call_end *)arg;
    free(arg);
    lock(end.dispatch);
    if (!end.generation->is_finished) {
        end.generation->left = why != STATUS_OK ? why : STATUS_CANCELLED;
        (void)router_core_cancel(end.dispatch->core, end.generation);
    }
    generation_release(end.generation);
    unlock(end.dispatch);
}

enum status dispatch_start(struct dispatch *dispatch, struct generation *generation)
{
    /* First, so that a lack of memory cannot undo a placement. */
    struct call_end *end = calloc(1, sizeof *end);
    if (!end)
        return STATUS_NO_MEMORY;
    *end = (struct call_end){dispatch, generation};
    struct rpc_call *call = rpc_call_share(generation->call); /* the generation may end in here */
    struct route_request request = {
        .token_ids = generation->token_ids,
        .n_tokens = generation->n_tokens,
        .max_tokens = generation->sampling.params.max_tokens,
        .salt = generation->cache_salt,
        .salt_bytes = strlen(generation->cache_salt),
        .deadline_ns = generation->deadline_ns,
        .standing = generation->standing,
    };

    assert(!generation->is_finished && generation->n_attempts == 0 && generation->holders == 0);
    generation->dispatched_ns = clock_now_ns();
    lock(dispatch);
    enum status status = STATUS_DUPLICATE_REQUEST;
    if (!is_live(dispatch, generation)) {
        generation->holders = 2;
        generation_add(dispatch, generation);
        status = router_core_generate(dispatch->core, generation, &request);
        assert(status == STATUS_OK || (!generation->is_finished && generation->holders == 2));
        if (status != STATUS_OK) {
            generation_remove(dispatch, generation);
            generation->holders = 0; /* only the caller holds it again */
        } else {
            histogram_observe(dispatch->metrics->series.prompt_length, generation->n_tokens);
        }
    }
    unlock(dispatch);

    if (status == STATUS_OK) /* unlocked: an end that has come already is told from within */
        rpc_call_on_end(call, on_call_end, end);
    else
        free(end);
    rpc_call_release(call);
    return status;
}

/* ---- workers ---- */

enum status dispatch_create(const struct dispatch_options *options, struct error *error,
                            struct dispatch **dispatch_out)
{
    assert(options->core.workers_max <= PROCESS_PEERS_MAX);
    struct dispatch *dispatch = calloc(1, sizeof *dispatch);
    if (!dispatch)
        return STATUS_NO_MEMORY;
    pthread_mutex_init(&dispatch->mutex, NULL);
    dispatch->metrics = options->metrics;
    struct router_core_ops ops = {
        .arg = dispatch,
        .start_decode = start_decode,
        .cancel_decode = cancel_decode,
        .refused = refused,
        .tokens = tokens,
        .finish = finish,
    };
    enum status status = random_secret(&dispatch->id_key, sizeof dispatch->id_key, error);
    if (status == STATUS_OK)
        status = reply_scratch_create(&dispatch->scratch);
    if (status == STATUS_OK)
        status = router_core_create(&options->core, &ops, &dispatch->core);
    if (status != STATUS_OK) {
        dispatch_destroy(dispatch);
        return status;
    }
    *dispatch_out = dispatch;
    return STATUS_OK;
}

void dispatch_destroy(struct dispatch *dispatch)
{
    if (!dispatch)
        return;
    assert(!dispatch->attempts && !dispatch->generations && dispatch->n_generations == 0);
    router_core_destroy(dispatch->core);
    reply_scratch_destroy(dispatch->scratch);
    pthread_mutex_destroy(&dispatch->mutex);
    free(dispatch);
}

enum status dispatch_add_worker(struct dispatch *dispatch, enum worker_role role,
                                const char *address, struct rpc_channel *channel,
                                uint32_t *worker_out)
{
    lock(dispatch);
    enum status status = router_core_add_worker(dispatch->core, role, address, worker_out);
    if (status == STATUS_OK) {
        struct dispatch_worker *worker = &dispatch->workers[*worker_out];
        assert(!worker->address[0] && "who had this number has left");
        *worker = (struct dispatch_worker){.channel = role == WORKER_GENERATION ? channel : NULL};
        snprintf(worker->address, sizeof worker->address, "%s", address);
    }
    unlock(dispatch);
    return status;
}

void dispatch_remove_worker(struct dispatch *dispatch, uint32_t worker)
{
    lock(dispatch);
    router_core_remove_worker(dispatch->core, worker);
    assert(dispatch->workers[worker].address[0]);
    dispatch->workers[worker] = (struct dispatch_worker){0};
    unlock(dispatch);
}

void dispatch_ask(struct dispatch *dispatch, uint32_t worker)
{
    lock(dispatch);
    router_core_ask(dispatch->core, worker);
    unlock(dispatch);
}

void dispatch_report(struct dispatch *dispatch, uint32_t worker, const struct worker_report *report)
{
    lock(dispatch);
    router_core_report(dispatch->core, worker, report);
    unlock(dispatch);
}

void dispatch_set_unfit(struct dispatch *dispatch, uint32_t context_worker, bool is_unfit)
{
    lock(dispatch);
    assert(dispatch->workers[context_worker].address[0]);
    assert(!dispatch->workers[context_worker].channel && "only generation workers are called");
    dispatch->workers[context_worker].is_unfit = is_unfit;
    unlock(dispatch);
}

void dispatch_set_fit(struct dispatch *dispatch, uint32_t generation_worker,
                      uint32_t context_worker, bool fits)
{
    lock(dispatch);
    router_core_set_fit(dispatch->core, generation_worker, context_worker, fits);
    unlock(dispatch);
}

void dispatch_step(struct dispatch *dispatch, uint64_t now_ns)
{
    lock(dispatch);
    router_core_step(dispatch->core, now_ns);
    unlock(dispatch);
}

void dispatch_drain(struct dispatch *dispatch)
{
    lock(dispatch);
    router_core_drain(dispatch->core);
    unlock(dispatch);
}

void dispatch_look(struct dispatch *dispatch, struct dispatch_view *view_out)
{
    struct router_core_stats stats;
    lock(dispatch);
    router_core_read_stats(dispatch->core, &stats);
    *view_out = (struct dispatch_view){
        .lacks = router_core_lacks(dispatch->core),
        .pairs = router_core_n_pairs(dispatch->core),
        .live = dispatch->n_generations,
        .waiting = stats.waiting,
    };
    assert(view_out->waiting <= view_out->live);
    unlock(dispatch);
}

void dispatch_count(struct dispatch *dispatch, uint32_t early)
{
    struct router_core_stats stats;
    lock(dispatch);
    router_core_read_stats(dispatch->core, &stats);
    router_metrics_follow(dispatch->metrics, &stats, early);
    unlock(dispatch);
}
