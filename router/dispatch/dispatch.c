#include "router/dispatch/dispatch.h"

#include "base/clock.h"
#include "base/log/log.h"
#include "base/random.h"
#include "router/dispatch/dispatch_parts.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void dispatch_lock(struct dispatch *dispatch)
{
    pthread_mutex_lock(&dispatch->mutex);
    assert(!dispatch->failed && !dispatch->swept && "each unlock settles what the ops left");
}

/* ---- lists ---- */

static void generation_add(struct dispatch *dispatch, struct generation *generation)
{
    generation->next = dispatch->generations;
    generation->previous = NULL;
    if (generation->next)
        generation->next->previous = generation;
    dispatch->generations = generation;
    generation->number = ++dispatch->n_requests;
}

static void generation_remove(struct dispatch *dispatch, struct generation *generation)
{
    assert(generation->previous || dispatch->generations == generation);
    if (generation->next)
        generation->next->previous = generation->previous;
    if (generation->previous)
        generation->previous->next = generation->next;
    else
        dispatch->generations = generation->next;
}

/* Ids of other tenants do not conflict, and are not revealed. */
static bool is_live(const struct dispatch *dispatch, const struct generation *generation)
{
    for (const struct generation *at = dispatch->generations; at; at = at->next)
        if (at->n_live > 0 && strcmp(at->request_id, generation->request_id) == 0 &&
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

/* Something is to be done for its choices that the core must be asked for. */
static void sweep_later(struct dispatch *dispatch, struct generation *generation)
{
    if (generation->is_swept)
        return;
    generation->is_swept = true;
    generation->holders++;
    generation->next_swept = dispatch->swept;
    dispatch->swept = generation;
}

static void close_generation(struct dispatch *dispatch, struct generation *generation)
{
    uint64_t now_ns = clock_now_ns();
    generation_close(generation, dispatch->metrics, now_ns);
    dispatch_watch_end(dispatch, generation, now_ns);
    generation_remove(dispatch, generation);
    generation_release(generation);
}

/* Of one call: each beam has blocks of its own. */
static uint32_t reply_tokens(const struct generation *generation)
{
    const struct sampling_params *params = &generation->sampling.params;
    const uint64_t n = (uint64_t)params->max_tokens * beam_params_n_rows(&params->beams);
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

static struct route_request route_request_of(const struct generation *generation)
{
    return (struct route_request){
        .token_ids = generation->token_ids,
        .n_tokens = generation->n_tokens,
        .max_tokens = reply_tokens(generation),
        .salt = generation->route_salt,
        .salt_bytes = strlen(generation->route_salt),
        .adapter = adapter_id_key(&generation->adapter),
        .deadline_ns = generation->deadline_ns,
        .standing = generation->standing,
        .beside = NOBODY,
    };
}

/* The first choice has its first token: the prompt's KV is on its worker. */
static void start_beside(struct dispatch *dispatch, struct choice *choice)
{
    struct generation *generation = choice->generation;
    struct route_request request = route_request_of(generation);
    request.is_reserved = true;
    request.beside = router_core_place(dispatch->core, &generation->choices[0]);
    choice->is_started = true;
    enum status status = router_core_generate(dispatch->core, choice, &request);
    if (status != STATUS_OK)
        choice_finish(choice, status, "", NULL);
}

/* Starts what can be started, and ends what nobody wants any more. */
static void sweep(struct dispatch *dispatch, struct generation *generation)
{
    bool was_live = generation->n_live > 0;
    for (uint32_t i = 0; i < generation_n_calls(generation); i++) {
        struct choice *choice = &generation->choices[i];
        bool is_over = generation_is_over(generation);
        if (!choice->is_started && is_over) {
            router_core_unreserve(dispatch->core, 1);
            choice_abandon(choice);
        } else if (!choice->is_started && generation->choices[0].first_token_ns) {
            start_beside(dispatch, choice);
            if (generation_is_over(generation))
                sweep_later(dispatch, generation); /* those before it */
        } else if (choice->is_started && !choice->is_finished && (is_over || choice->is_stopping)) {
            (void)router_core_cancel(dispatch->core, choice);
        }
    }
    if (was_live && generation->n_live == 0 && !generation->is_closed)
        close_generation(dispatch, generation);
}

/* Failed calls first: the core may place such a request again, and that may fail, too. */
static void settle(struct dispatch *dispatch)
{
    while (dispatch->failed || dispatch->swept) {
        struct choice *choice = dispatch->failed;
        if (choice) {
            assert(!choice->is_finished && choice->failed_status != STATUS_OK);
            dispatch->failed = choice->next_failed;
            router_core_ended(dispatch->core, choice->failed_attempt, choice->failed_status, "",
                              NULL);
            continue;
        }
        struct generation *generation = dispatch->swept;
        assert(generation->is_swept && generation->holders > 0);
        dispatch->swept = generation->next_swept;
        generation->is_swept = false;
        sweep(dispatch, generation);
        generation_release(generation);
    }
}

void dispatch_unlock(struct dispatch *dispatch)
{
    settle(dispatch);
    pthread_mutex_unlock(&dispatch->mutex);
}

static void start_decode(void *arg, void *stream, uint64_t id, const char *generation_worker,
                         const char *context_worker)
{
    struct dispatch *dispatch = arg;
    struct choice *choice = stream;
    const struct generation *generation = choice->generation;
    assert(!choice->is_finished && generation_worker[0]);
    if (choice->n_attempts++ == 0)
        choice->placed_ns = clock_now_ns();
    choice->was_handed_over |= choice->context_worker[0] != '\0';
    snprintf(choice->generation_worker, sizeof choice->generation_worker, "%s", generation_worker);
    snprintf(choice->context_worker, sizeof choice->context_worker, "%s", context_worker);
    choice->is_beside = choice->index > 0 && strcmp(choice->generation_worker,
                                                    generation->choices[0].generation_worker) == 0;
    const struct log_about about = {.request_id = generation->request_id,
                                    .trace = &generation->place.context};
    log_event(LOG_DEBUG, &about, "placed", LOG_U64("choice", choice->index),
              LOG_U64("attempt", choice->n_attempts),
              LOG_TEXT("generation_worker", generation_worker),
              LOG_TEXT("context_worker", context_worker));
    enum status status = attempt_start(dispatch, choice, id);
    if (status == STATUS_OK)
        return;
    choice->failed_attempt = id;
    choice->failed_status = status;
    choice->next_failed = dispatch->failed;
    dispatch->failed = choice;
}

/* It waits again, as if it had not been placed. */
static void refused(void *arg, void *stream)
{
    struct choice *choice = stream;
    (void)arg;
    assert(choice->n_attempts > 0 && !choice->first_token_ns);
    if (--choice->n_attempts == 0)
        choice->placed_ns = 0;
    choice->context_worker[0] = '\0'; /* nothing was handed over */
}

static void tokens(void *arg, void *stream, const void *payload)
{
    struct dispatch *dispatch = arg;
    struct choice *choice = stream;
    struct generation *generation = choice->generation;
    bool had_tokens = choice->first_token_ns != 0;
    assert(!choice->is_finished && choice->n_attempts > 0);
    choice_tokens(choice, payload, &dispatch->scratch, dispatch->metrics, clock_now_ns());
    dispatch_watch_kv(dispatch, choice);
    bool is_prompt_there = choice->index == 0 && !had_tokens && choice->first_token_ns;
    if (choice->is_stopping || generation_is_over(generation) ||
        (is_prompt_there && generation_n_calls(generation) > 1))
        sweep_later(dispatch, generation);
}

static void finish(void *arg, void *stream, enum status status, const char *sentence,
                   const void *payload)
{
    struct dispatch *dispatch = arg;
    struct choice *choice = stream;
    struct generation *generation = choice->generation;
    choice_finish(choice, status, sentence, payload);
    dispatch_watch_kv(dispatch, choice);
    if (generation->n_live == 0)
        close_generation(dispatch, generation);
    else if (generation_is_over(generation))
        sweep_later(dispatch, generation);
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
    dispatch_lock(end.dispatch);
    if (end.generation->n_live > 0) {
        if (end.generation->left == STATUS_OK)
            end.generation->left = why != STATUS_OK ? why : STATUS_CANCELLED;
        sweep_later(end.dispatch, end.generation);
    }
    generation_release(end.generation);
    dispatch_unlock(end.dispatch);
}

/* The first choice; the others have their places. Not OK: the generation is the caller's alone. */
static enum status start_first(struct dispatch *dispatch, struct generation *generation)
{
    const struct route_request request = route_request_of(generation);
    uint32_t n_others = generation_n_calls(generation) - 1;
    TRY(router_core_reserve(dispatch->core, n_others));
    generation->holders = 2;
    generation_add(dispatch, generation);
    generation->choices[0].is_started = true;
    enum status status = router_core_generate(dispatch->core, &generation->choices[0], &request);
    if (status == STATUS_OK) {
        histogram_observe(dispatch->metrics->series.prompt_length, generation->n_tokens);
        return STATUS_OK;
    }
    assert(generation->n_live == generation->n_choices && generation->holders == 2);
    router_core_unreserve(dispatch->core, n_others);
    generation->choices[0].is_started = false;
    generation_remove(dispatch, generation);
    generation->holders = 0;
    return status;
}

enum status dispatch_start(struct dispatch *dispatch, struct generation *generation)
{
    /* First, so that a lack of memory cannot undo a placement. */
    struct call_end *end = calloc(1, sizeof *end);
    if (!end)
        return STATUS_NO_MEMORY;
    *end = (struct call_end){dispatch, generation};
    struct door_call *call = generation->call;
    call->ops->share(call); /* the generation may end in here */
    assert(generation->n_live == generation->n_choices && generation->holders == 0);
    generation->dispatched_ns = clock_now_ns();
    dispatch_lock(dispatch);
    enum status status = is_live(dispatch, generation) ? STATUS_DUPLICATE_REQUEST
                                                       : start_first(dispatch, generation);
    dispatch_unlock(dispatch);

    if (status == STATUS_OK) /* unlocked: an end that has come already is told from within */
        call->ops->on_end(call, on_call_end, end);
    else
        free(end);
    call->ops->release(call);
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
    dispatch->watch = options->watch;
    struct router_core_ops ops = {
        .arg = dispatch,
        .start_decode = start_decode,
        .cancel_decode = attempt_cancel,
        .refused = refused,
        .tokens = tokens,
        .finish = finish,
    };
    enum status status = random_secret(&dispatch->id_key, sizeof dispatch->id_key, error);
    if (status == STATUS_OK && options->watch)
        status = watch_history_create(options->ended_max, &dispatch->history);
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
    assert(!dispatch->attempts && !dispatch->generations);
    router_core_destroy(dispatch->core);
    watch_history_destroy(dispatch->history);
    pthread_mutex_destroy(&dispatch->mutex);
    free(dispatch);
}

enum status dispatch_add_worker(struct dispatch *dispatch, enum worker_role role,
                                const char *address, struct rpc_channel *channel,
                                uint32_t *worker_out)
{
    dispatch_lock(dispatch);
    enum status status = router_core_add_worker(dispatch->core, role, address, worker_out);
    if (status == STATUS_OK) {
        struct dispatch_worker *worker = &dispatch->workers[*worker_out];
        assert(!worker->address[0] && "who had this number has left");
        *worker = (struct dispatch_worker){.channel = role == WORKER_GENERATION ? channel : NULL};
        snprintf(worker->address, sizeof worker->address, "%s", address);
    }
    dispatch_unlock(dispatch);
    return status;
}

void dispatch_remove_worker(struct dispatch *dispatch, uint32_t worker)
{
    dispatch_lock(dispatch);
    router_core_remove_worker(dispatch->core, worker);
    assert(dispatch->workers[worker].address[0]);
    dispatch->workers[worker] = (struct dispatch_worker){0};
    dispatch_unlock(dispatch);
}

void dispatch_ask(struct dispatch *dispatch, uint32_t worker)
{
    dispatch_lock(dispatch);
    router_core_ask(dispatch->core, worker);
    dispatch_unlock(dispatch);
}

void dispatch_report(struct dispatch *dispatch, uint32_t worker, const struct worker_report *report)
{
    dispatch_lock(dispatch);
    router_core_report(dispatch->core, worker, report);
    dispatch_unlock(dispatch);
}

void dispatch_set_unfit(struct dispatch *dispatch, uint32_t context_worker, bool is_unfit)
{
    dispatch_lock(dispatch);
    assert(dispatch->workers[context_worker].address[0]);
    assert(!dispatch->workers[context_worker].channel && "only generation workers are called");
    dispatch->workers[context_worker].is_unfit = is_unfit;
    dispatch_unlock(dispatch);
}

void dispatch_set_fit(struct dispatch *dispatch, uint32_t generation_worker,
                      uint32_t context_worker, bool fits)
{
    dispatch_lock(dispatch);
    router_core_set_fit(dispatch->core, generation_worker, context_worker, fits);
    dispatch_unlock(dispatch);
}

void dispatch_step(struct dispatch *dispatch, uint64_t now_ns)
{
    dispatch_lock(dispatch);
    router_core_step(dispatch->core, now_ns);
    dispatch_unlock(dispatch);
}

void dispatch_drain(struct dispatch *dispatch)
{
    dispatch_lock(dispatch);
    router_core_drain(dispatch->core);
    dispatch_unlock(dispatch);
}

static uint32_t n_live(const struct dispatch *dispatch)
{
    uint32_t n = 0;
    for (const struct generation *at = dispatch->generations; at; at = at->next)
        n += at->n_live;
    return n;
}

void dispatch_look(struct dispatch *dispatch, struct dispatch_view *view_out)
{
    struct router_core_stats stats;
    dispatch_lock(dispatch);
    router_core_read_stats(dispatch->core, &stats);
    *view_out = (struct dispatch_view){
        .lacks = router_core_lacks(dispatch->core),
        .pairs = router_core_n_pairs(dispatch->core),
        .live = n_live(dispatch),
        .waiting = stats.waiting,
    };
    assert(view_out->waiting <= view_out->live);
    dispatch_unlock(dispatch);
}

void dispatch_count(struct dispatch *dispatch, uint32_t early)
{
    struct router_core_stats stats;
    dispatch_lock(dispatch);
    router_core_read_stats(dispatch->core, &stats);
    router_metrics_follow(dispatch->metrics, &stats, early);
    dispatch_unlock(dispatch);
}
