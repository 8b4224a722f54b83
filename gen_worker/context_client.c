#include "gen_worker/context_client.h"

#include "base/clock.h"
#include "base/log/log.h"
#include "gen_worker/context_description.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Block ids and digests of a whole context in one ready event. */
#define EVENT_ELEMENTS_MAX (1u << 20)

/* ---- making ---- */

static void on_described(struct context_client *client, struct context_peer *peer,
                         enum status status, const char *sentence);

enum status context_client_create(const struct context_client_options *options,
                                  struct context_client **client_out)
{
    struct context_client *client = calloc(1, sizeof *client);
    if (!client)
        return STATUS_NO_MEMORY;
    client->options = *options;
    client->on_described = on_described;
    pthread_mutex_init(&client->mutex, NULL);
    client->prefills = calloc(options->prefills_max, sizeof(struct context_prefill *));
    enum status status = context_peers_init(&client->peers, options->peers_max);
    if (status != STATUS_OK || !client->prefills) {
        context_client_destroy(client);
        return STATUS_NO_MEMORY;
    }
    *client_out = client;
    return STATUS_OK;
}

void context_client_set_engine(struct context_client *client, struct gen_engine *engine)
{
    assert(!client->engine && engine && "once, before the first prefill");
    client->engine = engine;
}

void context_client_close(struct context_client *client)
{
    for (uint32_t i = 0; client && i < client->peers.n_max; i++) {
        rpc_channel_close(client->peers.places[i].channel);
        client->peers.places[i].channel = NULL;
    }
}

void context_client_destroy(struct context_client *client)
{
    if (!client)
        return;
    for (uint32_t i = 0; client->prefills && i < client->options.prefills_max; i++)
        assert(!client->prefills[i]);
    context_peers_finish(&client->peers);
    free(client->prefills);
    pthread_mutex_destroy(&client->mutex);
    free(client);
}

/* ---- the end of a prefill ---- */

static struct context_prefill **find_prefill(struct context_client *client, uint64_t id)
{
    for (uint32_t i = 0; i < client->options.prefills_max; i++)
        if (client->prefills[i] && client->prefills[i]->id == id)
            return &client->prefills[i];
    return NULL;
}

/* Says prefill_end, frees. */
static void end_prefill(struct context_prefill *prefill, enum status status, const char *sentence)
{
    struct context_client *client = prefill->client;
    struct context_prefill **place = find_prefill(client, prefill->id);
    assert(place && prefill->peer->n_users > 0 && "until here it is a user of its peer");
    *place = NULL;
    prefill->peer->n_users--;
    gen_engine_prefill_end(client->engine, prefill->id, status, sentence);
    rpc_client_call_release(prefill->call);
    prefill_message_destroy(prefill->request);
    free(prefill);
}

/* ---- Prefill ---- */

/* The first event proves which incarnation computes the prompt. Only then the engine is told, so until then the prefill can be
 * repeated. */
static enum status tell_described(struct context_prefill *prefill)
{
    const struct transport_address *address = &prefill->peer->identity.address;
    if (prefill->is_described)
        return STATUS_OK;
    if (address->incarnation != prefill->incarnation)
        return STATUS_STALE_PEER;
    prefill->is_described = true;
    const struct geometry *theirs = &prefill->peer->identity.geometry;
    const struct geometry *ours = &prefill->client->options.identity->geometry;
    const struct gen_described described = {
        .address = *address,
        .geometry = *theirs,
        .has_other_numerics = strcmp(theirs->numerics, ours->numerics) != 0 ||
                              !numerics_is_exact(ours->numerics) || theirs->dtype != ours->dtype,
    };
    return gen_engine_described(prefill->client->engine, prefill->id, &described);
}

static enum status hand_on_event(struct context_prefill *prefill, const struct prefill_event *event)
{
    const bool lacks_digests = event->kind == EVENT_READY && !event->ready.digests;
    if (lacks_digests && prefill->client->options.wants_digests)
        return STATUS_CORRUPT;
    TRY(tell_described(prefill));
    enum status status = gen_engine_prefill_event(prefill->client->engine, prefill->id, event);
    /* A later backlog replaces it. */
    return status == STATUS_QUEUE_FULL && event->kind == EVENT_BACKLOG ? STATUS_OK : status;
}

static enum status hand_on(struct context_prefill *prefill,
                           const Kvferry__Internal__V1__PrefillResponse *message)
{
    struct prefill_events events;
    TRY(prefill_events_decode(message, &prefill->client->scratch, &events));
    for (uint32_t i = 0; i < events.n; i++)
        TRY(hand_on_event(prefill, &events.list[i]));
    return STATUS_OK;
}

