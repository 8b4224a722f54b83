/* worker_judge - evaluates the answers of the workers, logs changes and reports to the core: see
 * worker_client.h. */
#include "base/clock.h"
#include "base/log/log.h"
#include "router/workers/worker_client_parts.h"
#include "router/workers/worker_fit.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define OLDER_STREAMS 256u /* of a worker that does not report it */
#define QUESTIONS_MAX 8u

uint64_t *worker_judge_misfit_word(struct worker_client *generation,
                                   const struct worker_client *context)
{
    assert(generation->clients == context->clients && "a bit is a slot of one table");
    return &generation->misfits[(context - context->clients->workers) / 64];
}

uint64_t worker_judge_misfit_bit(const struct worker_client *context)
{
    return 1ull << ((context - context->clients->workers) % 64);
}

static bool is_any_ready(struct worker_clients *clients, enum worker_role role)
{
    struct worker_client *worker;
    for (worker = worker_clients_first(clients); worker;
         worker = worker_clients_next(clients, worker))
        if (worker->role == role && worker->peer.is_ready)
            return true;
    return false;
}

/* The served model is that of the first compatible generation worker, until none is left. */
void worker_judge_alone(struct worker_client *worker)
{
    struct worker_clients *clients = worker->clients;
    bool chooses = worker->role == WORKER_GENERATION && !is_any_ready(clients, WORKER_GENERATION);
    struct worker_wanted wanted = {
        .role = worker->peer.role,
        .tokenizer_digest = clients->options.tokenizer_digest,
        .model_digest = clients->has_card && !chooses ? clients->card.geometry.model_digest : NULL,
    };
    if (worker_fits(&wanted, &worker->state, worker->reason) && chooses) {
        clients->card = worker->state.model;
        clients->has_card = true;
    }
}

/* The process answers at another address already. */
static const struct worker_client *find_twin(const struct worker_client *worker)
{
    struct worker_client *other;
    for (other = worker_clients_first(worker->clients); other;
         other = worker_clients_next(worker->clients, other))
        if (other != worker && other->role == worker->role && other->is_heard && !other->is_twin &&
            other->state.incarnation == worker->state.incarnation)
            return other;
    return NULL;
}

void worker_judge_twin(struct worker_client *worker)
{
    const struct worker_client *twin = worker->is_heard && worker->state.incarnation != 0
                                           ? find_twin(worker)
                                           : NULL;
    worker->is_twin = twin != NULL;
    if (twin)
        snprintf(worker->reason, sizeof worker->reason, "is %s too", twin->peer.address);
}

/* Both have reported enough, and the generation worker's own answer does not exclude it. */
static bool can_judge(const struct worker_client *generation, const struct worker_client *context)
{
    return generation->state.model.has_geometry && context->state.model.has_geometry &&
           !(generation->is_heard && generation->reason[0]);
}

/* The result for a pair stays until it can be checked again. */
static void judge_pair(struct worker_client *generation, const struct worker_client *context)
{
    char reason[PEER_REASON_MAX];
    uint64_t *word = worker_judge_misfit_word(generation, context);
    uint64_t bit = worker_judge_misfit_bit(context);
    if (!can_judge(generation, context))
        return;
    assert(generation->role == WORKER_GENERATION && context->role == WORKER_CONTEXT);
    bool fits = worker_pair_fits(&generation->state, &context->state, context->peer.address,
                                 reason);
    if (fits == !(*word & bit))
        return;
    *word ^= bit;
    log_write(fits ? LOG_INFO : LOG_WARN, NULL, "ctx-worker %s %s gen-worker %s%s%s",
              context->peer.address, fits ? "fits" : "does not fit", generation->peer.address,
              fits ? "" : ": ", reason);
    dispatch_set_fit(context->clients->options.dispatch, generation->id, context->id, fits);
}

static void judge_pairs(struct worker_client *worker)
{
    struct worker_client *other;
    for (other = worker_clients_first(worker->clients); other;
         other = worker_clients_next(worker->clients, other)) {
        if (other->role == worker->role)
            continue;
        if (worker->role == WORKER_GENERATION)
            judge_pair(worker, other);
        else
            judge_pair(other, worker);
    }
}

/* Why some generation worker does not fit that context worker, or "". False: and none other does. */
static bool fits_any(const struct worker_client *context, char reason_out[PEER_REASON_MAX])
{
    struct worker_client *other;
    char reason[PEER_REASON_MAX];
    assert(context->role == WORKER_CONTEXT);
    uint32_t n_judged = 0;
    uint32_t n_misfits = 0;
    reason_out[0] = '\0';
    for (other = worker_clients_first(context->clients); other;
         other = worker_clients_next(context->clients, other)) {
        if (other->role != WORKER_GENERATION || !can_judge(other, context))
            continue;
        n_judged++;
        if (worker_pair_fits(&other->state, &context->state, context->peer.address, reason))
            continue;
        if (n_misfits++ == 0)
            snprintf(reason_out, PEER_REASON_MAX, "gen-worker %.64s: %.110s", other->peer.address,
                     reason);
    }
    return n_judged == 0 || n_misfits < n_judged;
}

