/* call_counters: a method has its series from the start, what nobody serves makes none, and a server counts
 * every call once. */

#include "rpc/server/call_counters.h"
#include "tests/rpc/support/probe.h"
#include "tests/rpc/support/raw_call.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct call_counters counters;
static struct metrics *metrics;

static void set_up(void)
{
    cr_assert_eq(metrics_create("router", &metrics), STATUS_OK);
    call_counters_init(&counters, metrics);
}

static void has(const char *line)
{
    char *text;
    size_t bytes;
    cr_assert_eq(metrics_text(metrics, &text, &bytes), STATUS_OK);
    cr_expect(strstr(text, line), "no %s in:\n%s", line, text);
    free(text);
}

Test(call_counters, calls_are_counted_by_method_and_code, .init = set_up)
{
    const struct call_method *ask = call_counters_add_method(&counters, "/p.S/Ask");
    cr_expect_eq(call_counters_add_method(&counters, "/p.S/Ask"), ask);
    has("kvferry_calls_total{method=\"p.S/Ask\",code=\"OK\"} 0\n");
    call_counters_count(&counters, ask, STATUS_OK);
    call_counters_count(&counters, ask, STATUS_QUEUE_FULL);
    call_counters_count(&counters, ask, STATUS_NO_MEMORY);
    has("kvferry_calls_total{method=\"p.S/Ask\",code=\"OK\"} 1\n");
    has("kvferry_calls_total{method=\"p.S/Ask\",code=\"RESOURCE_EXHAUSTED\"} 2\n");
    metrics_destroy(metrics);
}

Test(call_counters, what_nobody_serves_is_one_series, .init = set_up)
{
    call_counters_count(&counters, NULL, STATUS_UNIMPLEMENTED);
    call_counters_count(&counters, NULL, STATUS_UNIMPLEMENTED);
    has("kvferry_calls_total{method=\"unknown\",code=\"UNIMPLEMENTED\"} 2\n");
    metrics_destroy(metrics);
}

Test(call_counters, methods_beyond_the_bound_are_counted_as_unknown, .init = set_up)
{
    static char paths[CALL_METHODS_MAX + 1][16];
    const struct call_method *last = NULL;
    for (uint32_t i = 0; i < CALL_METHODS_MAX + 1; i++) {
        snprintf(paths[i], sizeof paths[i], "/p.S/M%u", i);
        last = call_counters_add_method(&counters, paths[i]);
    }
    call_counters_count(&counters, last, STATUS_OK);
    has("kvferry_calls_total{method=\"unknown\",code=\"OK\"} 1\n");
    metrics_destroy(metrics);
}

static uint64_t n_calls(const char *path, int code)
{
    return counter_value(call_counters_add_method(&counters, path)->of[code]);
}

Test(call_counters, a_server_counts_each_call_once_however_it_ended, .init = set_up, .timeout = 120)
{
    struct probe probe;
    struct outcome held, unknown;
    struct rpc_server_options options;
    struct rpc_error error;
    Kvferry__Probe__Ask ask = KVFERRY__PROBE__ASK__INIT;
    rpc_server_options_init(&options);
    options.call_counters = &counters;
    probe_start(&probe, &options);
    cr_assert_eq(probe_echo(&probe, "a", &error), STATUS_OK, "%s", error.message);

    outcome_init(&held);
    struct rpc_request request = probe_request("Hold", &ask.base, &held);
    struct rpc_client_call *call;
    cr_assert_eq(rpc_channel_start(probe.channel, &request, &call), STATUS_OK);
    probe_wait_held(&probe, 1);
    rpc_client_call_cancel(call);
    rpc_client_call_release(call);
    outcome_wait_end(&held);
    probe_wait_ends(&probe, 1);
    probe_release_held(&probe);

    outcome_init(&unknown);
    request = probe_request("Echo", &ask.base, &unknown);
    request.path = "/kvferry.probe.Probe/Nothing";
    request.on_end = NULL;
    cr_assert_eq(rpc_channel_call_wait(probe.channel, &request, &error), STATUS_UNIMPLEMENTED);
    probe_stop(&probe); /* every call is over */

    cr_expect_eq(n_calls("/kvferry.probe.Probe/Echo", 0), 1);
    cr_expect_eq(n_calls("/kvferry.probe.Probe/Hold", 1), 1);
    cr_expect_eq(n_calls("/kvferry.probe.Probe/Hold", 0), 0);
    cr_expect_eq(counter_value(counters.methods[0].of[12]), 1);
    outcome_finish(&held);
    outcome_finish(&unknown);
    metrics_destroy(metrics);
}

#define ECHO "/kvferry.probe.Probe/Echo"

static void wait_accepted(struct probe *probe, uint64_t n)
{
    struct rpc_server_counts counts;
    uint64_t until_ns = probe_in_ms(PROBE_WAIT_S * 1000);
    while (rpc_server_counts(probe->server, &counts), counts.calls_accepted < n) {
        cr_assert_lt(clock_now_ns(), until_ns);
        (void)poll(NULL, 0, 1);
    }
}

/* By CANCELLED and by INVALID_ARGUMENT. */
static void wait_counted(uint64_t n_cancelled, uint64_t n_invalid)
{
    uint64_t until_ns = probe_in_ms(PROBE_WAIT_S * 1000);
    while (n_calls(ECHO, 1) + n_calls(ECHO, 3) < n_cancelled + n_invalid) {
        cr_assert_lt(clock_now_ns(), until_ns);
        (void)poll(NULL, 0, 1);
    }
    cr_expect_eq(n_calls(ECHO, 1), n_cancelled);
    cr_expect_eq(n_calls(ECHO, 3), n_invalid);
}

Test(call_counters, who_leaves_before_his_message_is_whole_has_cancelled, .init = set_up,
     .timeout = 120)
{
    static const uint8_t MESSAGE[64] = {0};
    struct probe probe;
    struct rpc_server_options options;
    rpc_server_options_init(&options);
    options.call_counters = &counters;
    probe_start(&probe, &options);
    const struct raw_call cut = {.path = ECHO,
                                 .window = 255,
                                 .message = MESSAGE,
                                 .message_bytes = sizeof MESSAGE,
                                 .is_cut = true};
    const struct raw_call half = {.path = ECHO, .window = 255, .is_half = true};
    const struct raw_call none = {.path = ECHO, .window = 255, .lacks_message = true};
    uint16_t port = rpc_server_port(probe.server);

    int fd = raw_call_start(port, &cut);
    wait_accepted(&probe, 1);
    raw_call_cancel(fd);
    wait_counted(1, 0);
    close(fd);
    fd = raw_call_start(port, &half);
    wait_accepted(&probe, 2);
    close(fd);
    wait_counted(2, 0);
    fd = raw_call_start(port, &none);
    cr_expect(raw_call_await_trailers(fd));
    wait_counted(2, 1);
    close(fd);
    probe_stop(&probe);
    metrics_destroy(metrics);
}
