/* context_client: when the first event of a prefill comes from an old incarnation, because the worker was described again
 * meanwhile, the prefill is repeated once with the new incarnation. A refused worker is reported as refused and described again
 * until it is compatible or gone. An incarnation that describes itself in another way than before is not trusted any more. */
#include "gen_worker/context_client.h"
#include "rpc/server/server.h"
#include "tests/gen_worker/support/gen_rig.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define LIMIT_NS (20 * NS_PER_S)

enum { CALLS_MAX = 8, OLD_LIFE = RIG_OWNER - 1, NEW_LIFE = RIG_OWNER, STEP_NS = 7777 };

/* ---- a context worker that describes itself and keeps its prefills ---- */

struct kept {
    struct rpc_call *call;
    char request_id[16];
    uint64_t callee;
    bool knows_its_reader; /* the request says that it takes backlogs, and the time of a step */
};

struct fake_worker {
    pthread_mutex_t mutex;
    struct worker_identity identity;
    struct kept kept[CALLS_MAX];
    uint32_t n_kept;
};

static void describe(void *arg, struct rpc_call *call, const ProtobufCMessage *request)
{
    static const struct identity_way way = {.sender = IDENTITY_CALLEE};
    struct fake_worker *worker = arg;
    struct identity_message callee;
    Kvferry__Internal__V1__DescribeResponse response =
        KVFERRY__INTERNAL__V1__DESCRIBE_RESPONSE__INIT;
    (void)request;
    pthread_mutex_lock(&worker->mutex);
    cr_assert_eq(identity_encode(&worker->identity, &way, &callee, NULL), STATUS_OK);
    response.callee = &callee.message;
    rpc_call_reply(call, &response.base);
    pthread_mutex_unlock(&worker->mutex);
}

static void prefill(void *arg, struct rpc_call *call, const ProtobufCMessage *message)
{
    struct fake_worker *worker = arg;
    const Kvferry__Internal__V1__PrefillRequest
        *request = (const Kvferry__Internal__V1__PrefillRequest *)message;
    pthread_mutex_lock(&worker->mutex);
    if (request->callee_incarnation != worker->identity.address.incarnation) {
        rpc_call_fail_status(call, STATUS_STALE_PEER, "another life");
    } else if (worker->n_kept < CALLS_MAX) {
        struct kept *kept = &worker->kept[worker->n_kept++];
        kept->call = rpc_call_share(call);
        kept->callee = request->callee_incarnation;
        kept->knows_its_reader = request->takes_backlog && request->step_ns == STEP_NS;
        snprintf(kept->request_id, sizeof kept->request_id, "%s", request->request_id);
    }
    pthread_mutex_unlock(&worker->mutex);
}

