#include "router/worker_client.h"

#include "base/clock.h"
#include "base/log.h"
#include "router/reminder.h"
#include "router/worker_fit.h"
#include "rpc/tls/tls_identity.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct worker_client {
    struct worker_clients *clients;
    struct process_peer peer;
    enum worker_role role;
    uint32_t id; /* in the core */
    struct rpc_channel *channel;
    bool is_asked;                /* a GetState is under way */
    bool was_asked;               /* one has ended */
    enum status answered;         /* OK: it brought a message that could be read */
    struct error error;           /* of one that could not */
    struct process_state state;   /* of the last answer */
    char reason[PEER_REASON_MAX]; /* of its own why it is not ready, beside those of its pairs */
    bool is_heard;                /* the last question was answered */
    bool would_serve;             /* it says that it is ready */
    bool was_ready;
    struct reminder reminder;
    uint64_t misfits; /* a generation worker's context workers, by index, that do not fit it */
};
_Static_assert(PROCESS_PEERS_MAX <= 64, "a bit each");

struct worker_clients {
    struct worker_clients_options options;
    pthread_mutex_t mutex; /* before dispatch's */
    struct worker_client workers[PROCESS_PEERS_MAX];
    uint32_t n_workers;
    struct model_card card;
    bool has_card;
};

/* How often address is in the list; the bounds of both are address_list_next's. */
static uint32_t count_in_list(const char *list, const char *address)
{
    uint32_t n = 0;
    char other[ADDRESS_TEXT_MAX];
    while (address_list_next(&list, other))
        n += strcmp(other, address) == 0;
    return n;
}

static enum status check_list(const char *row, const char *list, uint32_t *n_inout,
                              struct error *error)
{
    const char *rest = list;
    char text[ADDRESS_TEXT_MAX];
    while (address_list_next(&rest, text)) {
        struct address parsed;
        struct error wrong;
        enum status status = address_parse(text, &parsed, &wrong);
        if (status != STATUS_OK)
            return error_set(error, status, "%s: %s", row, wrong.text);
        if (count_in_list(list, text) > 1)
            return error_set(error, STATUS_INVALID_ARGUMENT, "%s: worker \"%s\" is named twice",
                             row, text);
        if (++*n_inout > PROCESS_PEERS_MAX)
            return error_set(error, STATUS_INVALID_ARGUMENT, "%s: more than %d workers", row,
                             PROCESS_PEERS_MAX);
    }
    return STATUS_OK;
}

enum status worker_lists_check(const char *generation_workers, const char *context_workers,
                               struct error *error)
{
    uint32_t n = 0;
    TRY(check_list("generation_workers", generation_workers, &n, error));
    return check_list("context_workers", context_workers, &n, error);
}

static enum status add_worker(struct worker_clients *clients, enum worker_role role,
                              const char *address)
{
    assert(clients->n_workers < PROCESS_PEERS_MAX);
    struct worker_client *worker = &clients->workers[clients->n_workers];
    worker->clients = clients;
    worker->role = role;
    worker->peer.role = role == WORKER_CONTEXT
                            ? KVFERRY__INTERNAL__V1__ROLE__ROLE_CONTEXT_WORKER
                            : KVFERRY__INTERNAL__V1__ROLE__ROLE_GENERATION_WORKER;
    snprintf(worker->peer.address, sizeof worker->peer.address, "%s", address);
    snprintf(worker->peer.reason, sizeof worker->peer.reason, "not asked yet");
    TRY(rpc_channel_open_role(clients->options.rpc, address,
                              role == WORKER_CONTEXT ? TLS_ROLE_BIT(CONTEXT)
                                                     : TLS_ROLE_BIT(GENERATION),
                              &worker->channel));
    clients->n_workers++;
    return dispatch_add_worker(clients->options.dispatch, role, address, worker->channel,
                               &worker->id);
}

static enum status add_list(struct worker_clients *clients, enum worker_role role, const char *list)
{
    char address[ADDRESS_TEXT_MAX];
    while (address_list_next(&list, address))
        TRY(add_worker(clients, role, address));
    return STATUS_OK;
}

enum status worker_clients_create(const struct worker_clients_options *options, struct error *error,
                                  struct worker_clients **clients_out)
{
    TRY(worker_lists_check(options->generation_workers, options->context_workers, error));
    struct worker_clients *clients = calloc(1, sizeof *clients);
    if (!clients)
        return STATUS_NO_MEMORY;
    clients->options = *options;
    pthread_mutex_init(&clients->mutex, NULL);
    enum status status = add_list(clients, WORKER_GENERATION, options->generation_workers);
    if (status == STATUS_OK)
        status = add_list(clients, WORKER_CONTEXT, options->context_workers);
    if (status != STATUS_OK) {
        worker_clients_destroy(clients);
        return status;
    }
    *clients_out = clients;
    return STATUS_OK;
}

