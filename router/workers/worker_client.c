#include "router/workers/worker_client.h"

#include "base/clock.h"
#include "base/log/log.h"
#include "router/workers/adapter_list.h"
#include "router/workers/worker_client_parts.h"
#include "rpc/tls/tls_identity.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- who comes and goes ---- */

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

static void list_adapters(struct worker_clients *clients, struct model_card *card)
{
    struct adapter_teller tellers[PROCESS_PEERS_MAX];
    struct worker_client *worker;
    uint32_t n = 0;
    for (worker = worker_clients_first(clients); worker;
         worker = worker_clients_next(clients, worker))
        if (worker->role == WORKER_GENERATION)
            tellers[n++] = (struct adapter_teller){&worker->state.model, worker->peer.is_ready};
    adapter_list_make(tellers, n, card);
}

bool worker_clients_card(struct worker_clients *clients, struct model_card *card_out)
{
    pthread_mutex_lock(&clients->mutex);
    bool has_card = clients->has_card;
    if (has_card) {
        *card_out = clients->card;
        list_adapters(clients, card_out);
    }
    pthread_mutex_unlock(&clients->mutex);
    return has_card;
}

void worker_clients_room(struct worker_clients *clients, struct worker_room *room_out)
{
    struct worker_client *worker;
    *room_out = (struct worker_room){0};
    pthread_mutex_lock(&clients->mutex);
    for (worker = worker_clients_first(clients); worker;
         worker = worker_clients_next(clients, worker)) {
        if (worker->role != WORKER_GENERATION || !worker->peer.is_ready)
            continue;
        room_out->n_workers++;
        room_out->blocks += worker->state.blocks.all;
        room_out->blocks_usable += worker->state.blocks.free + worker->state.blocks.cached;
    }
    pthread_mutex_unlock(&clients->mutex);
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

/* ---- for people ---- */

static enum watch_worker_state state_for_people(const struct worker_client *worker)
{
    if (worker->was_asked && !worker->is_heard)
        return WATCH_NO_ANSWER;
    if (worker->is_heard && worker->state.is_draining)
        return WATCH_DRAINING;
    return worker->would_serve ? WATCH_READY : WATCH_NOT_READY;
}

static void show(const struct worker_client *worker, struct watch_worker *out)
{
    const struct process_state *state = &worker->state;
    *out = (struct watch_worker){
        .is_context = worker->role == WORKER_CONTEXT,
        .state = state_for_people(worker),
        .is_used = worker->peer.is_ready,
        .has_state = worker->is_heard,
        .running = state->requests_running,
        .waiting = state->requests_waiting,
        .blocks = state->blocks,
        .prefills = state->prefills,
        .kv_bytes_received = state->kv_bytes_received,
        .kv_bytes_sent = state->kv_bytes_sent,
        .uptime_ms = state->uptime_ms,
    };
    snprintf(out->address, sizeof out->address, "%s", worker->peer.address);
    snprintf(out->name, sizeof out->name, "%s", state->name);
    snprintf(out->reason, sizeof out->reason, "%s", worker->peer.reason);
    snprintf(out->transport, sizeof out->transport, "%s", state->transport);
}

uint32_t worker_clients_watch(struct worker_clients *clients,
                              struct watch_worker workers_out[PROCESS_PEERS_MAX])
{
    uint32_t n = 0;
    struct worker_client *worker;
    pthread_mutex_lock(&clients->mutex);
    for (worker = worker_clients_first(clients); worker;
         worker = worker_clients_next(clients, worker))
        show(worker, &workers_out[n++]);
    pthread_mutex_unlock(&clients->mutex);
    return n;
}
