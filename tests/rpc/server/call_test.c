/* call: every call ends exactly once on both sides, with the same reason, however it ends. */
#include "base/random.h"
#include "tests/rpc/support/probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(call, .timeout = 60);

static void expect(struct probe *probe, const struct outcome *outcome, enum status client,
                   enum status server)
{
    cr_assert_eq(outcome->n_ends, 1);
    cr_assert_eq(outcome->error.status, client, "client: %s (%s)",
                 status_name(outcome->error.status), outcome->error.message);
    probe_wait_ends(probe, 1);
    pthread_mutex_lock(&probe->lock); /* a later call may end meanwhile */
    const uint32_t n_ends = probe->n_ends;
    const enum status last_end = probe->last_end;
    pthread_mutex_unlock(&probe->lock);
    cr_assert_eq(n_ends, 1);
    cr_assert_eq(last_end, server, "server: %s", status_name(last_end));
}

static struct rpc_client_call *begin(struct probe *probe, const char *method, uint32_t count,
                                     uint32_t size, uint64_t deadline_ns, struct outcome *outcome)
{
    Kvferry__Probe__Ask ask = KVFERRY__PROBE__ASK__INIT;
    ask.count = count;
    ask.size = size;
    struct rpc_request request = probe_request(method, &ask.base, outcome);
    request.deadline_ns = deadline_ns;
    struct rpc_client_call *call;
    cr_assert_eq(rpc_channel_start(probe->channel, &request, &call), STATUS_OK);
    return call;
}

Test(call, unary_answers)
{
    struct probe probe;
    struct rpc_error error;
    probe_start(&probe, NULL);
    cr_assert_eq(probe_echo(&probe, "In the beginning", &error), STATUS_OK, "%s", error.message);
    cr_assert_eq(probe_echo(&probe, "", &error), STATUS_OK);
    struct seen_call seen = probe_last_call(&probe);
    cr_assert_eq(strncmp(seen.peer, "ipv4:127.0.0.1:", 15), 0);
    probe_stop(&probe);
}

Test(call, headers_and_deadline_reach_the_handler)
{
    struct probe probe;
    struct outcome outcome;
    struct rpc_error error;
    probe_start(&probe, NULL);
    outcome_init(&outcome);
    Kvferry__Probe__Ask ask = KVFERRY__PROBE__ASK__INIT;
    struct rpc_request request = probe_request("Echo", &ask.base, &outcome);
    request.on_end = NULL;
    request.headers[0] = (struct rpc_header){"x-request-id", "r-17"};
    request.n_headers = 1;
    uint64_t deadline_ns = request.deadline_ns = probe_in_ms(60000);
    cr_assert_eq(rpc_channel_call_wait(probe.channel, &request, &error), STATUS_OK);
    struct seen_call seen = probe_last_call(&probe);
    cr_assert_str_eq(seen.request_id, "r-17");
    /* The header is rounded up by at most one part in 64. */
    cr_assert_lt(seen.deadline_ns, deadline_ns + NS_PER_S);
    cr_assert_gt(seen.deadline_ns, deadline_ns - 60 * NS_PER_S);

    request.headers[0].value = "  r 18 ";
    cr_assert_eq(rpc_channel_call_wait(probe.channel, &request, &error), STATUS_OK);
    cr_assert_str_eq(probe_last_call(&probe).request_id, "r 18", "without the spaces around it");
    request.headers[0].value = "  ";
    cr_assert_eq(rpc_channel_call_wait(probe.channel, &request, &error), STATUS_OK);
    cr_assert_eq(strlen(probe_last_call(&probe).request_id), 32, "spaces are no name");

    request.deadline_ns = DEADLINE_NONE;
    request.n_headers = 0;
    cr_assert_eq(rpc_channel_call_wait(probe.channel, &request, &error), STATUS_OK);
    seen = probe_last_call(&probe);
    cr_assert_eq(strlen(seen.request_id), 32, "drawn");
    cr_assert_leq(seen.deadline_ns, clock_now_ns() + 600 * NS_PER_S, "the default");
    outcome_finish(&outcome);
    probe_stop(&probe);
}

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"
#define GOOD  "00-" TRACE "-00f067aa0ba902b7-01"