static void tell(struct worker_client *worker, bool is_ready, const char *reason)
{
    /* It is up, but cannot be used here: logged once. */
    bool is_misfit = !is_ready && worker->would_serve;
    bool is_news = is_ready != worker->peer.is_ready ||
                   (is_misfit && strcmp(reason, worker->peer.reason) != 0);
    bool is_due = reminder_is_due(&worker->reminder, !is_ready && !is_misfit && !worker->is_twin,
                                  clock_now_ns());
    if (is_news || is_due)
        log_write(is_misfit || (is_due && !worker->is_heard) ? LOG_WARN : LOG_INFO, NULL,
                  "%s %s %s%s%s", role_name(worker->peer.role), worker->peer.address,
                  is_ready ? "ready" : "not ready", reason[0] ? ": " : "", reason);
    worker->peer.is_ready = is_ready;
    worker->was_ready |= is_ready;
    snprintf(worker->peer.reason, sizeof worker->peer.reason, "%s", reason);
}

/* Over its channel, which is one connection: a call more than that waits where nobody sees it. Some are left for questions. */
static uint32_t n_calls_at_one_time(const struct process_state *state)
{
    uint32_t n = state->streams_per_connection ? state->streams_per_connection : OLDER_STREAMS;
    uint32_t n_kept = n / 2 < QUESTIONS_MAX ? n / 2 : QUESTIONS_MAX;
    return n - n_kept;
}

/* All that is known of the worker is put together, told and reported. is_answer: it has just answered, or not in time. */
static void settle(struct worker_client *worker, bool is_answer)
{
    const struct process_state *state = &worker->state;
    char reason[PEER_REASON_MAX];
    snprintf(reason, sizeof reason, "%s", worker->reason);
    bool is_ready = !reason[0];
    assert(worker->is_known && worker->was_asked);
    if (is_ready && worker->role == WORKER_CONTEXT)
        is_ready = fits_any(worker, reason);
    assert((!is_ready || worker->would_serve) && "what is placed on it, it would take");
    tell(worker, is_ready, reason);
    struct worker_report report = {
        .is_ready = is_ready,
        .is_repeated = !is_answer,
        .tells_room = state->tells_room,
        .room = state->requests_room,
        /* Context workers are called by generation workers. */
        .calls_max = worker->role == WORKER_GENERATION ? n_calls_at_one_time(state) : 0,
        .running = state->requests_running,
        .waiting = state->requests_waiting,
        .n_blocks = state->blocks.all,
        .blocks_usable = state->blocks.free + state->blocks.cached,
    };
    for (uint32_t i = 0; i < state->model.n_adapters; i++)
        report.adapters[report.n_adapters++] = adapter_id_key(&state->model.adapters[i]);
    dispatch_report(worker->clients->options.dispatch, worker->id, &report);
    if (worker->role == WORKER_CONTEXT)
        dispatch_set_unfit(worker->clients->options.dispatch, worker->id,
                           !is_ready && worker->would_serve);
}

void worker_judge_settle_contexts(struct worker_clients *clients)
{
    struct worker_client *worker;
    for (worker = worker_clients_first(clients); worker;
         worker = worker_clients_next(clients, worker))
        if (worker->role == WORKER_CONTEXT && worker->was_asked)
            settle(worker, false);
}

/* Its pairs first: what waits is placed when it is reported ready. */
void worker_judge_settle(struct worker_client *worker)
{
    judge_pairs(worker);
    if (worker->role == WORKER_GENERATION)
        worker_judge_settle_contexts(worker->clients);
    settle(worker, true);
}

void worker_judge_count(struct worker_clients *clients)
{
    uint32_t ready[2] = {0};
    uint32_t down[2] = {0};
    struct worker_client *worker;
    for (worker = worker_clients_first(clients); worker;
         worker = worker_clients_next(clients, worker))
        if (!worker->is_twin)
            (worker->peer.is_ready ? ready : down)[worker->role]++;
    const struct router_series *series = clients->options.series;
    gauge_set(series->contexts_ready, ready[WORKER_CONTEXT]);
    gauge_set(series->contexts_down, down[WORKER_CONTEXT]);
    gauge_set(series->generations_ready, ready[WORKER_GENERATION]);
    gauge_set(series->generations_down, down[WORKER_GENERATION]);
}
