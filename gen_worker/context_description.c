#include "gen_worker/context_description.h"

#include "base/clock.h"
#include "base/log/log.h"
#include "base/secret.h"
#include "gen_worker/gen_engine.h"
#include "process/process_state.h"
#include "worker_common/adapter_set.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ASK_AGAIN_NS (5 * NS_PER_S) /* from a refusal to the next Describe */

/* Whether the described incarnation is the one that has authenticated. */
static enum status check_life(const struct context_unary *unary, struct error *error)
{
    uint64_t described = unary->identity.address.incarnation;
    uint64_t proven = rpc_channel_life(unary->peer->channel);
    if (!rpc_client_has_key(unary->client->options.rpc) || described == proven)
        return STATUS_OK;
    return error_set(error, STATUS_NOT_ALLOWED,
                     "life %016" PRIx64 " of it describes itself as %016" PRIx64, proven,
                     described);
}

static void on_description(void *arg, const ProtobufCMessage *message)
{
    struct context_unary *unary = arg;
    const Kvferry__Internal__V1__DescribeResponse
        *response = (const Kvferry__Internal__V1__DescribeResponse *)message;
    const struct context_client_options *options = &unary->client->options;
    const struct identity_way way = {options->key, IDENTITY_CALLEE,
                                     options->identity->address.incarnation};
    unary->status = identity_decode(response->callee, &way, &unary->identity, &unary->error);
    if (unary->status == STATUS_OK)
        unary->status = check_life(unary, &unary->error);
    if (unary->status == STATUS_OK)
        adapter_set_compare(options->adapters, response->callee);
    if (unary->status == STATUS_OK)
        unary->status = identity_match(options->identity, &unary->identity, &options->allowed,
                                       &unary->error);
}

static void take_identity(struct context_client *client, struct context_peer *peer,
                          const struct worker_identity *identity)
{
    uint64_t old = peer->identity.address.incarnation;
    assert(identity->address.incarnation != 0 && "the decoder refuses incarnation 0");
    if (peer->was_described && old != identity->address.incarnation) {
        log_event(LOG_INFO, &(struct log_about){.peer = peer->address}, "context worker restarted",
                  LOG_HEX("incarnation", identity->address.incarnation));
        enum status status = gen_engine_drop_peer(client->engine, old);
        if (status != STATUS_OK)
            log_debug("what is kept of run %016" PRIx64 " stays", old);
    }
    log_event(LOG_INFO, &(struct log_about){.peer = peer->address}, "context worker described",
              LOG_HEX("incarnation", identity->address.incarnation),
              LOG_TEXT("transport", identity->transport), LOG_TEXT("ucx", identity->ucx_version),
              LOG_TEXT("numerics", identity->geometry.numerics));
    peer->identity = *identity;
    peer->was_described = true;
    peer->is_believed = true;
    peer->state = PEER_KNOWN;
    peer->refused = STATUS_OK;
    peer->reason[0] = '\0';
}

/* Tells the engine when an incarnation contradicts its own earlier description. If the engine has no room for that, the next
 * description tells it. */
static void judge_refusal(struct context_client *client, struct context_peer *peer,
                          const struct context_unary *unary, enum status status)
{
    uint64_t incarnation = unary->identity.address.incarnation;
    if (status == STATUS_GEOMETRY_MISMATCH && peer->is_believed &&
        peer->identity.address.incarnation == incarnation &&
        gen_engine_distrust(client->engine, incarnation) == STATUS_OK)
        peer->is_believed = false;
}

static void settle_description(struct context_unary *unary, enum status status,
                               const char *sentence)
{
    struct context_client *client = unary->client;
    struct context_peer *peer = unary->peer;
    assert(peer->n_users > 0 && peer->state == PEER_DESCRIBING && "one Describe at a time");
    peer->n_users--;
    peer->state = PEER_UNKNOWN;
    if (status == STATUS_OK) {
        take_identity(client, peer, &unary->identity);
    } else {
        bool is_news = status != peer->refused || strcmp(sentence, peer->reason) != 0;
        if (is_news)
            log_event(LOG_WARN, &(struct log_about){.peer = peer->address},
                      "context worker cannot be used", LOG_TEXT("why", sentence));
        judge_refusal(client, peer, unary, status);
        context_peer_forget(peer, status, sentence);
        peer->ask_at_ns = clock_now_ns() + ASK_AGAIN_NS;
    }
    client->on_described(client, peer, status, sentence);
    secret_wipe(unary->identity.address.secret, sizeof unary->identity.address.secret);
    free(unary);
}

static void on_description_end(void *arg, const struct rpc_error *error)
{
    struct context_unary *unary = arg;
    struct context_client *client = unary->client;
    context_client_lock(client);
    enum status status = error->status != STATUS_OK ? error->status : unary->status;
    const char *sentence = error->status != STATUS_OK ? error->message : unary->error.text;
    settle_description(unary, status, sentence);
    context_client_unlock(client);
}

/* The peer has authenticated, or there is no cluster key. */
static enum status start_describe(struct context_unary *unary)
{
    struct context_client *client = unary->client;
    const struct identity_way way = {client->options.key, IDENTITY_CALLER,
                                     rpc_channel_life(unary->peer->channel)};
    struct identity_message caller;
    TRY(identity_encode(client->options.identity, &way, &caller, &unary->error));
    Kvferry__Internal__V1__DescribeRequest message = KVFERRY__INTERNAL__V1__DESCRIBE_REQUEST__INIT;
    message.caller = &caller.message;
    struct rpc_request request = {
        .path = "/kvferry.internal.v1.ContextWorkerService/Describe",
        .message = &message.base,
        .response = &kvferry__internal__v1__describe_response__descriptor,
        .deadline_ns = clock_now_ns() + client->options.describe_limit_ns,
        .on_message = on_description,
        .on_end = on_description_end,
        .arg = unary,
    };
    return rpc_channel_start(unary->peer->channel, &request, NULL);
}

static void on_met(void *arg, const struct rpc_error *error)
{
    struct context_unary *unary = arg;
    struct context_client *client = unary->client;
    const char *sentence = error->message;
    context_client_lock(client);
    enum status status = error->status;
    if (status == STATUS_OK) {
        status = start_describe(unary);
        sentence = unary->error.text[0] ? unary->error.text : status_text(status);
    }
    if (status != STATUS_OK)
        settle_description(unary, status, sentence);
    context_client_unlock(client);
}

/* Says nothing about this worker to a process that has not authenticated. */
static enum status start_meeting(struct context_unary *unary)
{
    struct context_client *client = unary->client;
    struct rpc_request request = process_state_request(clock_now_ns() +
                                                       client->options.describe_limit_ns);
    request.on_end = on_met;
    request.arg = unary;
    return rpc_channel_start(unary->peer->channel, &request, NULL);
}

void context_describe(struct context_client *client, struct context_peer *peer)
{
    assert(peer->state == PEER_UNKNOWN);
    struct context_unary *unary = context_unary_create(client, peer);
    if (!unary) {
        client->on_described(client, peer, STATUS_NO_MEMORY, "");
        return;
    }
    peer->state = PEER_DESCRIBING;
    enum status status = rpc_client_has_key(client->options.rpc) ? start_meeting(unary)
                                                                 : start_describe(unary);
    if (status != STATUS_OK)
        settle_description(unary, status,
                           unary->error.text[0] ? unary->error.text : status_text(status));
}
