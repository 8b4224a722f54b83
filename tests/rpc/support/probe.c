/* probe - see probe.h. */
#include "probe.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void note_end(void *arg, enum status why)
{
    struct probe *probe = arg;
    pthread_mutex_lock(&probe->lock);
    probe->n_ends++;
    probe->last_end = why;
    pthread_cond_broadcast(&probe->changed);
    pthread_mutex_unlock(&probe->lock);
}

static void note_call(struct probe *probe, struct rpc_call *call)
{
    pthread_mutex_lock(&probe->lock);
    struct seen_call *last = &probe->last;
    last->deadline_ns = rpc_call_deadline_ns(call);
    snprintf(last->request_id, sizeof last->request_id, "%s", rpc_call_request_id(call));
    rpc_call_origin(call, &last->origin);
    rpc_call_peer(call, last->peer, sizeof last->peer);
    struct rpc_peer peer;
    rpc_call_peer_of(call, &peer);
    snprintf(last->identity, sizeof last->identity, "%s", peer.identity);
    pthread_mutex_unlock(&probe->lock);
}

static void echo(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
    const Kvferry__Probe__Ask *ask = (const Kvferry__Probe__Ask *)message;
    note_call(service, call);
    Kvferry__Probe__Answer answer = KVFERRY__PROBE__ANSWER__INIT;
    answer.text = ask->text;
    answer.n_tokens = (uint32_t)ask->n_tokens;
    answer.payload = ask->blob;
    rpc_call_reply(call, &answer.base);
}

static void fail(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
    (void)message;
    struct probe *probe = service;
    pthread_mutex_lock(&probe->lock);
    struct rpc_error error = probe->fail_with;
    pthread_mutex_unlock(&probe->lock);
    rpc_call_fail(call, &error);
}

static void forget(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
    (void)service;
    (void)call;
    (void)message;
}

static void keep(struct probe *probe, struct rpc_call *call)
{
    note_call(probe, call);
    rpc_call_on_end(call, note_end, probe);
    pthread_mutex_lock(&probe->lock);
    if (!probe->is_stopping) {
        cr_assert_lt(probe->n_held, PROBE_CALLS_MAX);
        probe->held[probe->n_held++] = rpc_call_share(call);
    }
    pthread_cond_broadcast(&probe->changed);
    pthread_mutex_unlock(&probe->lock);
}

static void hold(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
    (void)message;
    keep(service, call);
}

static enum status send_one(struct rpc_call *call, uint32_t index, uint32_t size)
{
    static const uint8_t zeros[4 << 20];
    Kvferry__Probe__Answer answer = KVFERRY__PROBE__ANSWER__INIT;
    answer.index = index;
    answer.payload.data = (uint8_t *)zeros;
    answer.payload.len = size;
    cr_assert_leq(size, sizeof zeros);
    return rpc_call_send(call, &answer.base);
}

static void hold_stream(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
    const Kvferry__Probe__Ask *ask = (const Kvferry__Probe__Ask *)message;
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < ask->count && status == STATUS_OK; i++)
        status = send_one(call, i, ask->size);
    keep(service, call);
}

struct count_job {
    struct rpc_call *call;
    uint32_t count;
    uint32_t size;
};

/* The engine's part: another thread than the queue's sends, and finishes. */
static void *count_from_thread(void *arg)
{
    struct count_job *job = arg;
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < job->count && status == STATUS_OK; i++)
        status = send_one(job->call, i, job->size);
    if (status == STATUS_OK)
        rpc_call_finish(job->call);
    rpc_call_release(job->call);
    free(job);
    return NULL;
}

static void count(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
    const Kvferry__Probe__Ask *ask = (const Kvferry__Probe__Ask *)message;
    rpc_call_on_end(call, note_end, service);
    struct count_job *job = calloc(1, sizeof *job);
    *job = (struct count_job){rpc_call_share(call), ask->count, ask->size};
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, count_from_thread, job), 0);
    pthread_detach(thread);
}

static void flood(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
    struct probe *probe = service;
    const Kvferry__Probe__Ask *ask = (const Kvferry__Probe__Ask *)message;
    rpc_call_on_end(call, note_end, probe);
    enum status status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK; i++)
        status = send_one(call, i, ask->size);
    pthread_mutex_lock(&probe->lock);
    probe->flood_end = status;
    pthread_mutex_unlock(&probe->lock);
}

