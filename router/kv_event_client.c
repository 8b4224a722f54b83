#include "router/kv_event_client.h"

#include "base/clock.h"
#include "base/log/log.h"
#include "base/random.h"
#include "proto/kvferry/internal/v1/kv_events.pb-c.h"
#include "router/events/block_union.h"
#include "rpc/tls/tls_identity.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EVENTS_MAX     (1u << 16)
#define ELEMENTS_MAX   (1u << 18) /* of a message */
#define RETRY_FIRST_NS (100 * NS_PER_MS)
#define RETRY_LAST_NS  (5 * NS_PER_S)
#define STEADY_NS      (10 * NS_PER_S) /* a stream that lasted so long is followed again at once */
#define KIND(name)     KVFERRY__INTERNAL__V1__KV_EVENT_KIND__KV_EVENT_KIND_##name

struct followed {
    struct kv_event_client *client;
    char address[ADDRESS_TEXT_MAX];
    Kvferry__Internal__V1__Role role;
    struct rpc_channel *channel;  /* NULL: a free slot */
    struct rpc_client_call *call; /* main's */
    bool is_seen;                 /* in the look under way */
    uint64_t retry_ns, wait_ns;   /* main's */
    uint64_t began_ns;
    /* Under the mutex. */
    bool is_open;
    enum status why; /* it ended by our own judgement; OK: it did not */
};

struct kv_event_client {
    struct kv_event_client_options options;
    pthread_mutex_t mutex;
    struct block_union *blocks;                  /* under it */
    struct followed followed[PROCESS_PEERS_MAX]; /* the number of a source is its place */
};

static uint32_t source_of(const struct followed *followed)
{
    return (uint32_t)(followed - followed->client->followed);
}

/* ---- what a worker says ---- */

typedef Kvferry__Internal__V1__WatchResponse response_t;

/* What a message has of each, and how far it was read. */
struct cursor {
    size_t hash, parent, token;
};

static struct prefix_hash take_hash(const uint64_t *words, size_t *at)
{
    const struct prefix_hash hash = {.lo = words[*at], .hi = words[*at + 1]};
    *at += 2;
    return hash;
}

/* CORRUPT: the message has not what its kinds say. */
static enum status check(const response_t *message)
{
    size_t n_stored = 0, n_told = 0, n_named = 0;
    for (size_t i = 0; i < message->n_kinds; i++) {
        const bool is_told = message->kinds[i] == KIND(STORED);
        const bool is_stored = is_told || message->kinds[i] == KIND(STORED_UNTOLD);
        if (!is_stored && message->kinds[i] != KIND(REMOVED) && message->kinds[i] != KIND(CLEARED))
            return STATUS_CORRUPT;
        n_told += is_told;
        n_stored += is_stored;
        n_named += message->kinds[i] != KIND(CLEARED);
    }
    return message->n_hashes == 2 * n_named && message->n_parent_hashes == 2 * n_stored &&
                   message->n_token_ids == n_told * message->block_tokens
               ? STATUS_OK
               : STATUS_CORRUPT;
}

static void apply(struct followed *followed, const response_t *message, size_t i,
                  struct cursor *cursor)
{
    struct kv_event_client *client = followed->client;
    const uint32_t source = source_of(followed);
    if (message->kinds[i] == KIND(CLEARED)) {
        block_union_clear(client->blocks, source);
        return;
    }
    const struct prefix_hash hash = take_hash(message->hashes, &cursor->hash);
    if (message->kinds[i] == KIND(REMOVED)) {
        block_union_remove(client->blocks, source, hash);
        return;
    }
    const struct prefix_hash parent = take_hash(message->parent_hashes, &cursor->parent);
    if (message->kinds[i] == KIND(STORED_UNTOLD))
        return;
    if (!block_union_store(client->blocks, source, hash, parent,
                           message->token_ids + cursor->token))
        counter_add(client->options.series->kv_events_left_out, 1);
    cursor->token += message->block_tokens;
}