static const struct rpc_method METHODS[] = {
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

/* The n-th prefill that it keeps. */
static struct kept *wait_kept(struct fake_worker *worker, uint32_t n, const char *request_id)
{
    uint64_t until_ns = clock_now_ns() + LIMIT_NS;
    bool came = false;
    while (!came) {
        pthread_mutex_lock(&worker->mutex);
        came = worker->n_kept >= n;
        pthread_mutex_unlock(&worker->mutex);
        cr_assert_lt(clock_now_ns(), until_ns, "prefill %u does not come", n);
        (void)poll(NULL, 0, 1);
    }
    struct kept *kept = &worker->kept[n - 1];
    cr_assert_str_eq(kept->request_id, request_id);
    return kept;
}

static void live_anew(struct fake_worker *worker)
{
    pthread_mutex_lock(&worker->mutex);
    worker->identity.address.incarnation = NEW_LIFE;
    pthread_mutex_unlock(&worker->mutex);
}

static void have_block_tokens(struct fake_worker *worker, uint32_t block_tokens)
{
    pthread_mutex_lock(&worker->mutex);
    worker->identity.geometry.block_tokens = block_tokens;
    pthread_mutex_unlock(&worker->mutex);
}

static void describe_otherwise(struct fake_worker *worker)
{
    pthread_mutex_lock(&worker->mutex);
    worker->identity.geometry.n_layers++;
    pthread_mutex_unlock(&worker->mutex);
}

static void send_accepted(const struct kept *kept)
{
    Kvferry__Internal__V1__PrefillResponse response = KVFERRY__INTERNAL__V1__PREFILL_RESPONSE__INIT;
    Kvferry__Internal__V1__PrefillAccepted accepted = KVFERRY__INTERNAL__V1__PREFILL_ACCEPTED__INIT;
    accepted.n_blocks = 3;
    accepted.block_tokens = RIG_BLOCK_TOKENS;
    response.event_case = KVFERRY__INTERNAL__V1__PREFILL_RESPONSE__EVENT_ACCEPTED;
    response.accepted = &accepted;
    cr_assert_eq(rpc_call_send(kept->call, &response.base), STATUS_OK);
}

/* ---- both ends and the engine between them ---- */

struct ends {
    struct gen_rig rig;
    struct fake_worker worker;
    struct worker_identity identity; /* the client's own */
    struct rpc_runtime *server_runtime, *client_runtime;
    struct rpc_server *server;
    struct rpc_client *rpc;
    struct context_client *client;
    char address[32];
    char allow[8]; /* numerics */
};

static struct worker_identity identity_of(const char *name, const struct transport *transport)
{
    struct worker_identity identity = {
        .transport = "sim",
        .ucx_version = "0",
        .revision = 1,
        .geometry = {.n_layers = 2, .n_kv_heads = 1, .head_dim = 8, .block_tokens = 8}};
    snprintf(identity.name, sizeof identity.name, "%s", name);
    transport->ops->address(transport, &identity.address);
    return identity;
}

static void ends_open(struct ends *ends)
{
    const struct gen_rig_options engine = {.n_blocks = 32,
                                           .sequences_max = 2,
                                           .queue_max = 4,
                                           .prefills_max = 4,
                                           .no_local_prefill = true};
    struct error error = {""};
    *ends = (struct ends){.allow = "equal"};
    gen_rig_open(&ends->rig, engine);
    pthread_mutex_init(&ends->worker.mutex, NULL);
    ends->identity = identity_of("reader", ends->rig.transport);
    ends->worker.identity = identity_of("owner", ends->rig.owner_transport);
    ends->worker.identity.address.incarnation = OLD_LIFE;
    const struct rpc_service service = {.name = "kvferry.internal.v1.ContextWorkerService",
                                        .methods = METHODS,
                                        .n_methods = 2,
                                        .arg = &ends->worker};
    cr_assert_eq(rpc_runtime_create("server", NULL, &ends->server_runtime), STATUS_OK);
    cr_assert_eq(rpc_runtime_create("client", NULL, &ends->client_runtime), STATUS_OK);
    cr_assert_eq(rpc_server_create(ends->server_runtime, "127.0.0.1:0", &service, 1, NULL, &error,
                                   &ends->server),
                 STATUS_OK, "%s", error.text);
    snprintf(ends->address, sizeof ends->address, "127.0.0.1:%u", rpc_server_port(ends->server));
    cr_assert_eq(rpc_client_create(ends->client_runtime, NULL, &ends->rpc), STATUS_OK);
    const struct context_client_options options = {.rpc = ends->rpc,
                                                   .identity = &ends->identity,
                                                   .allowed = {ends->allow, false},
                                                   .peers_max = 2,
                                                   .prefills_max = 4,
                                                   .describe_limit_ns = LIMIT_NS,
                                                   .commit_limit_ns = LIMIT_NS};
    cr_assert_eq(context_client_create(&options, &ends->client), STATUS_OK);
    context_client_set_engine(ends->client, ends->rig.engine);
}

static void ends_close(struct ends *ends)
{
    for (uint32_t i = 0; i < ends->worker.n_kept; i++)
        rpc_call_release(ends->worker.kept[i].call);
    context_client_close(ends->client);
    rpc_client_destroy(ends->rpc);
    context_client_destroy(ends->client);
    rpc_server_destroy(ends->server);
    rpc_runtime_destroy(ends->client_runtime);
    rpc_runtime_destroy(ends->server_runtime);
    gen_rig_close(&ends->rig);
    pthread_mutex_destroy(&ends->worker.mutex);
}

/* A request to the engine, which passes its prefill to the client. */
static void ask(struct ends *ends, struct rig_client *client, const char *name)
{
    static const uint32_t tokens[20] = {3};
    const struct sampling_params sampling = gen_rig_sampling(2);
    gen_rig_ask(&ends->rig, client, name, 20, 2);
    const struct gen_prefill_request request = {.input = {.request_id = name,
                                                          .token_ids = tokens,
                                                          .n_tokens = 20,
                                                          .sampling = &sampling,
                                                          .deadline_ns = DEADLINE_NONE},
                                                .transfer_id = ends->rig.transfer,
                                                .step_ns = STEP_NS};
    context_client_start_prefill(ends->client, ends->rig.prefill, ends->address, &request);
}

static void wait_finished(struct ends *ends, const struct rig_client *client)
{
    uint64_t until_ns = clock_now_ns() + LIMIT_NS;
    while (client->n_finishes == 0) {
        gen_rig_settle(&ends->rig);
        cr_assert_lt(clock_now_ns(), until_ns, "the request does not end");
        (void)poll(NULL, 0, 1);
    }
}

Test(context_client, an_event_of_a_life_that_is_over_repeats_the_prefill_with_a_clean_slate)
{
    static struct ends ends;
    struct rig_client first = {0}, second = {0};
    ends_open(&ends);
    ask(&ends, &first, "first");
    struct kept *old = wait_kept(&ends.worker, 1, "first");
    cr_assert_eq(old->callee, OLD_LIFE);

    live_anew(&ends.worker); /* the second is refused as stale, so the worker is described again */
    ask(&ends, &second, "second");
    struct kept *of_second = wait_kept(&ends.worker, 2, "second");
    cr_assert_eq(of_second->callee, NEW_LIFE);

    send_accepted(old); /* from an incarnation that the client knows to have ended */
    struct kept *repeated = wait_kept(&ends.worker, 3, "first");
    cr_assert_eq(repeated->callee, NEW_LIFE);
    send_accepted(repeated);
    rpc_call_fail_status(repeated->call, STATUS_DRAINING, "the new life leaves");
    rpc_call_fail_status(of_second->call, STATUS_DRAINING, "the new life leaves");

    /* The new incarnation ends it, not the loss before. */
    wait_finished(&ends, &first);
    wait_finished(&ends, &second);
    cr_assert_eq(first.finish.status, STATUS_DRAINING, "%s", status_name(first.finish.status));
    cr_assert_eq(second.finish.status, STATUS_DRAINING, "%s", status_name(second.finish.status));
    cr_assert_eq(ends.worker.n_kept, 3);
    cr_assert(of_second->knows_its_reader && repeated->knows_its_reader);
    ends_close(&ends);
}

/* A prompt whose blocks come from NEW_LIFE and stay cached. */
static void bring_blocks(struct ends *ends)
{
    struct rig_client client = {0};
    gen_rig_ask(&ends->rig, &client, "brought", 20, 2);
    gen_rig_hand_over(&ends->rig, 9);
    gen_engine_commit_result(ends->rig.engine, ends->rig.prefill, STATUS_OK, "");
    wait_finished(ends, &client);
    cr_assert_eq(gen_rig_blocks(&ends->rig, BLOCK_CACHED), 2);
}

Test(context_client, a_life_that_describes_itself_otherwise_takes_its_blocks_with_it)
{
    for (int is_same_life = 0; is_same_life < 2; is_same_life++) {
        static struct ends ends;
        struct rig_client first = {0}, second = {0};
        ends_open(&ends);
        bring_blocks(&ends);
        if (is_same_life)
            live_anew(&ends.worker); /* NEW_LIFE from its first description on */
        ask(&ends, &first, "first");
        struct kept *kept = wait_kept(&ends.worker, 1, "first");
        rpc_call_fail_status(kept->call, STATUS_PEER_LOST, "the link is gone for a moment");
        wait_finished(&ends, &first);

        describe_otherwise(&ends.worker);
        live_anew(&ends.worker);
        ask(&ends, &second, "second");
        wait_finished(&ends, &second);
        cr_assert_eq(second.finish.status, STATUS_TRANSFER_FAILED);
        cr_assert_eq(gen_rig_blocks(&ends.rig, BLOCK_CACHED), is_same_life ? 0 : 2);
        ends_close(&ends);
    }
}

static struct process_peer only_peer(struct ends *ends)
{
    struct process_peer peers[4];
    memset(peers, 0, sizeof peers);
    cr_assert_eq(context_client_peers(ends->client, peers, 4), 1);
    cr_assert_str_eq(peers[0].address, ends->address);
    return peers[0];
}

/* Describes refused workers again until the report about the peer changes. */
static struct process_peer look_until_changed(struct ends *ends)
{
    uint64_t until_ns = clock_now_ns() + LIMIT_NS;
    struct process_peer peer = only_peer(ends);
    const bool was_refused = peer.is_refused;
    while (peer.is_refused == was_refused) {
        cr_assert_lt(clock_now_ns(), until_ns, "nothing changes: %s", peer.reason);
        context_client_look(ends->client, UINT64_MAX);
        (void)poll(NULL, 0, 1);
        peer = only_peer(ends);
    }
    return peer;
}

Test(context_client, a_refused_worker_is_said_to_be_and_asked_again_until_it_fits)
{
    static struct ends ends;
    struct rig_client client = {0};
    ends_open(&ends);
    have_block_tokens(&ends.worker, 16);
    ask(&ends, &client, "first");
    wait_finished(&ends, &client);
    struct process_peer peer = only_peer(&ends);
    cr_assert(peer.is_refused && !peer.is_ready);
    cr_assert(strstr(peer.reason, "block_tokens is 8 here and 16 there"), "%s", peer.reason);
    context_client_look(ends.client, 0);
    cr_assert(only_peer(&ends).is_refused, "not before its time");

    have_block_tokens(&ends.worker, 8);
    peer = look_until_changed(&ends);
    cr_assert(peer.is_ready);
    cr_assert_str_empty(peer.reason);
    ends_close(&ends);
}

Test(context_client, a_worker_that_is_gone_is_not_called_refused)
{
    static struct ends ends;
    struct rig_client client = {0};
    ends_open(&ends);
    have_block_tokens(&ends.worker, 16);
    ask(&ends, &client, "first");
    wait_finished(&ends, &client);
    rpc_server_destroy(ends.server);
    ends.server = NULL;
    struct process_peer peer = look_until_changed(&ends);
    cr_assert(!peer.is_ready && !peer.is_refused);
    cr_assert_str_not_empty(peer.reason);
    ends_close(&ends);
}

Test(context_client, a_worker_of_other_numerics_is_refused_until_that_is_allowed)
{
    static struct ends ends;
    struct rig_client client = {0};
    ends_open(&ends);
    snprintf(ends.identity.geometry.numerics, NUMERICS_ID_MAX, "cpu-f32-fma-fma-compute-asis-1");
    pthread_mutex_lock(&ends.worker.mutex);
    snprintf(ends.worker.identity.geometry.numerics, NUMERICS_ID_MAX,
             "cpu-f32-fma-amx-bf16-asis-1");
    pthread_mutex_unlock(&ends.worker.mutex);
    ask(&ends, &client, "first");
    wait_finished(&ends, &client);
    struct process_peer peer = only_peer(&ends);
    cr_assert(peer.is_refused && !peer.is_ready);
    cr_assert(strstr(peer.reason, "numerics is cpu-f32-fma-fma-compute-asis-1 here and "
                                  "cpu-f32-fma-amx-bf16-asis-1 there; allow_numerics is equal"),
              "%s", peer.reason);
    snprintf(ends.allow, sizeof ends.allow, "any");
    cr_assert(look_until_changed(&ends).is_ready);
    ends_close(&ends);
}