/* Sends the next message when the one before has left. */
struct pull_job {
    struct probe *probe;
    struct rpc_call *call;
    uint32_t sent, count, size;
};

static void pull_next(void *arg)
{
    struct pull_job *job = arg;
    uint32_t index = job->sent;
    if (index == job->count)
        return;
    job->sent++;
    if (send_one(job->call, index, job->size) == STATUS_OK && index + 1 == job->count)
        rpc_call_finish(job->call);
}

static void pull_end(void *arg, enum status why)
{
    struct pull_job *job = arg;
    struct probe *probe = job->probe;
    rpc_call_release(job->call);
    free(job);
    note_end(probe, why);
}

static void pull(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
    const Kvferry__Probe__Ask *ask = (const Kvferry__Probe__Ask *)message;
    struct pull_job *job = calloc(1, sizeof *job);
    *job = (struct pull_job){service, rpc_call_share(call), 0, ask->count, ask->size};
    rpc_call_on_end(call, pull_end, job);
    rpc_call_on_quiet(call, pull_next, job);
    pull_next(job);
}

#define ROW(method, of_kind, function)                                                             \
    {                                                                                              \
        .path = "/kvferry.probe.Probe/" method, .kind = of_kind,                                   \
        .request = &kvferry__probe__ask__descriptor,                                               \
        .response = &kvferry__probe__answer__descriptor, .request_bytes_max = 1 << 20,             \
        .elements_max = 10000, .roles = TLS_ROLE_BIT(GENERATION), .handler = function              \
    }

const struct rpc_method PROBE_METHODS[] = {
    ROW("Echo", RPC_UNARY, echo),           ROW("Fail", RPC_UNARY, fail),
    ROW("Forget", RPC_UNARY, forget),       ROW("Hold", RPC_UNARY, hold),
    ROW("Count", RPC_SERVER_STREAM, count), ROW("HoldStream", RPC_SERVER_STREAM, hold_stream),
    ROW("Flood", RPC_SERVER_STREAM, flood), ROW("Pull", RPC_SERVER_STREAM, pull),
};
const size_t PROBE_N_METHODS = sizeof PROBE_METHODS / sizeof *PROBE_METHODS;

struct rpc_service probe_service(struct probe *probe)
{
    return (struct rpc_service){.name = "kvferry.probe.Probe",
                                .methods = PROBE_METHODS,
                                .n_methods = PROBE_N_METHODS,
                                .arg = probe,
                                .is_inner = probe->auth != NULL};
}

static void start_client(struct probe *probe, const char *address,
                         const struct rpc_client_options *options)
{
    snprintf(probe->address, sizeof probe->address, "%s", address);
    cr_assert_eq(rpc_runtime_create("client", NULL, &probe->client_runtime), STATUS_OK);
    cr_assert_eq(rpc_client_create(probe->client_runtime, options, &probe->client), STATUS_OK);
    cr_assert_eq(rpc_channel_open(probe->client, address, &probe->channel), STATUS_OK);
}

void probe_start_client(struct probe *probe, const char *address)
{
    start_client(probe, address, NULL);
}

static void start_server(struct probe *probe, const struct rpc_server_options *options)
{
    pthread_mutex_init(&probe->lock, NULL);
    pthread_cond_init(&probe->changed, NULL);
    cr_assert_eq(rpc_runtime_create("server", NULL, &probe->server_runtime), STATUS_OK);
    cr_assert_eq(rpc_health_create(&probe->health), STATUS_OK);
    rpc_health_set(probe->health, "", true);

    struct rpc_server_options used;
    rpc_server_options_init(&used);
    if (options)
        used = *options;
    used.health = probe->health;
    used.reflection = true;
    struct rpc_service services[] = {probe_service(probe), rpc_health_service(probe->health)};
    struct error error;
    enum status status = rpc_server_create(probe->server_runtime, "127.0.0.1:0", services, 2, &used,
                                           &error, &probe->server);
    cr_assert_eq(status, STATUS_OK);
    snprintf(probe->address, sizeof probe->address, "127.0.0.1:%u", rpc_server_port(probe->server));
}