void worker_clients_close(struct worker_clients *clients)
{
    for (uint32_t i = 0; clients && i < clients->n_workers; i++) {
        rpc_channel_close(clients->workers[i].channel);
        clients->workers[i].channel = NULL;
    }
}

void worker_clients_destroy(struct worker_clients *clients)
{
    if (!clients)
        return;
    worker_clients_close(clients);
    pthread_mutex_destroy(&clients->mutex);
    free(clients);
}

/* ---- judging an answer (mutex held) ---- */

static bool is_any_ready(const struct worker_clients *clients, enum worker_role role)
{
    for (uint32_t i = 0; i < clients->n_workers; i++)
        if (clients->workers[i].role == role && clients->workers[i].peer.is_ready)
            return true;
    return false;
}

/* What the first generation worker serves that fits is what is served, until none is left. */
static void judge_alone(struct worker_client *worker)
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

/* Both have told enough, and the generation worker is not out of use by its own answer. */
static bool can_judge(const struct worker_client *generation, const struct worker_client *context)
{
    return generation->state.model.has_geometry && context->state.model.has_geometry &&
           !(generation->is_heard && generation->reason[0]);
}

/* What was said of the pair stays until it can be judged again. */
static void judge_pair(struct worker_client *generation, const struct worker_client *context)
{
    char reason[PEER_REASON_MAX];
    uint64_t bit = 1ull << (context - context->clients->workers);
    if (!can_judge(generation, context))
        return;
    bool fits = worker_pair_fits(&generation->state, &context->state, context->peer.address,
                                 reason);
    if (fits == !(generation->misfits & bit))
        return;
    generation->misfits ^= bit;
    log_write(fits ? LOG_INFO : LOG_WARN, NULL, "ctx-worker %s %s gen-worker %s%s%s",
              context->peer.address, fits ? "fits" : "does not fit", generation->peer.address,
              fits ? "" : ": ", reason);
    dispatch_set_fit(context->clients->options.dispatch, generation->id, context->id, fits);
}

