/* context_client: Describe carries the secrets of tls in both directions, and they cannot be read on the wire. A secret that was
 * encrypted for another incarnation is refused by name. */
#include "gen_worker/context_client.h"
#include "proto/kvferry/internal/v1/admin.pb-c.h"
#include "rpc/auth/call_auth.h"
#include "rpc/server/server.h"
#include "tests/gen_worker/support/gen_rig.h"
#include "tests/gen_worker/support/wiretap.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define LIMIT_NS (20 * NS_PER_S)

enum { READER = RIG_READER, OWNER = RIG_OWNER };

/* ---- a context worker that sends its secret ---- */

struct fake_worker {
    struct worker_identity identity;
    struct cluster_key *key;
    uint64_t tells_whom; /* 0: the caller */
    struct worker_identity caller;
    enum status heard; /* of the caller */
    atomic_uint n_prefills;
};

static void get_state(void *arg, struct rpc_call *call, const ProtobufCMessage *request)
{
    Kvferry__Internal__V1__GetStateResponse response =
        KVFERRY__INTERNAL__V1__GET_STATE_RESPONSE__INIT;
    (void)arg;
    (void)request;
    rpc_call_reply(call, &response.base);
}

static void describe(void *arg, struct rpc_call *call, const ProtobufCMessage *message)
{
    struct fake_worker *worker = arg;
    const Kvferry__Internal__V1__DescribeRequest
        *request = (const Kvferry__Internal__V1__DescribeRequest *)message;
    const struct identity_way in = {worker->key, IDENTITY_CALLER, OWNER};
    const struct identity_way out = {worker->key, IDENTITY_CALLEE,
                                     worker->tells_whom ? worker->tells_whom
                                                        : request->caller->incarnation};
    struct identity_message callee;
    Kvferry__Internal__V1__DescribeResponse response =
        KVFERRY__INTERNAL__V1__DESCRIBE_RESPONSE__INIT;
    worker->heard = identity_decode(request->caller, &in, &worker->caller, NULL);
    cr_assert_eq(identity_encode(&worker->identity, &out, &callee, NULL), STATUS_OK);
    response.callee = &callee.message;
    rpc_call_reply(call, &response.base);
}

static void prefill(void *arg, struct rpc_call *call, const ProtobufCMessage *request)
{
    struct fake_worker *worker = arg;
    (void)request;
    atomic_fetch_add(&worker->n_prefills, 1);
    rpc_call_fail_status(call, STATUS_DRAINING, "enough was heard");
}

static const struct rpc_method OF_ADMIN[] = {
    {.path = "/kvferry.internal.v1.AdminService/GetState",
     .kind = RPC_UNARY,
     .takes_any_life = true,
     .request = &kvferry__internal__v1__get_state_request__descriptor,
     .response = &kvferry__internal__v1__get_state_response__descriptor,
     .handler = get_state},
};

static const struct rpc_method OF_WORKER[] = {
    {.path = "/kvferry.internal.v1.ContextWorkerService/Describe",
     .kind = RPC_UNARY,
     .request = &kvferry__internal__v1__describe_request__descriptor,
     .response = &kvferry__internal__v1__describe_response__descriptor,
     .handler = describe},
    {.path = "/kvferry.internal.v1.ContextWorkerService/Prefill",
     .kind = RPC_SERVER_STREAM,
     .request = &kvferry__internal__v1__prefill_request__descriptor,
     .response = &kvferry__internal__v1__prefill_response__descriptor,
     .handler = prefill},
};

/* ---- both ends, and a wiretap between them ---- */

struct ends {
    struct gen_rig rig;
    struct fake_worker worker;
    struct worker_identity identity; /* the client's own */
    struct cluster_key *key;
    struct call_auth *auth;
    struct rpc_runtime *server_runtime, *client_runtime;
    struct rpc_server *server;
    struct rpc_client *rpc;
    struct context_client *client;
    struct wiretap *tap;
    char address[32];
};

static struct worker_identity identity_of(const char *name, uint64_t incarnation, uint8_t secret)
{
    struct worker_identity identity = {
        .transport = "tls",
        .ucx_version = "0",
        .revision = 2,
        .geometry = {.n_layers = 2, .n_kv_heads = 1, .head_dim = 8, .block_tokens = 8},
        .address = {.incarnation = incarnation,
                    .hosts = {{4, {127, 0, 0, 1}}},
                    .n_hosts = 1,
                    .worker_bytes = 2,
                    .secret_bytes = TRANSPORT_SECRET_BYTES}};
    snprintf(identity.name, sizeof identity.name, "%s", name);
    for (uint8_t i = 0; i < TRANSPORT_SECRET_BYTES; i++)
        identity.address.secret[i] = (uint8_t)(secret + 7 * i);
    return identity;
}

static void serve(struct ends *ends)
{
    const struct rpc_service services[] = {{.name = "kvferry.internal.v1.ContextWorkerService",
                                            .methods = OF_WORKER,
                                            .n_methods = 2,
                                            .arg = &ends->worker,
                                            .is_inner = true},
                                           {.name = "kvferry.internal.v1.AdminService",
                                            .methods = OF_ADMIN,
                                            .n_methods = 1,
                                            .arg = &ends->worker,
                                            .is_inner = true}};
    struct error error = {""};
    struct rpc_server_options options;
    rpc_server_options_init(&options);
    options.auth = ends->auth;
    cr_assert_eq(rpc_runtime_create("server", NULL, &ends->server_runtime), STATUS_OK);
    cr_assert_eq(rpc_server_create(ends->server_runtime, "127.0.0.1:0", services, 2, &options,
                                   &error, &ends->server),
                 STATUS_OK, "%s", error.text);
}