void probe_start(struct probe *probe, const struct rpc_server_options *options)
{
    char address[sizeof probe->address];
    memset(probe, 0, sizeof *probe);
    start_server(probe, options);
    memcpy(address, probe->address, sizeof address);
    start_client(probe, address, NULL);
}

void probe_start_inner(struct probe *probe, struct call_auth *auth, struct cluster_key *key)
{
    struct rpc_server_options options;
    char address[sizeof probe->address];
    rpc_server_options_init(&options);
    options.auth = auth;
    memset(probe, 0, sizeof *probe);
    probe->auth = auth;
    start_server(probe, &options);
    memcpy(address, probe->address, sizeof address);
    struct rpc_client_options client;
    rpc_client_options_init(&client);
    client.key = key;
    start_client(probe, address, &client);
}

void probe_start_secure(struct probe *probe, const struct rpc_server_options *server,
                        const struct rpc_client_options *client)
{
    char address[sizeof probe->address];
    memset(probe, 0, sizeof *probe);
    probe->auth = server->auth;
    start_server(probe, server);
    memcpy(address, probe->address, sizeof address);
    start_client(probe, address, client);
}

void probe_stop(struct probe *probe)
{
    rpc_channel_close(probe->channel);
    rpc_client_destroy(probe->client);
    rpc_runtime_destroy(probe->client_runtime);
    if (!probe->server_runtime)
        return;
    /* A call may still come out of the queue after its client has left: nobody would release it. */
    pthread_mutex_lock(&probe->lock);
    probe->is_stopping = true;
    pthread_mutex_unlock(&probe->lock);
    probe_release_held(probe);
    rpc_server_destroy(probe->server);
    rpc_health_destroy(probe->health);
    rpc_runtime_destroy(probe->server_runtime);
    pthread_cond_destroy(&probe->changed);
    pthread_mutex_destroy(&probe->lock);
}

void probe_stop_open(struct probe *probe, struct outcome *outcome)
{
    rpc_server_drain(probe->server, 0);
    outcome_wait_end(outcome);
    cr_assert_eq(outcome->error.status, STATUS_DRAINING);
    outcome_finish(outcome);
    probe_stop(probe);
}

/* With the lock held; fails the test when the bound is reached. */
static void wait_change(pthread_cond_t *changed, pthread_mutex_t *lock)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PROBE_WAIT_S;
    cr_assert_neq(pthread_cond_timedwait(changed, lock, &until), ETIMEDOUT);
}

void probe_wait_held(struct probe *probe, uint32_t n)
{
    pthread_mutex_lock(&probe->lock);
    while (probe->n_held < n)
        wait_change(&probe->changed, &probe->lock);
    pthread_mutex_unlock(&probe->lock);
}

void probe_wait_ends(struct probe *probe, uint32_t n)
{
    pthread_mutex_lock(&probe->lock);
    while (probe->n_ends < n)
        wait_change(&probe->changed, &probe->lock);
    pthread_mutex_unlock(&probe->lock);
}

#define PUSH_LOOK_MS 20

void probe_push_until_end(struct probe *probe, uint32_t first_index, uint32_t size)
{
    uint64_t bound_ns = probe_in_ms(PROBE_WAIT_S * 1000);
    for (uint32_t index = first_index; clock_now_ns() < bound_ns;) {
        struct rpc_server_counts counts;
        rpc_server_counts(probe->server, &counts);
        if (counts.buffered_bytes < 2 * size)
            (void)!send_one(probe->held[0], index++, size);

        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += PUSH_LOOK_MS * 1000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_mutex_lock(&probe->lock);
        if (probe->n_ends == 0)
            pthread_cond_timedwait(&probe->changed, &probe->lock, &until);
        bool is_over = probe->n_ends > 0;
        pthread_mutex_unlock(&probe->lock);
        if (is_over)
            return;
    }
    cr_assert_fail("the reader was never cut off");
}

struct seen_call probe_last_call(struct probe *probe)
{
    pthread_mutex_lock(&probe->lock);
    struct seen_call last = probe->last;
    pthread_mutex_unlock(&probe->lock);
    return last;
}