static struct request_origin origin_of(struct probe *probe, struct rpc_request *request)
{
    struct rpc_error error;
    cr_assert_eq(rpc_channel_call_wait(probe->channel, request, &error), STATUS_OK, "%s",
                 error.message);
    return probe_last_call(probe).origin;
}

Test(call, a_trace_reaches_the_handler_or_none_does)
{
    static const char *const REFUSED[] = {"", "01", "00-" TRACE "-00f067aa0ba902b7-01-x",
                                          "00-" TRACE "-0000000000000000-01",
                                          "00-" TRACE "-00F067AA0BA902B7-01"};
    struct probe probe;
    struct outcome outcome;
    probe_start(&probe, NULL);
    outcome_init(&outcome);
    Kvferry__Probe__Ask ask = KVFERRY__PROBE__ASK__INIT;
    struct rpc_request request = probe_request("Echo", &ask.base, &outcome);
    request.on_end = NULL;
    request.headers[0] = (struct rpc_header){"traceparent", " " GOOD "  "};
    request.n_headers = 1;
    struct request_origin origin = origin_of(&probe, &request);
    char id[TRACE_ID_TEXT];
    trace_id_format(&origin.trace, id);
    cr_expect_str_eq(id, TRACE);
    cr_expect(origin.trace.is_sampled);

    for (size_t i = 0; i < sizeof REFUSED / sizeof *REFUSED; i++) {
        request.headers[0].value = REFUSED[i];
        origin = origin_of(&probe, &request);
        cr_expect_not(trace_context_is_some(&origin.trace), "%s", REFUSED[i]);
    }
    request.headers[0].value = GOOD;
    request.headers[1] = (struct rpc_header){"traceparent", GOOD};
    request.n_headers = 2;
    origin = origin_of(&probe, &request);
    cr_expect_not(trace_context_is_some(&origin.trace), "two of them are none");
    outcome_finish(&outcome);
    probe_stop(&probe);
}

Test(call, an_origin_is_handed_on_as_it_was)
{
    struct probe probe;
    struct outcome outcome;
    struct rpc_origin_text text;
    struct request_origin origin = {.request_id = "mine"};
    probe_start(&probe, NULL);
    outcome_init(&outcome);
    Kvferry__Probe__Ask ask = KVFERRY__PROBE__ASK__INIT;
    struct rpc_request request = probe_request("Echo", &ask.base, &outcome);
    request.on_end = NULL;
    rpc_request_set_origin(&request, &origin, &text);
    cr_assert_eq(request.n_headers, 1, "no trace, no traceparent");
    struct request_origin seen = origin_of(&probe, &request);
    cr_expect_str_eq(seen.request_id, "mine");
    cr_expect_not(trace_context_is_some(&seen.trace));

    cr_assert(traceparent_parse(GOOD, strlen(GOOD), &origin.trace));
    request.n_headers = 0;
    rpc_request_set_origin(&request, &origin, &text);
    seen = origin_of(&probe, &request);
    cr_expect_str_eq(seen.request_id, "mine");
    cr_expect_arr_eq((char *)seen.trace.trace_id, (char *)origin.trace.trace_id, TRACE_ID_BYTES);
    cr_expect_arr_eq((char *)seen.trace.span_id, (char *)origin.trace.span_id, SPAN_ID_BYTES);
    cr_expect(seen.trace.is_sampled);
    outcome_finish(&outcome);
    probe_stop(&probe);
}

Test(call, a_stream_of_10000_arrives_in_order)
{
    struct probe probe;
    struct outcome outcome;
    probe_start(&probe, NULL);
    outcome_init(&outcome);
    rpc_client_call_release(begin(&probe, "Count", 10000, 20, DEADLINE_NONE, &outcome));
    outcome_wait_end(&outcome);
    expect(&probe, &outcome, STATUS_OK, STATUS_OK);
    cr_assert_eq(outcome.n_messages, 10000);
    cr_assert_eq(outcome.n_bytes, 200000);
    cr_assert(outcome.is_in_order);
    outcome_finish(&outcome);
    probe_stop(&probe);
}

Test(call, an_empty_stream_ends)
{
    struct probe probe;
    struct outcome outcome;
    probe_start(&probe, NULL);
    outcome_init(&outcome);
    rpc_client_call_release(begin(&probe, "Count", 0, 0, DEADLINE_NONE, &outcome));
    outcome_wait_end(&outcome);
    expect(&probe, &outcome, STATUS_OK, STATUS_OK);
    cr_assert_eq(outcome.n_messages, 0);
    outcome_finish(&outcome);
    probe_stop(&probe);
}

