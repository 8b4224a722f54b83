#include "router/worker_client.h"

#include "base/clock.h"
#include "base/log.h"
#include "router/worker_fit.h"

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
    bool is_asked;              /* a GetState is under way */
    bool has_answered;          /* it brought a message */
    struct process_state state; /* of the last answer */
};

struct worker_clients {
    struct worker_clients_options options;
    pthread_mutex_t mutex; /* before dispatch's */
    struct worker_client workers[PROCESS_PEERS_MAX];
    uint32_t n_workers;
    struct model_card card;
    bool has_card;
};

static enum status add_worker(struct worker_clients *clients, enum worker_role role,
                              const char *address, struct error *error)
{
    struct address parsed;
    TRY(address_parse(address, &parsed, error));
    if (clients->n_workers == PROCESS_PEERS_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT, "more than %d workers", PROCESS_PEERS_MAX);
    struct worker_client *worker = &clients->workers[clients->n_workers];
    worker->clients = clients;
    worker->role = role;
    worker->peer.role = role == WORKER_CONTEXT ? KVFERRY__V1__ROLE__ROLE_CONTEXT_WORKER
                                               : KVFERRY__V1__ROLE__ROLE_GENERATION_WORKER;
    snprintf(worker->peer.address, sizeof worker->peer.address, "%s", address);
    snprintf(worker->peer.reason, sizeof worker->peer.reason, "not asked yet");
    TRY(rpc_channel_open(clients->options.rpc, address, &worker->channel));
    clients->n_workers++;
    enum status status = dispatch_add_worker(clients->options.dispatch, role, address,
                                             worker->channel, &worker->id);
    if (status != STATUS_OK)
        return error_set(error, status, "worker \"%s\" is named twice, or badly", address);
    return STATUS_OK;
}

static enum status add_list(struct worker_clients *clients, enum worker_role role, const char *list,
                            struct error *error)
{
    char address[ADDRESS_TEXT_MAX];
    while (address_list_next(&list, address))
        TRY(add_worker(clients, role, address, error));
    return STATUS_OK;
}

enum status worker_clients_create(const struct worker_clients_options *options, struct error *error,
                                  struct worker_clients **clients_out)
{
    struct worker_clients *clients = calloc(1, sizeof *clients);
    if (!clients)
        return STATUS_NO_MEMORY;
    clients->options = *options;
    pthread_mutex_init(&clients->mutex, NULL);
    enum status status = add_list(clients, WORKER_GENERATION, options->generation_workers, error);
    if (status == STATUS_OK)
        status = add_list(clients, WORKER_CONTEXT, options->context_workers, error);
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
static bool judge(struct worker_client *worker, char reason_out[WORKER_REASON_MAX])
{
    struct worker_clients *clients = worker->clients;
    bool chooses = worker->role == WORKER_GENERATION && !is_any_ready(clients, WORKER_GENERATION);
    struct worker_wanted wanted = {
        .role = worker->peer.role,
        .tokenizer_digest = clients->options.tokenizer_digest,
        .model_digest = clients->has_card && !chooses ? clients->card.model_digest : NULL,
    };
    if (!worker_fits(&wanted, &worker->state, reason_out))
        return false;
    if (chooses) {
        clients->card = worker->state.model;
        clients->has_card = true;
    }
    return true;
}

static void settle(struct worker_client *worker, const char *reason)
{
    const struct process_state *state = &worker->state;
    bool is_ready = reason[0] == '\0';
    /* It would serve, but not here: somebody has to know. */
    bool is_misfit = !is_ready && worker->has_answered && state->is_ready && !state->is_draining;
    bool is_news = is_misfit && strcmp(reason, worker->peer.reason) != 0;
    if (is_news || is_ready != worker->peer.is_ready)
        log_write(is_misfit ? LOG_WARN : LOG_INFO, NULL, "%s %s %s%s%s",
                  role_name(worker->peer.role), worker->peer.address,
                  is_ready ? "ready" : "not ready", is_ready ? "" : ": ", reason);
    worker->peer.is_ready = is_ready;
    snprintf(worker->peer.reason, sizeof worker->peer.reason, "%.95s", reason);

    struct worker_report report = {
        .is_ready = is_ready,
        .running = state->requests_running,
        .waiting = state->requests_waiting,
        .n_blocks = state->blocks.all,
        .blocks_usable = state->blocks.free + state->blocks.cached,
    };
    dispatch_report(worker->clients->options.dispatch, worker->id, &report);
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
    process_state_decode((const Kvferry__V1__GetStateResponse *)message, &worker->state);
    worker->has_answered = true;
    pthread_mutex_unlock(&worker->clients->mutex);
}

static void on_state_end(void *arg, const struct rpc_error *error)
{
    struct worker_client *worker = arg;
    struct worker_clients *clients = worker->clients;
    pthread_mutex_lock(&clients->mutex);
    worker->is_asked = false;
    if (error->status == STATUS_OK && worker->has_answered) {
        char reason[WORKER_REASON_MAX];
        (void)judge(worker, reason);
        settle(worker, reason);
    } else {
        settle(worker, error->message[0] ? error->message : "no answer");
    }
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
        if (!was_asked)
            worker->has_answered = false;
        pthread_mutex_unlock(&clients->mutex);
        if (was_asked)
            continue;

        Kvferry__V1__GetStateRequest message = KVFERRY__V1__GET_STATE_REQUEST__INIT;
        struct rpc_request request = {
            .path = "/kvferry.v1.AdminService/GetState",
            .message = &message.base,
            .response = &kvferry__v1__get_state_response__descriptor,
            .deadline_ns = now_ns + clients->options.poll_limit_ns,
            .on_message = on_state,
            .on_end = on_state_end,
            .arg = worker,
        };
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