static void on_message(void *arg, const ProtobufCMessage *base)
{
    struct followed *followed = arg;
    struct kv_event_client *client = followed->client;
    const response_t *message = (const response_t *)base;
    struct cursor cursor = {0};
    pthread_mutex_lock(&client->mutex);
    if (followed->why == STATUS_OK && message->block_tokens != client->options.block_tokens)
        followed->why = STATUS_GEOMETRY_MISMATCH;
    else if (followed->why == STATUS_OK)
        followed->why = check(message);
    for (size_t i = 0; followed->why == STATUS_OK && i < message->n_kinds; i++)
        apply(followed, message, i, &cursor);
    gauge_set(client->options.series->kv_event_blocks, block_union_count(client->blocks));
    counter_add(client->options.series->kv_events, message->n_kinds);
    pthread_mutex_unlock(&client->mutex);
    /* Not OK: main ends it. */
}

static void on_end(void *arg, const struct rpc_error *error)
{
    struct followed *followed = arg;
    struct kv_event_client *client = followed->client;
    pthread_mutex_lock(&client->mutex);
    block_union_clear(client->blocks, source_of(followed));
    gauge_set(client->options.series->kv_event_blocks, block_union_count(client->blocks));
    if (followed->why == STATUS_OK)
        followed->why = error->status;
    followed->is_open = false;
    pthread_mutex_unlock(&client->mutex);
}

/* ---- whom we follow ---- */

static bool is_worker(const struct process_peer *peer)
{
    return peer->role == KVFERRY__INTERNAL__V1__ROLE__ROLE_CONTEXT_WORKER ||
           peer->role == KVFERRY__INTERNAL__V1__ROLE__ROLE_GENERATION_WORKER;
}

/* NULL: there is no room. */
static struct followed *slot_of(struct kv_event_client *client, const struct process_peer *peer)
{
    struct followed *unused = NULL;
    for (uint32_t i = 0; i < PROCESS_PEERS_MAX; i++) {
        struct followed *followed = &client->followed[i];
        if (!followed->channel)
            unused = unused ? unused : followed;
        else if (followed->role == peer->role && strcmp(followed->address, peer->address) == 0)
            return followed;
    }
    return unused;
}

static enum status take_slot(struct kv_event_client *client, struct followed *followed,
                             const struct process_peer *peer)
{
    const uint32_t roles = peer->role == KVFERRY__INTERNAL__V1__ROLE__ROLE_CONTEXT_WORKER
                               ? TLS_ROLE_BIT(CONTEXT)
                               : TLS_ROLE_BIT(GENERATION);
    *followed = (struct followed){.client = client, .role = peer->role};
    snprintf(followed->address, sizeof followed->address, "%s", peer->address);
    return rpc_channel_open_role(client->options.rpc, peer->address, roles, &followed->channel);
}

static bool is_open(struct followed *followed, enum status *why_out)
{
    pthread_mutex_lock(&followed->client->mutex);
    const bool is = followed->is_open;
    *why_out = followed->why;
    pthread_mutex_unlock(&followed->client->mutex);
    return is;
}

static void start(struct followed *followed, uint64_t now_ns)
{
    static const Kvferry__Internal__V1__WatchRequest MESSAGE =
        KVFERRY__INTERNAL__V1__WATCH_REQUEST__INIT;
    const struct rpc_request request = {
        .path = "/kvferry.internal.v1.KvEventService/Watch",
        .message = &MESSAGE.base,
        .response = &kvferry__internal__v1__watch_response__descriptor,
        .is_stream = true,
        .elements_max = ELEMENTS_MAX,
        .deadline_ns = DEADLINE_NONE,
        .on_message = on_message,
        .on_end = on_end,
        .arg = followed,
    };
    rpc_client_call_release(followed->call);
    followed->call = NULL;
    followed->began_ns = now_ns;
    followed->is_open = true; /* nobody else looks: the last call has ended */
    followed->why = STATUS_OK;
    const enum status status = rpc_channel_start(followed->channel, &request, &followed->call);
    if (status != STATUS_OK) {
        followed->is_open = false;
        followed->why = status;
    }
}