static void judge_pairs(struct worker_client *worker)
{
    struct worker_clients *clients = worker->clients;
    for (uint32_t i = 0; i < clients->n_workers; i++) {
        struct worker_client *other = &clients->workers[i];
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
    const struct worker_clients *clients = context->clients;
    char reason[PEER_REASON_MAX];
    uint32_t n_judged = 0;
    uint32_t n_misfits = 0;
    reason_out[0] = '\0';
    for (uint32_t i = 0; i < clients->n_workers; i++) {
        const struct worker_client *other = &clients->workers[i];
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
    /* It would serve, but not here: somebody has to know, once. */
    bool is_misfit = !is_ready && worker->would_serve;
    bool is_news = is_ready != worker->peer.is_ready ||
                   (is_misfit && strcmp(reason, worker->peer.reason) != 0);
    bool is_due = reminder_is_due(&worker->reminder, !is_ready && !is_misfit, clock_now_ns());
    if (is_news || is_due)
        log_write(is_misfit || (is_due && !worker->is_heard) ? LOG_WARN : LOG_INFO, NULL,
                  "%s %s %s%s%s", role_name(worker->peer.role), worker->peer.address,
                  is_ready ? "ready" : "not ready", reason[0] ? ": " : "", reason);
    worker->peer.is_ready = is_ready;
    worker->was_ready |= is_ready;
    snprintf(worker->peer.reason, sizeof worker->peer.reason, "%s", reason);
}

/* All that is known of the worker is put together, told and reported. */
static void settle(struct worker_client *worker)
{
    const struct process_state *state = &worker->state;
    char reason[PEER_REASON_MAX];
    snprintf(reason, sizeof reason, "%s", worker->reason);
    bool is_ready = !reason[0];
    if (is_ready && worker->role == WORKER_CONTEXT)
        is_ready = fits_any(worker, reason);
    tell(worker, is_ready, reason);
    struct worker_report report = {
        .is_ready = is_ready,
        .running = state->requests_running,
        .waiting = state->requests_waiting,
        .n_blocks = state->blocks.all,
        .blocks_usable = state->blocks.free + state->blocks.cached,
    };
    dispatch_report(worker->clients->options.dispatch, worker->id, &report);
    if (worker->role == WORKER_CONTEXT)
        dispatch_set_unfit(worker->clients->options.dispatch, worker->id,
                           !is_ready && worker->would_serve);
}

/* Its pairs first: what waits is placed when it is reported ready. */
static void settle_all(struct worker_client *worker)
{
    struct worker_clients *clients = worker->clients;
    judge_pairs(worker);
    for (uint32_t i = 0; worker->role == WORKER_GENERATION && i < clients->n_workers; i++)
        if (clients->workers[i].role == WORKER_CONTEXT && clients->workers[i].was_asked)
            settle(&clients->workers[i]);
    settle(worker);
}

static void count(const struct worker_clients *clients)
{
    uint32_t ready[2] = {0};
    uint32_t down[2] = {0};
    for (uint32_t i = 0; i < clients->n_workers; i++) {
        const struct worker_client *worker = &clients->workers[i];
        (worker->peer.is_ready ? ready : down)[worker->role]++;
    }
    const struct router_series *series = clients->options.series;
    gauge_set(series->contexts_ready, ready[WORKER_CONTEXT]);
    gauge_set(series->contexts_down, down[WORKER_CONTEXT]);
    gauge_set(series->generations_ready, ready[WORKER_GENERATION]);
    gauge_set(series->generations_down, down[WORKER_GENERATION]);
}

/* ---- asking ---- */

static void on_state(void *arg, const ProtobufCMessage *message)
{
    struct worker_client *worker = arg;
    pthread_mutex_lock(&worker->clients->mutex);
    worker->answered = process_state_decode(
        (const Kvferry__Internal__V1__GetStateResponse *)message, &worker->state, &worker->error);
    pthread_mutex_unlock(&worker->clients->mutex);
}

static void on_state_end(void *arg, const struct rpc_error *error)
{
    struct worker_client *worker = arg;
    struct worker_clients *clients = worker->clients;
    pthread_mutex_lock(&clients->mutex);
    worker->is_asked = false;
    worker->was_asked = true;
    const char *silent = error->message[0] ? error->message : "no answer";
    worker->is_heard = error->status == STATUS_OK && worker->answered == STATUS_OK;
    if (worker->is_heard)
        judge_alone(worker);
    else
        snprintf(worker->reason, sizeof worker->reason, "%.*s", PEER_REASON_MAX - 1,
                 error->status != STATUS_OK ? silent : worker->error.text);
    worker->would_serve = worker->is_heard && worker->state.is_ready && !worker->state.is_draining;
    settle_all(worker);
    count(clients);
    pthread_mutex_unlock(&clients->mutex);
}

void worker_clients_poll(struct worker_clients *clients, uint64_t now_ns)
{
    for (uint32_t i = 0; i < clients->n_workers; i++) {
        struct worker_client *worker = &clients->workers[i];
        pthread_mutex_lock(&clients->mutex);
        bool was_asked = worker->is_asked;
        worker->is_asked = true;
        if (!was_asked) {
            worker->answered = STATUS_PEER_LOST;
            snprintf(worker->error.text, sizeof worker->error.text, "no answer");
        }
        pthread_mutex_unlock(&clients->mutex);
        if (was_asked)
            continue;

        struct rpc_request request = process_state_request(now_ns + clients->options.poll_limit_ns);
        request.on_message = on_state;
        request.on_end = on_state_end;
        request.arg = worker;
        enum status status = rpc_channel_start(worker->channel, &request, NULL);
        if (status != STATUS_OK) {
            struct rpc_error error;
            rpc_error_set(&error, status, NULL, NULL, "%s", status_text(status));
            on_state_end(worker, &error);
        }
    }
}

bool worker_clients_card(struct worker_clients *clients, struct model_card *card_out)
{
    pthread_mutex_lock(&clients->mutex);
    bool has_card = clients->has_card;
    if (has_card)
        *card_out = clients->card;
    pthread_mutex_unlock(&clients->mutex);
    return has_card;
}

void worker_clients_unseen(struct worker_clients *clients, char *text_out, size_t text_bytes)
{
    size_t used = 0;
    text_out[0] = '\0';
    pthread_mutex_lock(&clients->mutex);
    for (uint32_t i = 0; i < clients->n_workers && used < text_bytes; i++) {
        const struct worker_client *worker = &clients->workers[i];
        if (!worker->was_ready)
            used += (size_t)snprintf(text_out + used, text_bytes - used, "%s%s %s: %s",
                                     used ? "; " : "", role_name(worker->peer.role),
                                     worker->peer.address, worker->peer.reason);
    }
    pthread_mutex_unlock(&clients->mutex);
}

uint32_t worker_clients_peers(struct worker_clients *clients, struct process_peer *peers_out,
                              uint32_t n)
{
    pthread_mutex_lock(&clients->mutex);
    uint32_t count_out = clients->n_workers < n ? clients->n_workers : n;
    for (uint32_t i = 0; i < count_out; i++)
        peers_out[i] = clients->workers[i].peer;
    pthread_mutex_unlock(&clients->mutex);
    return count_out;
}
