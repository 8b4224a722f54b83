#include "router/worker_client.h"

#include "base/clock.h"
#include "base/log/log.h"
#include "router/discovery/reminder.h"
#include "router/worker_fit.h"
#include "rpc/tls/tls_identity.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OLDER_STREAMS 256u /* of a worker that does not say */
#define QUESTIONS_MAX 8u

/* A slot: of a known worker, of one that left and whose last question is still under way, or free. */
struct worker_client {
    struct worker_clients *clients;
    bool is_known;
    struct process_peer peer;
    enum worker_role role;
    uint32_t id; /* in the core */
    struct rpc_channel *channel;
    bool is_asked;                /* a GetState is under way */
    bool was_asked;               /* one has ended */
    enum status answered;         /* OK: it brought a message that could be read */
    struct error error;           /* of one that could not */
    struct process_state state;   /* of the last answer; its peers are those that it refused */
    char reason[PEER_REASON_MAX]; /* of its own why it is not ready, beside those of its pairs */
    bool is_heard;                /* the last question was answered */
    bool is_twin;                 /* by the process that another address leads to, too */
    bool would_serve;             /* it says that it is ready */
    bool was_ready;
    struct reminder reminder;
    uint64_t
        misfits[PROCESS_PEERS_MAX / 64]; /* a generation worker's: slots of context workers that
                                                 do not fit it, a bit each */
};

struct worker_clients {
    struct worker_clients_options options;
    pthread_mutex_t mutex; /* before dispatch's */
    struct worker_client workers[PROCESS_PEERS_MAX];
    struct process_peer heard_peers[PROCESS_PEERS_MAX]; /* of the answer that is being read */
    uint32_t n_losses;
    struct model_card card;
    bool has_card;
};

/* ---- who comes and goes ---- */

/* The known one after that, of all; NULL: there is none. */
static struct worker_client *worker_clients_next(struct worker_clients *clients,
                                                 struct worker_client *after)
{
    struct worker_client *worker = after ? after + 1 : clients->workers;
    while (worker < clients->workers + PROCESS_PEERS_MAX && !worker->is_known)
        worker++;
    return worker < clients->workers + PROCESS_PEERS_MAX ? worker : NULL;
}

static struct worker_client *worker_clients_first(struct worker_clients *clients)
{
    return worker_clients_next(clients, NULL);
}

enum status worker_clients_create(const struct worker_clients_options *options,
                                  struct worker_clients **clients_out)
{
    struct worker_clients *clients = calloc(1, sizeof *clients);
    if (!clients)
        return STATUS_NO_MEMORY;
    clients->options = *options;
    pthread_mutex_init(&clients->mutex, NULL);
    *clients_out = clients;
    return STATUS_OK;
}

void worker_clients_close(struct worker_clients *clients)
{
    for (uint32_t i = 0; clients && i < PROCESS_PEERS_MAX; i++) {
        rpc_channel_close(clients->workers[i].channel);
        clients->workers[i].channel = NULL;
    }
}

void worker_clients_destroy(struct worker_clients *clients)
{
    if (!clients)
        return;
    worker_clients_close(clients);
    for (uint32_t i = 0; i < PROCESS_PEERS_MAX; i++) {
        assert(!clients->workers[i].is_asked && "the rpc client has waited for the answers");
        free(clients->workers[i].state.peers);
    }
    pthread_mutex_destroy(&clients->mutex);
    free(clients);
}

static struct worker_client *find(struct worker_clients *clients, enum worker_role role,
                                  const char *address)
{
    struct worker_client *worker;
    for (worker = worker_clients_first(clients); worker;
         worker = worker_clients_next(clients, worker))
        if (worker->role == role && strcmp(worker->peer.address, address) == 0)
            return worker;
    return NULL;
}

static struct worker_client *free_slot(struct worker_clients *clients)
{
    for (uint32_t i = 0; i < PROCESS_PEERS_MAX; i++)
        if (!clients->workers[i].is_known && !clients->workers[i].is_asked)
            return &clients->workers[i];
    return NULL;
}

static enum status join(struct worker_client *worker, enum worker_role role, const char *address)
{
    struct worker_clients *clients = worker->clients;
    TRY(rpc_channel_open_role(clients->options.rpc, address,
                              role == WORKER_CONTEXT ? TLS_ROLE_BIT(CONTEXT)
                                                     : TLS_ROLE_BIT(GENERATION),
                              &worker->channel));
    enum status status = dispatch_add_worker(clients->options.dispatch, role, address,
                                             worker->channel, &worker->id);
    if (status != STATUS_OK) {
        rpc_channel_close(worker->channel);
        worker->channel = NULL;
    }
    return status;
}