/* It has ended: when it begins again. */
static void plan_retry(struct followed *followed, enum status why, uint64_t now_ns)
{
    const bool was_steady = now_ns - followed->began_ns >= STEADY_NS;
    const bool was_told = !was_steady && followed->wait_ns == RETRY_LAST_NS;
    const uint64_t doubled_ns = followed->wait_ns * 2;
    followed->wait_ns = was_steady || followed->wait_ns == 0 ? RETRY_FIRST_NS
                        : doubled_ns < RETRY_LAST_NS         ? doubled_ns
                                                             : RETRY_LAST_NS;
    followed->retry_ns = now_ns + followed->wait_ns;
    if (!was_told)
        log_event(why == STATUS_STALE_PEER || why == STATUS_DRAINING ? LOG_DEBUG : LOG_INFO,
                  &(struct log_about){.peer = followed->address}, "its KV events ended",
                  LOG_TEXT("why", status_text(why)));
}

static void follow(struct followed *followed, uint64_t now_ns)
{
    enum status why;
    if (is_open(followed, &why)) {
        if (why != STATUS_OK) /* what it said is wrong */
            rpc_client_call_cancel(followed->call);
        return;
    }
    if (followed->began_ns != 0 && followed->retry_ns <= followed->began_ns)
        plan_retry(followed, why, now_ns);
    if (now_ns >= followed->retry_ns)
        start(followed, now_ns);
}

/* It is not known any more, or not ready. */
static void let_go(struct followed *followed)
{
    enum status why;
    if (is_open(followed, &why)) {
        rpc_client_call_cancel(followed->call);
        return;
    }
    rpc_client_call_release(followed->call);
    rpc_channel_close(followed->channel);
    followed->call = NULL;
    followed->channel = NULL;
}

void kv_event_client_look(struct kv_event_client *client, const struct process_peer *peers,
                          uint32_t n, uint64_t now_ns)
{
    for (uint32_t i = 0; i < PROCESS_PEERS_MAX; i++)
        client->followed[i].is_seen = false;
    for (uint32_t i = 0; i < n; i++) {
        struct followed *followed = NULL;
        if (peers[i].is_ready && is_worker(&peers[i]))
            followed = slot_of(client, &peers[i]);
        if (!followed ||
            (!followed->channel && take_slot(client, followed, &peers[i]) != STATUS_OK))
            continue;
        followed->is_seen = true;
        follow(followed, now_ns);
    }
    for (uint32_t i = 0; i < PROCESS_PEERS_MAX; i++)
        if (client->followed[i].channel && !client->followed[i].is_seen)
            let_go(&client->followed[i]);
}

/* ---- creation ---- */

enum status kv_event_client_create(const struct kv_event_client_options *options,
                                   struct error *error, struct kv_event_client **client_out)
{
    struct block_union_options blocks = {.sources_max = PROCESS_PEERS_MAX,
                                         .blocks_max = options->blocks_max,
                                         .events_max = EVENTS_MAX,
                                         .block_tokens = options->block_tokens};
    TRY(random_secret(&blocks.key, sizeof blocks.key, error));
    struct kv_event_client *client = calloc(1, sizeof *client);
    if (!client)
        return error_set(error, STATUS_NO_MEMORY, "%s", status_text(STATUS_NO_MEMORY));
    client->options = *options;
    const enum status status = block_union_create(&blocks, &client->blocks);
    if (status != STATUS_OK) {
        free(client);
        return error_set(error, status, "kv_event_blocks_max %u: %s", options->blocks_max,
                         status_text(status));
    }
    pthread_mutex_init(&client->mutex, NULL);
    *client_out = client;
    return STATUS_OK;
}

void kv_event_client_close(struct kv_event_client *client)
{
    for (uint32_t i = 0; client && i < PROCESS_PEERS_MAX; i++) {
        struct followed *followed = &client->followed[i];
        rpc_client_call_release(followed->call);
        rpc_channel_close(followed->channel);
        followed->call = NULL;
        followed->channel = NULL;
    }
}

void kv_event_client_destroy(struct kv_event_client *client)
{
    if (!client)
        return;
    pthread_mutex_destroy(&client->mutex);
    block_union_destroy(client->blocks);
    free(client);
}

const struct span_events *kv_event_client_spans(const struct kv_event_client *client)
{
    return block_union_spans(client->blocks);
}