Test(call, many_streams_at_once)
{
    enum { N_STREAMS = 32 };
    struct probe probe;
    static struct outcome outcomes[N_STREAMS];
    probe_start(&probe, NULL);
    for (int i = 0; i < N_STREAMS; i++) {
        outcome_init(&outcomes[i]);
        rpc_client_call_release(begin(&probe, "Count", 300, 100, DEADLINE_NONE, &outcomes[i]));
    }
    for (int i = 0; i < N_STREAMS; i++) {
        outcome_wait_end(&outcomes[i]);
        cr_assert_eq(outcomes[i].error.status, STATUS_OK, "%s", outcomes[i].error.message);
        cr_assert_eq(outcomes[i].n_messages, 300);
        cr_assert(outcomes[i].is_in_order);
        outcome_finish(&outcomes[i]);
    }
    probe_stop(&probe);
}

/* The client's reset and the server's own clock race: each may tell the server first. */
static void expect_timed_out(struct probe *probe, const struct outcome *outcome)
{
    probe_wait_ends(probe, 1);
    expect(probe, outcome, STATUS_TIMED_OUT,
           probe->last_end == STATUS_CANCELLED ? STATUS_CANCELLED : STATUS_TIMED_OUT);
}

Test(call, a_deadline_is_noticed_on_both_sides_before_anything_was_sent)
{
    struct probe probe;
    struct outcome outcome;
    probe_start(&probe, NULL);
    outcome_init(&outcome);
    rpc_client_call_release(begin(&probe, "Hold", 0, 0, probe_in_ms(1000), &outcome));
    outcome_wait_end(&outcome);
    expect_timed_out(&probe, &outcome);
    outcome_finish(&outcome);
    probe_stop(&probe);
}

Test(call, a_deadline_is_noticed_on_both_sides_of_an_open_stream)
{
    struct probe probe;
    struct outcome outcome;
    probe_start(&probe, NULL);
    outcome_init(&outcome);
    rpc_client_call_release(begin(&probe, "HoldStream", 2, 10, probe_in_ms(1000), &outcome));
    outcome_wait_end(&outcome);
    expect_timed_out(&probe, &outcome);
    cr_assert_eq(outcome.n_messages, 2);
    outcome_finish(&outcome);
    probe_stop(&probe);
}

Test(call, a_call_without_a_deadline_gets_the_servers)
{
    struct probe probe;
    struct outcome outcome;
    struct rpc_server_options options;
    rpc_server_options_init(&options);
    options.default_deadline_ns = 300 * NS_PER_MS;
    probe_start(&probe, &options);
    outcome_init(&outcome);
    rpc_client_call_release(begin(&probe, "HoldStream", 1, 10, DEADLINE_NONE, &outcome));
    outcome_wait_end(&outcome);
    expect(&probe, &outcome, STATUS_TIMED_OUT, STATUS_TIMED_OUT);
    outcome_finish(&outcome);
    probe_stop(&probe);
}

Test(call, an_expired_deadline_never_hangs)
{
    struct probe probe;
    struct outcome outcome;
    probe_start(&probe, NULL);
    outcome_init(&outcome);
    rpc_client_call_release(begin(&probe, "Echo", 0, 0, 1, &outcome));
    outcome_wait_end(&outcome);
    cr_assert_eq(outcome.error.status, STATUS_TIMED_OUT, "%s: %s",
                 status_name(outcome.error.status), outcome.error.message);
    outcome_finish(&outcome);
    probe_stop(&probe);
}

Test(call, cancel_is_noticed_before_headers_were_sent)
{
    struct probe probe;
    struct outcome outcome;
    probe_start(&probe, NULL);
    outcome_init(&outcome);
    struct rpc_client_call *call = begin(&probe, "Hold", 0, 0, DEADLINE_NONE, &outcome);
    probe_wait_held(&probe, 1);
    rpc_client_call_cancel(call);
    outcome_wait_end(&outcome);
    expect(&probe, &outcome, STATUS_CANCELLED, STATUS_CANCELLED);
    cr_assert(rpc_call_is_over(probe.held[0]));
    /* Too late, and ignored: */
    Kvferry__Probe__Answer answer = KVFERRY__PROBE__ANSWER__INIT;
    rpc_call_reply(probe.held[0], &answer.base);
    rpc_client_call_release(call);
    outcome_finish(&outcome);
    probe_stop(&probe);
}

