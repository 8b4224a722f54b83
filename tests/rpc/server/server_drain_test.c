/* server: when a drain is over no handler runs, nor will, though calls go on coming. */
#include "base/clock.h"
#include "tests/rpc/support/probe.h"
#include "tests/rpc/support/raw_call.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

TestSuite(server_drain, .timeout = 90);

enum { CALLERS = 4, CALLS_EACH = 20 };

/* Threads that call a server of their own whatever it answers. */
struct callers {
    struct probe *probe;
    struct rpc_channel *channel;
    atomic_uint n_handled, n_ok, n_refused;
    atomic_bool is_over;
};

static void count_call(void *arg, struct rpc_call *call, const ProtobufCMessage *request)
{
    (void)request;
    struct callers *callers = arg;
    Kvferry__Probe__Answer answer = KVFERRY__PROBE__ANSWER__INIT;
    atomic_fetch_add(&callers->n_handled, 1);
    rpc_call_reply(call, &answer.base);
}

static void *call_on(void *arg)
{
    struct callers *callers = arg;
    Kvferry__Probe__Ask ask = KVFERRY__PROBE__ASK__INIT;
    while (!atomic_load(&callers->is_over)) {
        struct rpc_error error;
        struct outcome outcome;
        outcome_init(&outcome);
        struct rpc_request request = probe_request("Echo", &ask.base, &outcome);
        request.on_end = NULL;
        enum status status = rpc_channel_call_wait(callers->channel, &request, &error);
        atomic_fetch_add(status == STATUS_OK ? &callers->n_ok : &callers->n_refused, 1);
        outcome_finish(&outcome);
    }
    return NULL;
}

static void wait_for_count(atomic_uint *count, unsigned n)
{
    uint64_t until_ns = clock_now_ns() + PROBE_WAIT_S * NS_PER_S;
    while (atomic_load(count) < n && clock_now_ns() < until_ns)
        (void)poll(NULL, 0, 2);
    cr_assert_geq(atomic_load(count), n);
}

static struct rpc_server *serve_callers(struct callers *callers)
{
    static const struct rpc_method COUNT = {
        .path = "/kvferry.probe.Probe/Echo",
        .kind = RPC_UNARY,
        .request = &kvferry__probe__ask__descriptor,
        .response = &kvferry__probe__answer__descriptor,
        .handler = count_call,
    };
    struct rpc_service service = {
        .name = "kvferry.probe.Probe", .methods = &COUNT, .n_methods = 1, .arg = callers};
    struct error error;
    struct rpc_server *server;
    char address[64];
    cr_assert_eq(rpc_server_create(callers->probe->server_runtime, "127.0.0.1:0", &service, 1, NULL,
                                   &error, &server),
                 STATUS_OK);
    snprintf(address, sizeof address, "127.0.0.1:%u", rpc_server_port(server));
    cr_assert_eq(rpc_channel_open(callers->probe->client, address, &callers->channel), STATUS_OK);
    return server;
}

Test(server_drain, no_handler_runs_after_a_drain_though_calls_go_on_coming)
{
    struct probe probe;
    pthread_t threads[CALLERS];
    struct callers callers = {.probe = &probe};
    probe_start(&probe, NULL);
    struct rpc_server *server = serve_callers(&callers);
    for (int i = 0; i < CALLERS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, call_on, &callers), 0);
    wait_for_count(&callers.n_ok, CALLERS * CALLS_EACH);
    rpc_server_drain(server, PROBE_WAIT_S * NS_PER_S);
    unsigned n_handled = atomic_load(&callers.n_handled);
    wait_for_count(&callers.n_refused, CALLERS * CALLS_EACH);
    cr_assert_eq(atomic_load(&callers.n_handled), n_handled);
    atomic_store(&callers.is_over, true);
    for (int i = 0; i < CALLERS; i++)
        pthread_join(threads[i], NULL);
    cr_assert_eq(atomic_load(&callers.n_ok), n_handled, "each that was handled was answered");
    rpc_channel_close(callers.channel);
    rpc_server_destroy(server);
    probe_stop(&probe);
}

Test(server_drain, half_a_request_is_refused_and_holds_up_nothing)
{
    struct probe probe;
    struct rpc_server_counts counts = {0};
    probe_start(&probe, NULL);
    const struct raw_call half = {
        .path = "/kvferry.probe.Probe/Echo", .window = 255, .is_half = true};
    int fd = raw_call_start(rpc_server_port(probe.server), &half);
    uint64_t until_ns = clock_now_ns() + PROBE_WAIT_S * NS_PER_S;
    while (counts.calls_accepted == 0 && clock_now_ns() < until_ns) {
        (void)poll(NULL, 0, 2);
        rpc_server_counts(probe.server, &counts);
    }
    cr_assert_eq(counts.calls_accepted, 1);
    cr_expect_eq(counts.calls_live, 0, "it holds no place of a call's");
    rpc_server_drain(probe.server, UINT64_MAX);
    cr_expect(raw_call_await_trailers(fd));
    close(fd);
    probe_stop(&probe);
}

/* Of a method that is answered during a drain: nobody knows whether the rest comes. */
Test(server_drain, half_a_question_for_health_holds_up_nothing)
{
    struct probe probe;
    struct rpc_server_options options;
    struct rpc_server_counts counts = {0};
    rpc_server_options_init(&options);
    /* Nothing else ends it. */
    options.relay.half_open_ns = options.relay.settings_ns = 3600 * NS_PER_S;
    options.keepalive_time_ms = 3600000;
    probe_start(&probe, &options);
    rpc_server_counts(probe.server, &counts);
    const uint64_t n_before = counts.calls_accepted;
    const struct raw_call half = {
        .path = "/grpc.health.v1.Health/Check", .window = 255, .is_half = true};
    int fd = raw_call_start(rpc_server_port(probe.server), &half);
    uint64_t until_ns = clock_now_ns() + PROBE_WAIT_S * NS_PER_S;
    while (counts.calls_accepted == n_before && clock_now_ns() < until_ns) {
        (void)poll(NULL, 0, 2);
        rpc_server_counts(probe.server, &counts);
    }
    cr_assert_eq(counts.calls_accepted, n_before + 1);
    rpc_server_drain(probe.server, UINT64_MAX);
    close(fd);
    probe_stop(&probe);
}