static void call(struct ends *ends)
{
    struct rpc_client_options rpc;
    rpc_client_options_init(&rpc);
    rpc.key = ends->key;
    cr_assert_eq(rpc_runtime_create("client", NULL, &ends->client_runtime), STATUS_OK);
    cr_assert_eq(rpc_client_create(ends->client_runtime, &rpc, &ends->rpc), STATUS_OK);
    const struct context_client_options options = {.rpc = ends->rpc,
                                                   .key = ends->key,
                                                   .identity = &ends->identity,
                                                   .allowed = {"equal", false},
                                                   .peers_max = 2,
                                                   .prefills_max = 4,
                                                   .describe_limit_ns = LIMIT_NS,
                                                   .commit_limit_ns = LIMIT_NS};
    cr_assert_eq(context_client_create(&options, &ends->client), STATUS_OK);
    context_client_set_engine(ends->client, ends->rig.engine);
}

static void ends_open(struct ends *ends, uint64_t tells_whom)
{
    const struct gen_rig_options engine = {.n_blocks = 32,
                                           .sequences_max = 2,
                                           .queue_max = 4,
                                           .prefills_max = 4,
                                           .no_local_prefill = true};
    struct key_set keys = {.n = 1};
    *ends = (struct ends){0};
    gen_rig_open(&ends->rig, engine);
    memset(keys.keys[0], 1, CLUSTER_KEY_BYTES);
    cr_assert_eq(cluster_key_create(&keys, &ends->key), STATUS_OK);
    const struct call_auth_options auth = {.key = ends->key, .life = OWNER};
    cr_assert_eq(call_auth_create(&auth, &ends->auth), STATUS_OK);
    ends->identity = identity_of("the reader's name", READER, 100);
    ends->worker.identity = identity_of("the owner's name", OWNER, 200);
    ends->worker.key = ends->key;
    ends->worker.tells_whom = tells_whom;
    serve(ends);
    call(ends);
    ends->tap = wiretap_create((uint16_t)rpc_server_port(ends->server));
    snprintf(ends->address, sizeof ends->address, "127.0.0.1:%u", wiretap_port(ends->tap));
}

static void ends_close(struct ends *ends)
{
    context_client_close(ends->client);
    rpc_client_destroy(ends->rpc);
    context_client_destroy(ends->client);
    rpc_server_destroy(ends->server);
    wiretap_destroy(ends->tap);
    rpc_runtime_destroy(ends->client_runtime);
    rpc_runtime_destroy(ends->server_runtime);
    call_auth_destroy(ends->auth);
    cluster_key_destroy(ends->key);
    gen_rig_close(&ends->rig);
}

/* One request, until it has ended. */
static void ask(struct ends *ends)
{
    static const uint32_t tokens[20] = {3};
    const struct sampling_params sampling = gen_rig_sampling(2);
    struct rig_client client = {0};
    uint64_t until_ns = clock_now_ns() + LIMIT_NS;
    gen_rig_ask(&ends->rig, &client, "request", 20, 2);
    const struct gen_prefill_request request = {.input = {.request_id = "request",
                                                          .token_ids = tokens,
                                                          .n_tokens = 20,
                                                          .sampling = &sampling,
                                                          .deadline_ns = DEADLINE_NONE},
                                                .transfer_id = ends->rig.transfer};
    context_client_start_prefill(ends->client, ends->rig.prefill, ends->address, &request);
    while (client.n_finishes == 0) {
        gen_rig_settle(&ends->rig);
        cr_assert_lt(clock_now_ns(), until_ns, "the request does not end");
        (void)poll(NULL, 0, 1);
    }
}

static bool has_crossed(struct ends *ends, const struct worker_identity *identity)
{
    bool is_found = false;
    for (size_t i = 0; i + 8 <= TRANSPORT_SECRET_BYTES; i++)
        is_found |= wiretap_has(ends->tap, identity->address.secret + i, 8);
    return is_found;
}

Test(context_secret, both_sides_learn_the_others_and_who_reads_along_sees_neither)
{
    static struct ends ends;
    ends_open(&ends, 0);
    ask(&ends);
    cr_assert_eq(ends.worker.heard, STATUS_OK);
    cr_assert_arr_eq(ends.worker.caller.address.secret, ends.identity.address.secret,
                     TRANSPORT_SECRET_BYTES);
    cr_assert_eq(ends.worker.n_prefills, 1, "the answer was not taken");

    /* The wiretap has seen what is sent in clear. */
    cr_assert(wiretap_has(ends.tap, ends.identity.name, strlen(ends.identity.name)));
    cr_assert(wiretap_has(ends.tap, ends.worker.identity.name, strlen(ends.worker.identity.name)));
    cr_assert_not(has_crossed(&ends, &ends.identity));
    cr_assert_not(has_crossed(&ends, &ends.worker.identity));
    ends_close(&ends);
}

Test(context_secret, one_that_was_sealed_for_another_life_is_refused_by_name)
{
    static struct ends ends;
    struct process_peer peer;
    memset(&peer, 0, sizeof peer);
    ends_open(&ends, READER + 1);
    ask(&ends);
    cr_assert_eq(ends.worker.n_prefills, 0);
    cr_assert_eq(context_client_peers(ends.client, &peer, 1), 1);
    cr_assert(peer.is_refused);
    cr_assert(strstr(peer.reason, "transport_secret cannot be decrypted"), "%s", peer.reason);
    ends_close(&ends);
}