Test(call, cancel_is_noticed_after_headers_were_sent)
{
    struct probe probe;
    struct outcome outcome;
    probe_start(&probe, NULL);
    outcome_init(&outcome);
    struct rpc_client_call *call = begin(&probe, "HoldStream", 3, 10, DEADLINE_NONE, &outcome);
    outcome_wait_messages(&outcome, 3);
    rpc_client_call_cancel(call);
    outcome_wait_end(&outcome);
    expect(&probe, &outcome, STATUS_CANCELLED, STATUS_CANCELLED);
    Kvferry__Probe__Answer answer = KVFERRY__PROBE__ANSWER__INIT;
    cr_assert_eq(rpc_call_send(probe.held[0], &answer.base), STATUS_CANCELLED);
    rpc_client_call_release(call);
    outcome_finish(&outcome);
    probe_stop(&probe);
}

static void note_status(void *arg, enum status why)
{
    *(enum status *)arg = why;
}

Test(call, on_end_set_after_the_end_is_called_at_once)
{
    struct probe probe;
    struct outcome outcome;
    probe_start(&probe, NULL);
    outcome_init(&outcome);
    struct rpc_client_call *call = begin(&probe, "Hold", 0, 0, DEADLINE_NONE, &outcome);
    probe_wait_held(&probe, 1);
    rpc_client_call_cancel(call);
    probe_wait_ends(&probe, 1);
    enum status why = STATUS_OK;
    rpc_call_on_end(probe.held[0], note_status, &why);
    cr_assert_eq(why, STATUS_CANCELLED);
    outcome_wait_end(&outcome);
    rpc_client_call_release(call);
    outcome_finish(&outcome);
    probe_stop(&probe);
}

static void never(void *arg)
{
    (void)arg;
    cr_assert_fail("the call is over");
}

Test(call, on_quiet_set_after_the_end_is_ignored)
{
    struct probe probe;
    struct outcome outcome;
    probe_start(&probe, NULL);
    outcome_init(&outcome);
    struct rpc_client_call *call = begin(&probe, "HoldStream", 1, 10, DEADLINE_NONE, &outcome);
    outcome_wait_messages(&outcome, 1);
    rpc_client_call_cancel(call);
    probe_wait_ends(&probe, 1);
    rpc_call_on_quiet(probe.held[0], never, NULL);
    outcome_wait_end(&outcome);
    rpc_client_call_release(call);
    outcome_finish(&outcome);
    probe_stop(&probe);
}

Test(call, cancelling_at_random_moments_ends_each_once)
{
    enum { N_CALLS = 120 };
    struct probe probe;
    static struct outcome outcomes[N_CALLS];
    static const char *const METHODS[] = {"Count", "HoldStream", "Hold", "Echo"};
    struct rpc_client_call *calls[N_CALLS];
    probe_start(&probe, NULL);
    struct random random;
    random_init(&random, 7);
    for (int i = 0; i < N_CALLS; i++) {
        outcome_init(&outcomes[i]);
        calls[i] = begin(&probe, METHODS[i % 4], 50, 100, DEADLINE_NONE, &outcomes[i]);
        if (random_below(&random, 2))
            rpc_client_call_cancel(calls[random_below(&random, (uint64_t)i + 1)]);
    }
    for (int i = 0; i < N_CALLS; i++)
        rpc_client_call_cancel(calls[i]);
    for (int i = 0; i < N_CALLS; i++) {
        outcome_wait_end(&outcomes[i]);
        enum status status = outcomes[i].error.status;
        cr_assert(status == STATUS_OK || status == STATUS_CANCELLED, "%s", status_name(status));
        rpc_client_call_release(calls[i]);
    }
    probe_stop(&probe);
    for (int i = 0; i < N_CALLS; i++) {
        cr_assert_eq(outcomes[i].n_ends, 1);
        outcome_finish(&outcomes[i]);
    }
}