static enum status add(struct worker_clients *clients, enum worker_role role, const char *address)
{
    struct worker_client *worker = free_slot(clients);
    if (!worker)
        return STATUS_QUEUE_FULL;
    assert(!worker->channel && "its last life closed it");
    free(worker->state.peers);
    *worker = (struct worker_client){.clients = clients, .role = role};
    TRY(join(worker, role, address));
    worker->is_known = true;
    worker->peer.role = role == WORKER_CONTEXT
                            ? KVFERRY__INTERNAL__V1__ROLE__ROLE_CONTEXT_WORKER
                            : KVFERRY__INTERNAL__V1__ROLE__ROLE_GENERATION_WORKER;
    snprintf(worker->peer.address, sizeof worker->peer.address, "%s", address);
    snprintf(worker->peer.reason, sizeof worker->peer.reason, "not asked yet");
    return STATUS_OK;
}

static uint64_t *worker_judge_misfit_word(struct worker_client *generation,
                                          const struct worker_client *context)
{
    assert(generation->clients == context->clients && "a bit is a slot of one table");
    return &generation->misfits[(context - context->clients->workers) / 64];
}

static uint64_t worker_judge_misfit_bit(const struct worker_client *context)
{
    return 1ull << ((context - context->clients->workers) % 64);
}

/* ---- judging an answer (mutex held) ---- */

static bool is_any_ready(struct worker_clients *clients, enum worker_role role)
{
    struct worker_client *worker;
    for (worker = worker_clients_first(clients); worker;
         worker = worker_clients_next(clients, worker))
        if (worker->role == role && worker->peer.is_ready)
            return true;
    return false;
}

/* What the first generation worker serves that fits is what is served, until none is left. */
static void worker_judge_alone(struct worker_client *worker)
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

static void worker_judge_twin(struct worker_client *worker)
{
    const struct worker_client *twin = worker->is_heard && worker->state.incarnation != 0
                                           ? find_twin(worker)
                                           : NULL;
    worker->is_twin = twin != NULL;
    if (twin)
        snprintf(worker->reason, sizeof worker->reason, "is %s too", twin->peer.address);
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
    /* It would serve, but not here: somebody has to know, once. */
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
    dispatch_report(worker->clients->options.dispatch, worker->id, &report);
    if (worker->role == WORKER_CONTEXT)
        dispatch_set_unfit(worker->clients->options.dispatch, worker->id,
                           !is_ready && worker->would_serve);
}

static void worker_judge_settle_contexts(struct worker_clients *clients)
{
    struct worker_client *worker;
    for (worker = worker_clients_first(clients); worker;
         worker = worker_clients_next(clients, worker))
        if (worker->role == WORKER_CONTEXT && worker->was_asked)
            settle(worker, false);
}

/* Its pairs first: what waits is placed when it is reported ready. */
static void worker_judge_settle(struct worker_client *worker)
{
    judge_pairs(worker);
    if (worker->role == WORKER_GENERATION)
        worker_judge_settle_contexts(worker->clients);
    settle(worker, true);
}

static void worker_judge_count(struct worker_clients *clients)
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

/* ---- leaving ---- */

/* Its slot is free when its last question has ended. */
static void leave(struct worker_client *worker)
{
    struct worker_clients *clients = worker->clients;
    struct worker_client *other;
    assert(worker->is_known && worker->channel);
    log_info("%s %s left", role_name(worker->peer.role), worker->peer.address);
    /* First: dispatch starts calls on the channel. */
    dispatch_remove_worker(clients->options.dispatch, worker->id);
    rpc_channel_close(worker->channel);
    worker->channel = NULL;
    worker->is_known = false;
    for (other = worker_clients_first(clients); other; other = worker_clients_next(clients, other))
        *worker_judge_misfit_word(other, worker) &= ~worker_judge_misfit_bit(worker);
    if (worker->role == WORKER_GENERATION)
        worker_judge_settle_contexts(clients);
}

uint32_t worker_clients_follow(struct worker_clients *clients, enum worker_role role,
                               const struct address_set *wanted)
{
    uint32_t n_left_out = 0;
    struct worker_client *worker;
    pthread_mutex_lock(&clients->mutex);
    for (worker = worker_clients_first(clients); worker;
         worker = worker_clients_next(clients, worker))
        if (worker->role == role && !address_set_has(wanted, worker->peer.address))
            leave(worker);
    for (uint32_t i = 0; i < wanted->n; i++)
        if (!find(clients, role, wanted->addresses[i]))
            n_left_out += add(clients, role, wanted->addresses[i]) != STATUS_OK;
    worker_judge_count(clients);
    pthread_mutex_unlock(&clients->mutex);
    return n_left_out;
}

/* ---- asking ---- */

/* Of its peers only those that it refused are kept: there are few. */
static enum status take_state(struct worker_client *worker, struct process_state *state)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < state->n_peers; i++)
        if (state->peers[i].is_refused)
            state->peers[n++] = state->peers[i];
    assert(state->n_peers <= PROCESS_PEERS_MAX && state->peers == worker->clients->heard_peers);
    struct process_peer *refused = n > 0 ? malloc(n * sizeof *refused) : NULL;
    if (n > 0 && !refused)
        return error_set(&worker->error, STATUS_NO_MEMORY, "no memory for its answer");
    if (n > 0)
        memcpy(refused, state->peers, n * sizeof *refused);
    free(worker->state.peers);
    worker->state = *state;
    worker->state.peers = refused;
    worker->state.n_peers = worker->state.peers_max = n;
    return STATUS_OK;
}