void probe_release_held(struct probe *probe)
{
    pthread_mutex_lock(&probe->lock);
    uint32_t n = probe->n_held;
    probe->n_held = 0;
    pthread_mutex_unlock(&probe->lock);
    for (uint32_t i = 0; i < n; i++)
        rpc_call_release(probe->held[i]);
}

void outcome_init(struct outcome *outcome)
{
    memset(outcome, 0, sizeof *outcome);
    outcome->is_in_order = true;
    pthread_mutex_init(&outcome->lock, NULL);
    pthread_cond_init(&outcome->changed, NULL);
}

void outcome_finish(struct outcome *outcome)
{
    pthread_cond_destroy(&outcome->changed);
    pthread_mutex_destroy(&outcome->lock);
}

static void on_message(void *arg, const ProtobufCMessage *message)
{
    struct outcome *outcome = arg;
    const Kvferry__Probe__Answer *answer = (const Kvferry__Probe__Answer *)message;
    pthread_mutex_lock(&outcome->lock);
    outcome->is_in_order = outcome->is_in_order && answer->index == outcome->n_messages;
    outcome->n_messages++;
    outcome->n_bytes += answer->payload.len;
    outcome->last_n_tokens = answer->n_tokens;
    snprintf(outcome->last_text, sizeof outcome->last_text, "%s", answer->text);
    pthread_cond_broadcast(&outcome->changed);
    while (outcome->is_stuck)
        wait_change(&outcome->changed, &outcome->lock);
    pthread_mutex_unlock(&outcome->lock);
}

static void on_end(void *arg, const struct rpc_error *error)
{
    struct outcome *outcome = arg;
    pthread_mutex_lock(&outcome->lock);
    outcome->n_ends++;
    outcome->error = *error;
    pthread_cond_broadcast(&outcome->changed);
    pthread_mutex_unlock(&outcome->lock);
}

void outcome_wait_messages(struct outcome *outcome, uint64_t n)
{
    pthread_mutex_lock(&outcome->lock);
    while (outcome->n_messages < n)
        wait_change(&outcome->changed, &outcome->lock);
    pthread_mutex_unlock(&outcome->lock);
}

void outcome_wait_end(struct outcome *outcome)
{
    pthread_mutex_lock(&outcome->lock);
    while (outcome->n_ends == 0)
        wait_change(&outcome->changed, &outcome->lock);
    pthread_mutex_unlock(&outcome->lock);
}

void outcome_unstick(struct outcome *outcome)
{
    pthread_mutex_lock(&outcome->lock);
    outcome->is_stuck = false;
    pthread_cond_broadcast(&outcome->changed);
    pthread_mutex_unlock(&outcome->lock);
}

struct rpc_request probe_request(const char *method, const ProtobufCMessage *ask,
                                 struct outcome *outcome)
{
    struct rpc_request request = {
        .message = ask,
        .response = &kvferry__probe__answer__descriptor,
        .deadline_ns = DEADLINE_NONE,
        .wait_for_ready = true,
        .on_message = on_message,
        .on_end = on_end,
        .arg = outcome,
    };
    for (size_t i = 0; i < PROBE_N_METHODS; i++) {
        if (strcmp(strrchr(PROBE_METHODS[i].path, '/') + 1, method) != 0)
            continue;
        request.path = PROBE_METHODS[i].path;
        request.is_stream = PROBE_METHODS[i].kind == RPC_SERVER_STREAM;
    }
    cr_assert_not_null(request.path);
    return request;
}

enum status probe_echo(struct probe *probe, const char *text, struct rpc_error *error_out)
{
    struct outcome outcome;
    outcome_init(&outcome);
    Kvferry__Probe__Ask ask = KVFERRY__PROBE__ASK__INIT;
    ask.text = (char *)text;
    struct rpc_request request = probe_request("Echo", &ask.base, &outcome);
    request.on_end = NULL;
    request.deadline_ns = probe_in_ms(PROBE_WAIT_S * 1000);
    enum status status = rpc_channel_call_wait(probe->channel, &request, error_out);
    if (status == STATUS_OK)
        cr_assert_str_eq(outcome.last_text, text);
    outcome_finish(&outcome);
    return status;
}

uint64_t probe_in_ms(uint64_t ms)
{
    return clock_now_ns() + ms * NS_PER_MS;
}