Test(call, an_error_arrives_with_all_its_details)
{
    struct probe probe;
    struct outcome outcome;
    struct rpc_error error;
    probe_start(&probe, NULL);
    pthread_mutex_lock(&probe.lock);
    rpc_error_set(&probe.fail_with, STATUS_PROMPT_TOO_LONG, "prompt.text", "2100",
                  "prompt of %d tokens: the context is %d", 2100, 2048);
    pthread_mutex_unlock(&probe.lock);
    outcome_init(&outcome);
    Kvferry__Probe__Ask ask = KVFERRY__PROBE__ASK__INIT;
    struct rpc_request request = probe_request("Fail", &ask.base, &outcome);
    request.on_end = NULL;
    cr_assert_eq(rpc_channel_call_wait(probe.channel, &request, &error), STATUS_PROMPT_TOO_LONG);
    cr_assert_eq(error.grpc_code, 3);
    cr_assert_str_eq(error.reason, "PROMPT_TOO_LONG");
    cr_assert_str_eq(error.field, "prompt.text");
    cr_assert_str_eq(error.value, "2100");
    cr_assert_str_eq(error.message, "prompt of 2100 tokens: the context is 2048");
    cr_assert_eq(outcome.n_messages, 0);
    outcome_finish(&outcome);
    probe_stop(&probe);
}

/* Ends the call with the error that comes; id: of the metadata x-request-id, NULL for none. */
static struct rpc_error fail_named(struct probe *probe, const char *path, const char *id)
{
    struct rpc_error error;
    Kvferry__Probe__Ask ask = KVFERRY__PROBE__ASK__INIT;
    struct rpc_request request = probe_request("Echo", &ask.base, NULL);
    request.path = path;
    request.on_end = NULL;
    request.on_message = NULL;
    if (id)
        request.headers[request.n_headers++] = (struct rpc_header){"x-request-id", id};
    (void)!rpc_channel_call_wait(probe->channel, &request, &error);
    return error;
}

Test(call, every_error_names_its_request)
{
    struct probe probe;
    struct rpc_server_options options;
    rpc_server_options_init(&options);
    options.default_deadline_ns = 100 * NS_PER_MS;
    probe_start(&probe, &options);
    pthread_mutex_lock(&probe.lock);
    rpc_error_set(&probe.fail_with, STATUS_LOADING, NULL, NULL, "%s", "wait");
    pthread_mutex_unlock(&probe.lock);
    static const struct {
        const char *path;
        enum status status;
    } CASES[] = {{"/kvferry.probe.Probe/Fail", STATUS_LOADING},
                 {"/kvferry.probe.Probe/NoSuchMethod", STATUS_UNIMPLEMENTED},
                 {"/kvferry.probe.Probe/Forget", STATUS_BUG},
                 {"/kvferry.probe.Probe/Hold", STATUS_TIMED_OUT}}; /* the server's own limit */
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct rpc_error error = fail_named(&probe, CASES[i].path, "id of mine");
        cr_assert_eq(error.status, CASES[i].status, "%s", CASES[i].path);
        cr_assert_str_eq(error.request_id, "id of mine", "%s", CASES[i].path);
        struct rpc_error drawn = fail_named(&probe, CASES[i].path, NULL);
        cr_assert_eq(strspn(drawn.request_id, "0123456789abcdef"), 32, "%s", CASES[i].path);
        cr_assert_str_neq(drawn.request_id, fail_named(&probe, CASES[i].path, "").request_id);
    }
    probe_stop(&probe);
}