static void on_event(void *arg, const ProtobufCMessage *message)
{
    struct context_prefill *prefill = arg;
    context_client_lock(prefill->client);
    if (prefill->lost == STATUS_OK) {
        prefill->lost = hand_on(prefill, (const Kvferry__Internal__V1__PrefillResponse *)message);
        if (prefill->lost != STATUS_OK)
            rpc_client_call_cancel(prefill->call);
    }
    context_client_unlock(prefill->client);
}

/* Whether the worker must be described again after a call that ended with that status. */
static bool is_lost(enum status status)
{
    return status == STATUS_STALE_PEER || status == STATUS_PEER_LOST;
}

/* The worker has restarted since it was described, and the engine knows nothing of this prefill yet: one more try. */
static bool may_repeat(const struct context_prefill *prefill, enum status status)
{
    return status == STATUS_STALE_PEER && !prefill->is_described && !prefill->is_repeated &&
           !prefill->is_cancelled;
}

static void begin_prefill(struct context_prefill *prefill);

static void repeat_prefill(struct context_prefill *prefill)
{
    struct context_peer *peer = prefill->peer;
    const struct log_about about = log_about_origin(&prefill->origin);
    log_event(LOG_INFO, &about, "context worker has restarted: prefill repeated",
              LOG_TEXT("context_worker", peer->address));
    prefill->is_repeated = true;
    prefill->lost = STATUS_OK;
    rpc_client_call_release(prefill->call);
    prefill->call = NULL;
    if (peer->state == PEER_KNOWN)
        begin_prefill(prefill);
    else if (peer->state == PEER_UNKNOWN)
        context_describe(prefill->client, peer);
}

static void on_prefill_end(void *arg, const struct rpc_error *error)
{
    struct context_prefill *prefill = arg;
    struct context_client *client = prefill->client;
    context_client_lock(client);
    enum status status = prefill->lost != STATUS_OK ? prefill->lost : error->status;
    const char *sentence = prefill->lost != STATUS_OK ? "" : error->message;
    if (is_lost(status) && prefill->peer->identity.address.incarnation == prefill->incarnation)
        context_peer_forget(prefill->peer, status, sentence);
    if (may_repeat(prefill, status))
        repeat_prefill(prefill);
    else
        end_prefill(prefill, status, sentence);
    context_client_unlock(client);
}

/* Of a peer that is known. */
static void begin_prefill(struct context_prefill *prefill)
{
    struct context_client *client = prefill->client;
    assert(prefill->peer->state == PEER_KNOWN && !prefill->call);
    prefill->incarnation = prefill->peer->identity.address.incarnation;
    struct rpc_request request = {
        .path = "/kvferry.internal.v1.ContextWorkerService/Prefill",
        .message = prefill_message_encode(
            prefill->request, client->options.identity->address.incarnation, prefill->incarnation,
            prefill->peer->identity.geometry.block_tokens),
        .response = &kvferry__internal__v1__prefill_response__descriptor,
        .is_stream = true,
        .elements_max = EVENT_ELEMENTS_MAX,
        .deadline_ns = prefill_message_deadline_ns(prefill->request),
        .on_message = on_event,
        .on_end = on_prefill_end,
        .arg = prefill,
    };
    struct rpc_origin_text origin_text;
    rpc_request_set_origin(&request, &prefill->origin, &origin_text);
    enum status status = rpc_channel_start(prefill->peer->channel, &request, &prefill->call);
    if (status != STATUS_OK)
        end_prefill(prefill, status, "");
}

/* Begins or ends every prefill that waited for the description. */
static void on_described(struct context_client *client, struct context_peer *peer,
                         enum status status, const char *sentence)
{
    for (uint32_t i = 0; i < client->options.prefills_max; i++) {
        struct context_prefill *prefill = client->prefills[i];
        if (!prefill || prefill->peer != peer || prefill->call)
            continue;
        if (status == STATUS_OK)
            begin_prefill(prefill);
        else
            end_prefill(prefill, status, sentence);
    }
}

/* ---- the engine's ops ---- */

static struct context_prefill **free_place(struct context_client *client)
{
    for (uint32_t i = 0; i < client->options.prefills_max; i++)
        if (!client->prefills[i])
            return &client->prefills[i];
    return NULL;
}

static enum status add_prefill(struct context_client *client, uint64_t id, const char *address,
                               const struct gen_prefill_request *request,
                               struct context_prefill **prefill_out)
{
    struct context_peer *peer;
    struct context_prefill **place = free_place(client);
    assert(!find_prefill(client, id) && "the engine never reuses a number");
    if (!place)
        return STATUS_QUEUE_FULL;
    TRY(context_peers_meet(&client->peers, client->options.rpc, address, &peer));
    struct context_prefill *prefill = calloc(1, sizeof *prefill);
    if (!prefill)
        return STATUS_NO_MEMORY;
    enum status status = prefill_message_create(request, &prefill->request);
    if (status != STATUS_OK) {
        free(prefill);
        return status;
    }
    prefill->client = client;
    prefill->peer = peer;
    prefill->id = id;
    if (request->origin)
        prefill->origin = *request->origin;
    peer->n_users++;
    *place = prefill;
    *prefill_out = prefill;
    return STATUS_OK;
}