static void on_state(void *arg, const ProtobufCMessage *message)
{
    struct worker_client *worker = arg;
    struct worker_clients *clients = worker->clients;
    pthread_mutex_lock(&clients->mutex);
    assert(worker->is_asked && "a slot is taken again when its last question has ended");
    struct process_state state = {.peers = clients->heard_peers, .peers_max = PROCESS_PEERS_MAX};
    worker->answered = process_state_decode(
        (const Kvferry__Internal__V1__GetStateResponse *)message, &state, &worker->error);
    if (worker->answered == STATUS_OK)
        worker->answered = take_state(worker, &state);
    pthread_mutex_unlock(&clients->mutex);
}

static void judge(struct worker_client *worker, const struct rpc_error *error)
{
    bool was_heard = worker->is_heard;
    assert(worker->is_known && worker->was_asked && !worker->is_asked);
    const char *silent = error->message[0] ? error->message : "no answer";
    worker->is_heard = error->status == STATUS_OK && worker->answered == STATUS_OK;
    if (worker->is_heard)
        worker_judge_alone(worker);
    else
        snprintf(worker->reason, sizeof worker->reason, "%.*s", PEER_REASON_MAX - 1,
                 error->status != STATUS_OK ? silent : worker->error.text);
    worker_judge_twin(worker);
    worker->would_serve = worker->is_heard && worker->state.is_ready &&
                          !worker->state.is_draining && !worker->is_twin;
    worker->clients->n_losses += was_heard && !worker->is_heard;
    worker_judge_settle(worker);
}

static void on_state_end(void *arg, const struct rpc_error *error)
{
    struct worker_client *worker = arg;
    struct worker_clients *clients = worker->clients;
    pthread_mutex_lock(&clients->mutex);
    assert(worker->is_asked);
    worker->is_asked = false;
    worker->was_asked = true;
    if (worker->is_known)
        judge(worker, error);
    worker_judge_count(clients);
    pthread_mutex_unlock(&clients->mutex);
}

/* False: the last question has not ended. */
static bool begin_question(struct worker_client *worker)
{
    struct worker_clients *clients = worker->clients;
    pthread_mutex_lock(&clients->mutex);
    bool was_asked = worker->is_asked;
    assert(worker->is_known);
    worker->is_asked = true;
    if (!was_asked)
        dispatch_ask(clients->options.dispatch, worker->id);
    if (!was_asked) { /* what is said of it if it ends without a message */
        worker->answered = STATUS_PEER_LOST;
        snprintf(worker->error.text, sizeof worker->error.text, "no answer");
    }
    pthread_mutex_unlock(&clients->mutex);
    return !was_asked;
}

/* Who is known changes on this thread only. */
uint32_t worker_clients_poll(struct worker_clients *clients, uint64_t now_ns)
{
    uint32_t n = 0;
    struct worker_client *worker;
    for (worker = worker_clients_first(clients); worker;
         worker = worker_clients_next(clients, worker)) {
        n++;
        if (!begin_question(worker))
            continue;
        struct rpc_request request = process_state_request(now_ns + clients->options.poll_limit_ns);
        request.on_message = on_state;
        request.on_end = on_state_end;
        request.arg = worker;
        assert(worker->channel && "no polls after the close");
        enum status status = rpc_channel_start(worker->channel, &request, NULL);
        if (status != STATUS_OK) {
            struct rpc_error error;
            rpc_error_set(&error, status, NULL, NULL, "%s", status_text(status));
            on_state_end(worker, &error);
        }
    }
    return n;
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

uint32_t worker_clients_losses(struct worker_clients *clients)
{
    pthread_mutex_lock(&clients->mutex);
    uint32_t n_losses = clients->n_losses;
    pthread_mutex_unlock(&clients->mutex);
    return n_losses;
}

void worker_clients_unseen(struct worker_clients *clients, char *text_out, size_t text_bytes)
{
    size_t used = 0;
    struct worker_client *worker;
    text_out[0] = '\0';
    pthread_mutex_lock(&clients->mutex);
    for (worker = worker_clients_first(clients); worker && used < text_bytes;
         worker = worker_clients_next(clients, worker))
        if (!worker->was_ready && !worker->is_twin)
            used += (size_t)snprintf(text_out + used, text_bytes - used, "%s%s %s: %s",
                                     used ? "; " : "", role_name(worker->peer.role),
                                     worker->peer.address, worker->peer.reason);
    pthread_mutex_unlock(&clients->mutex);
}

uint32_t worker_clients_peers(struct worker_clients *clients, struct process_peer *peers_out,
                              uint32_t n)
{
    uint32_t n_out = 0;
    struct worker_client *worker;
    pthread_mutex_lock(&clients->mutex);
    for (worker = worker_clients_first(clients); worker && n_out < n;
         worker = worker_clients_next(clients, worker))
        peers_out[n_out++] = worker->peer;
    pthread_mutex_unlock(&clients->mutex);
    return n_out;
}