Test(call, a_name_that_is_too_long_is_refused)
{
    struct probe probe;
    char id[RPC_REQUEST_ID_MAX + 2];
    memset(id, 'x', sizeof id);
    id[RPC_REQUEST_ID_MAX + 1] = '\0';
    probe_start(&probe, NULL);
    struct rpc_error error = fail_named(&probe, "/kvferry.probe.Probe/Echo", id);
    cr_assert_eq(error.status, STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(error.field, "x-request-id");
    cr_assert_not_null(strstr(error.message, "129 bytes"), "%s", error.message);
    cr_assert_eq(strlen(error.request_id), 32, "a drawn one");
    id[RPC_REQUEST_ID_MAX] = '\0';
    cr_assert_eq(fail_named(&probe, "/kvferry.probe.Probe/Echo", id).status, STATUS_OK);
    probe_stop(&probe);
}

Test(call, a_forgotten_call_fails_with_bug)
{
    struct probe probe;
    struct outcome outcome;
    probe_start(&probe, NULL);
    outcome_init(&outcome);
    rpc_client_call_release(begin(&probe, "Forget", 0, 0, DEADLINE_NONE, &outcome));
    outcome_wait_end(&outcome);
    cr_assert_eq(outcome.error.status, STATUS_BUG);
    cr_assert_eq(outcome.error.grpc_code, 13);
    outcome_finish(&outcome);
    probe_stop(&probe);
}

Test(call, a_held_call_can_be_answered_by_another_thread_later)
{
    struct probe probe;
    struct outcome outcome;
    probe_start(&probe, NULL);
    outcome_init(&outcome);
    rpc_client_call_release(begin(&probe, "Hold", 0, 0, DEADLINE_NONE, &outcome));
    probe_wait_held(&probe, 1);
    Kvferry__Probe__Answer answer = KVFERRY__PROBE__ANSWER__INIT;
    answer.text = "late";
    rpc_call_reply(probe.held[0], &answer.base);
    outcome_wait_end(&outcome);
    expect(&probe, &outcome, STATUS_OK, STATUS_OK);
    cr_assert_str_eq(outcome.last_text, "late");
    outcome_finish(&outcome);
    probe_stop(&probe);
}

Test(call, the_same_address_is_the_same_channel)
{
    struct probe probe;
    probe_start(&probe, NULL);
    struct rpc_channel *again, *other;
    cr_assert_eq(rpc_channel_open(probe.client, probe.address, &again), STATUS_OK);
    cr_assert_eq(again, probe.channel);
    cr_assert_str_eq(rpc_channel_address(again), probe.address);
    cr_assert_eq(rpc_channel_open(probe.client, "127.0.0.1:1", &other), STATUS_OK);
    cr_assert_neq(other, probe.channel);
    rpc_channel_close(again);
    rpc_channel_close(other);
    struct rpc_error error;
    cr_assert_eq(probe_echo(&probe, "still open", &error), STATUS_OK);
    probe_stop(&probe);
}

Test(call, nobody_there_fails_at_once_unless_told_to_wait)
{
    struct probe probe = {0};
    struct outcome outcome;
    struct rpc_error error;
    probe_start_client(&probe, "127.0.0.1:1");
    outcome_init(&outcome);
    Kvferry__Probe__Ask ask = KVFERRY__PROBE__ASK__INIT;
    struct rpc_request request = probe_request("Echo", &ask.base, &outcome);
    request.on_end = NULL;
    request.wait_for_ready = false;
    request.deadline_ns = probe_in_ms(PROBE_WAIT_S * 1000);
    cr_assert_eq(rpc_channel_call_wait(probe.channel, &request, &error), STATUS_PEER_LOST);
    request.wait_for_ready = true;
    request.deadline_ns = probe_in_ms(300);
    cr_assert_eq(rpc_channel_call_wait(probe.channel, &request, &error), STATUS_TIMED_OUT);
    outcome_finish(&outcome);
    probe_stop(&probe);
}

/* 100 times more than a call may have unsent, to a client that stands still at first, and one that leaves. */
Test(call, a_stream_that_sends_when_it_is_quiet_is_never_too_long)
{
    struct rpc_server_options options;
    struct probe probe;
    struct outcome outcome;
    rpc_server_options_init(&options);
    options.call_buffer_bytes_max = 32 << 10;
    probe_start(&probe, &options);
    outcome_init(&outcome);
    outcome.is_stuck = true;
    rpc_client_call_release(begin(&probe, "Pull", 200, 16000, probe_in_ms(60000), &outcome));
    outcome_unstick(&outcome);
    outcome_wait_end(&outcome);
    expect(&probe, &outcome, STATUS_OK, STATUS_OK);
    cr_expect_eq(outcome.n_messages, 200);
    cr_expect(outcome.is_in_order);
    outcome_finish(&outcome);

    outcome_init(&outcome);
    struct rpc_client_call *call = begin(&probe, "Pull", 100000, 16000, probe_in_ms(60000),
                                         &outcome);
    outcome_wait_messages(&outcome, 10);
    rpc_client_call_cancel(call);
    outcome_wait_end(&outcome);
    rpc_client_call_release(call);
    probe_wait_ends(&probe, 2);
    cr_expect_eq(probe.last_end, STATUS_CANCELLED);
    outcome_finish(&outcome);
    probe_stop(&probe);
}