void context_client_start_prefill(struct context_client *client, uint64_t id, const char *address,
                                  const struct gen_prefill_request *request)
{
    context_client_lock(client);
    struct context_prefill *prefill;
    enum status status = add_prefill(client, id, address, request, &prefill);
    if (status != STATUS_OK)
        gen_engine_prefill_end(client->engine, id, status, "");
    else if (prefill->peer->state == PEER_KNOWN)
        begin_prefill(prefill);
    else if (prefill->peer->state == PEER_UNKNOWN)
        context_describe(client, prefill->peer);
    context_client_unlock(client);
}

void context_client_cancel_prefill(struct context_client *client, uint64_t id)
{
    context_client_lock(client);
    struct context_prefill **place = find_prefill(client, id);
    if (place)
        (*place)->is_cancelled = true;
    if (place && (*place)->call)
        rpc_client_call_cancel((*place)->call);
    else if (place) /* it waits for a description, so no worker computes it */
        end_prefill(*place, STATUS_CANCELLED, "");
    context_client_unlock(client);
}

static void on_commit_end(void *arg, const struct rpc_error *error)
{
    struct context_unary *unary = arg;
    struct context_client *client = unary->client;
    context_client_lock(client);
    assert(unary->peer->n_users > 0);
    unary->peer->n_users--;
    gen_engine_commit_result(client->engine, unary->prefill, error->status, error->message);
    context_client_unlock(client);
    free(unary);
}

static enum status start_commit(struct context_client *client, uint64_t prefill,
                                const char *address,
                                const Kvferry__Internal__V1__CommitRequest *message)
{
    struct context_peer *peer = context_peers_find(&client->peers, address);
    if (!peer)
        return STATUS_PEER_LOST;
    struct context_unary *unary = context_unary_create(client, peer);
    if (!unary)
        return STATUS_NO_MEMORY;
    unary->prefill = prefill;
    struct rpc_request request = {
        .path = "/kvferry.internal.v1.ContextWorkerService/Commit",
        .message = &message->base,
        .response = &kvferry__internal__v1__commit_response__descriptor,
        .deadline_ns = clock_now_ns() + client->options.commit_limit_ns,
        .on_end = on_commit_end,
        .arg = unary,
    };
    enum status status = rpc_channel_start(peer->channel, &request, NULL);
    if (status != STATUS_OK) {
        peer->n_users--;
        free(unary);
    }
    return status;
}

void context_client_commit(struct context_client *client, uint64_t prefill, const char *address,
                           const struct transfer_id *id, uint64_t kv_bytes, uint64_t incarnation)
{
    struct transfer_id copy = *id;
    Kvferry__Internal__V1__CommitRequest message = KVFERRY__INTERNAL__V1__COMMIT_REQUEST__INIT;
    message.transfer_id.data = copy.bytes;
    message.transfer_id.len = sizeof copy.bytes;
    message.kv_bytes = kv_bytes;
    message.callee_incarnation = incarnation;
    context_client_lock(client);
    enum status status = start_commit(client, prefill, address, &message);
    if (status != STATUS_OK)
        gen_engine_commit_result(client->engine, prefill, status, "");
    context_client_unlock(client);
}

void context_client_look(struct context_client *client, uint64_t now_ns)
{
    context_client_lock(client);
    for (uint32_t i = 0; i < client->peers.n_max; i++) {
        struct context_peer *peer = &client->peers.places[i];
        if (peer->state == PEER_UNKNOWN && context_peer_is_refused(peer) &&
            now_ns >= peer->ask_at_ns)
            context_describe(client, peer);
    }
    context_client_unlock(client);
}

uint32_t context_client_peers(struct context_client *client, struct process_peer *peers_out,
                              uint32_t n)
{
    uint32_t count = 0;
    context_client_lock(client);
    for (uint32_t i = 0; i < client->peers.n_max && count < n; i++) {
        const struct context_peer *peer = &client->peers.places[i];
        if (!peer->address[0])
            continue;
        struct process_peer *out = &peers_out[count++];
        out->role = KVFERRY__INTERNAL__V1__ROLE__ROLE_CONTEXT_WORKER;
        out->is_ready = peer->state == PEER_KNOWN;
        snprintf(out->address, sizeof out->address, "%s", peer->address);
        out->is_refused = !out->is_ready && context_peer_is_refused(peer);
        snprintf(out->reason, sizeof out->reason, "%s", peer->reason);
    }
    context_client_unlock(client);
    return count;
}
