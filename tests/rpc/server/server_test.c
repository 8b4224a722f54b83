/* server: every limit answers with its own status, a drain loses nothing, and nothing is left. */
#include "base/clock.h"
#include "rpc/server/call_state.h"
#include "tests/rpc/support/probe.h"

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(server, .timeout = 90);

static struct rpc_client_call *begin(struct probe *probe, const char *method,
                                     Kvferry__Probe__Ask *ask, struct outcome *outcome)
{
    struct rpc_request request = probe_request(method, &ask->base, outcome);
    struct rpc_client_call *call;
    cr_assert_eq(rpc_channel_start(probe->channel, &request, &call), STATUS_OK);
    return call;
}

static struct rpc_client_call *begin_sized(struct probe *probe, const char *method, uint32_t count,
                                           uint32_t size, struct outcome *outcome)
{
    Kvferry__Probe__Ask ask = KVFERRY__PROBE__ASK__INIT;
    ask.count = count;
    ask.size = size;
    return begin(probe, method, &ask, outcome);
}

/* The status of one Echo of ask. */
static enum status ask_echo(struct probe *probe, Kvferry__Probe__Ask *ask, struct rpc_error *error)
{
    struct outcome outcome;
    outcome_init(&outcome);
    struct rpc_request request = probe_request("Echo", &ask->base, &outcome);
    request.on_end = NULL;
    enum status status = rpc_channel_call_wait(probe->channel, &request, error);
    outcome_finish(&outcome);
    return status;
}

Test(server, too_many_calls_are_refused_and_served_again_later)
{
    enum { N_MAX = 8 };
    struct probe probe;
    struct outcome held[N_MAX];
    struct rpc_client_call *calls[N_MAX];
    struct rpc_server_options options;
    struct rpc_error error;
    rpc_server_options_init(&options);
    options.calls_max = N_MAX;
    probe_start(&probe, &options);
    for (int i = 0; i < N_MAX; i++) {
        outcome_init(&held[i]);
        calls[i] = begin_sized(&probe, "Hold", 0, 0, &held[i]);
    }
    probe_wait_held(&probe, N_MAX);
    for (int i = 0; i < 100; i++) {
        cr_assert_eq(probe_echo(&probe, "one more", &error), STATUS_QUEUE_FULL);
        cr_assert_gt(error.retry_after_ms, 0);
    }
    struct rpc_server_counts counts;
    rpc_server_counts(probe.server, &counts);
    cr_assert_eq(counts.calls_refused, 100);
    for (int i = 0; i < N_MAX; i++) {
        rpc_client_call_cancel(calls[i]);
        rpc_client_call_release(calls[i]);
        outcome_wait_end(&held[i]);
        outcome_finish(&held[i]);
    }
    probe_wait_ends(&probe, N_MAX);
    probe_release_held(&probe);
    cr_assert_eq(probe_echo(&probe, "room again", &error), STATUS_OK, "%s", error.message);
    probe_stop(&probe);
}

Test(server, a_row_may_have_a_lower_limit)
{
    struct rpc_runtime *runtime;
    struct rpc_server *server;
    struct probe probe = {0};
    struct outcome first, second;
    pthread_mutex_init(&probe.lock, NULL);
    pthread_cond_init(&probe.changed, NULL);
    struct rpc_method rows[8];
    memcpy(rows, PROBE_METHODS, PROBE_N_METHODS * sizeof *rows);
    for (size_t i = 0; i < PROBE_N_METHODS; i++)
        rows[i].calls_max = strstr(rows[i].path, "HoldStream") ? 1 : 0;
    struct rpc_service service = {.name = "kvferry.probe.Probe",
                                  .methods = rows,
                                  .n_methods = PROBE_N_METHODS,
                                  .arg = &probe};
    struct error error;
    cr_assert_eq(rpc_runtime_create("server", NULL, &runtime), STATUS_OK);
    cr_assert_eq(rpc_server_create(runtime, "127.0.0.1:0", &service, 1, NULL, &error, &server),
                 STATUS_OK);
    char address[64];
    snprintf(address, sizeof address, "127.0.0.1:%u", rpc_server_port(server));
    probe_start_client(&probe, address);

    outcome_init(&first);
    outcome_init(&second);
    rpc_client_call_release(begin_sized(&probe, "HoldStream", 1, 1, &first));
    outcome_wait_messages(&first, 1);
    rpc_client_call_release(begin_sized(&probe, "HoldStream", 1, 1, &second));
    outcome_wait_end(&second);
    cr_assert_eq(second.error.status, STATUS_QUEUE_FULL);
    struct rpc_error failure;
    cr_assert_eq(probe_echo(&probe, "other rows are free", &failure), STATUS_OK);

    probe_wait_held(&probe, 1);
    probe_release_held(&probe); /* left unfinished: ends with BUG */
    outcome_wait_end(&first);
    cr_assert_eq(first.error.status, STATUS_BUG);
    probe_stop(&probe);
    rpc_server_destroy(server);
    rpc_runtime_destroy(runtime);
}

Test(server, unknown_methods_are_unimplemented)
{
    struct probe probe;
    struct outcome outcome;
    struct rpc_error error;
    probe_start(&probe, NULL);
    outcome_init(&outcome);
    Kvferry__Probe__Ask ask = KVFERRY__PROBE__ASK__INIT;
    struct rpc_request request = probe_request("Echo", &ask.base, &outcome);
    request.on_end = NULL;
    request.path = "/kvferry.probe.Probe/Nothing";
    for (int i = 0; i < 50; i++)
        cr_assert_eq(rpc_channel_call_wait(probe.channel, &request, &error), STATUS_UNIMPLEMENTED);
    request.path = "/no.such.Service/Echo";
    cr_assert_eq(rpc_channel_call_wait(probe.channel, &request, &error), STATUS_UNIMPLEMENTED);
    outcome_finish(&outcome);
    probe_stop(&probe);
}

Test(server, oversize_messages_are_refused_with_words)
{
    struct probe probe;
    struct rpc_error error;
    struct rpc_server_options options;
    rpc_server_options_init(&options);
    options.message_bytes_max = 2 << 20;
    probe_start(&probe, &options);
    static uint8_t blob[3 << 20];
    Kvferry__Probe__Ask ask = KVFERRY__PROBE__ASK__INIT;
    ask.blob.data = blob;
    ask.blob.len = 1000000; /* the row takes 1 MiB */
    cr_assert_eq(ask_echo(&probe, &ask, &error), STATUS_OK, "%s", error.message);
    ask.blob.len = 1100000; /* over the row's, under the server's */
    cr_assert_eq(ask_echo(&probe, &ask, &error), STATUS_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(error.message, "at most 1048576"), "%s", error.message);
    ask.blob.len = sizeof blob; /* over the server's: gRPC's own refusal */
    cr_assert_eq(ask_echo(&probe, &ask, &error), STATUS_QUEUE_FULL, "%s",
                 status_name(error.status));
    cr_assert_not_null(strstr(error.message, "larger than max"), "%s", error.message);
    ask.blob.len = 10;
    cr_assert_eq(ask_echo(&probe, &ask, &error), STATUS_OK);
    probe_stop(&probe);
}

Test(server, the_guard_names_the_field_to_the_client)
{
    struct probe probe;
    struct rpc_error error;
    probe_start(&probe, NULL);
    Kvferry__Probe__Ask ask = KVFERRY__PROBE__ASK__INIT;
    ask.text = "bad \xC0 text";
    cr_assert_eq(ask_echo(&probe, &ask, &error), STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(error.field, "text");
    cr_assert_str_eq(error.reason, "BAD_FIELD");

    ask.text = "";
    static uint32_t tokens[10001];
    ask.tokens = tokens;
    ask.n_tokens = 10000;
    cr_assert_eq(ask_echo(&probe, &ask, &error), STATUS_OK);
    ask.n_tokens = 10001;
    cr_assert_eq(ask_echo(&probe, &ask, &error), STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(error.field, "tokens");

    ask.n_tokens = 0;
    Kvferry__Probe__Tree trees[10];
    for (int i = 0; i < 10; i++) {
        kvferry__probe__tree__init(&trees[i]);
        trees[i].child = i < 9 ? &trees[i + 1] : NULL;
    }
    ask.tree = &trees[0];
    cr_assert_eq(ask_echo(&probe, &ask, &error), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(strncmp(error.field, "tree.child.child", 16), 0);
    ask.tree = NULL;
    cr_assert_eq(ask_echo(&probe, &ask, &error), STATUS_OK);
    probe_stop(&probe);
}

Test(server, what_a_server_sends_is_guarded_too)
{
    struct probe probe;
    struct outcome outcome;
    probe_start(&probe, NULL);
    outcome_init(&outcome);
    Kvferry__Probe__Ask ask = KVFERRY__PROBE__ASK__INIT;
    ask.count = 100000;
    ask.size = 10;
    struct rpc_request request = probe_request("Count", &ask.base, &outcome);
    /* Read as an Ask, field 4 of the answers (bytes) is a broken list of tokens: zeros, too many. */
    request.response = &kvferry__probe__ask__descriptor;
    request.elements_max = 5;
    request.on_message = NULL;
    cr_assert_eq(rpc_channel_start(probe.channel, &request, NULL), STATUS_OK);
    outcome_wait_end(&outcome);
    cr_assert_eq(outcome.error.status, STATUS_CORRUPT);
    cr_assert_str_eq(outcome.error.field, "tokens");
    probe_wait_ends(&probe, 1);
    outcome_finish(&outcome);
    probe_stop(&probe);
}

Test(server, a_slow_reader_is_cut_off_at_its_bytes)
{
    struct probe probe;
    struct outcome outcome;
    probe_start(&probe, NULL);
    outcome_init(&outcome);
    outcome.is_stuck = true;
    rpc_client_call_release(begin_sized(&probe, "Flood", 0, 10000, &outcome));
    probe_wait_ends(&probe, 1);
    cr_assert_eq(probe.last_end, STATUS_SLOW_READER, "%s", status_name(probe.last_end));
    cr_assert_eq(probe.flood_end, STATUS_QUEUE_FULL);
    outcome_unstick(&outcome);
    outcome_wait_end(&outcome);
    cr_assert_eq(outcome.error.status, STATUS_SLOW_READER, "%s", outcome.error.message);
    cr_assert(outcome.is_in_order);
    struct rpc_server_counts counts;
    rpc_server_counts(probe.server, &counts);
    cr_assert_eq(counts.slow_reader_cancels, 1);
    /* The message in flight is given back by its own tag, which the end does not wait for. */
    struct rpc_error error;
    for (int round = 0; round < 10000 && counts.buffered_bytes > 0; round++) {
        cr_assert_eq(probe_echo(&probe, "a turn of the queue", &error), STATUS_OK);
        rpc_server_counts(probe.server, &counts);
    }
    cr_assert_eq(counts.buffered_bytes, 0);
    outcome_finish(&outcome);
    probe_stop(&probe);
}

Test(server, a_slow_reader_is_cut_off_at_its_time)
{
    struct probe probe;
    struct outcome outcome;
    struct rpc_server_options options;
    rpc_server_options_init(&options);
    options.slow_reader_ns = 300 * NS_PER_MS;
    options.call_buffer_bytes_max = 64 << 20;
    probe_start(&probe, &options);
    outcome_init(&outcome);
    outcome.is_stuck = true;
    rpc_client_call_release(begin_sized(&probe, "HoldStream", 2, 4 << 20, &outcome));
    probe_wait_held(&probe, 1);
    probe_push_until_end(&probe, 2, 4 << 20);
    cr_assert_eq(probe.last_end, STATUS_SLOW_READER, "%s", status_name(probe.last_end));
    outcome_unstick(&outcome);
    outcome_wait_end(&outcome);
    cr_assert_eq(outcome.error.status, STATUS_SLOW_READER, "%s", outcome.error.message);
    outcome_finish(&outcome);
    probe_stop(&probe);
}

Test(server, time_in_which_this_process_was_stopped_is_no_readers_fault)
{
    struct probe probe;
    struct outcome outcome;
    struct rpc_server_options options;
    rpc_server_options_init(&options);
    options.slow_reader_ns = 60 * NS_PER_S;
    options.call_buffer_bytes_max = 64 << 20;
    probe_start(&probe, &options);
    outcome_init(&outcome);
    outcome.is_stuck = true;
    rpc_client_call_release(begin_sized(&probe, "HoldStream", 4, 4 << 20, &outcome));
    probe_wait_held(&probe, 1);
    const uint64_t later_ns = clock_now_ns() + 90 * NS_PER_S;
    rpc_call_check_time(probe.held[0], later_ns, 90 * NS_PER_S);
    cr_assert(!rpc_call_is_over(probe.held[0]));
    rpc_call_check_time(probe.held[0], later_ns + 90 * NS_PER_S, 0);
    probe_wait_ends(&probe, 1);
    cr_assert_eq(probe.last_end, STATUS_SLOW_READER, "%s", status_name(probe.last_end));
    outcome_unstick(&outcome);
    outcome_wait_end(&outcome);
    outcome_finish(&outcome);
    probe_stop(&probe);
}

Test(server, past_the_budget_of_all_calls_each_is_held_to_its_share)
{
    struct probe probe;
    struct outcome outcome;
    struct rpc_error error;
    struct rpc_server_options options;
    rpc_server_options_init(&options);
    options.buffered_bytes_max = 2 << 20;
    options.call_buffer_bytes_max = 1 << 30; /* would let one call take everything */
    probe_start(&probe, &options);
    outcome_init(&outcome);
    rpc_client_call_release(begin_sized(&probe, "Flood", 0, 100000, &outcome));
    outcome_wait_end(&outcome);
    cr_assert_eq(outcome.error.status, STATUS_SLOW_READER, "%s", outcome.error.message);
    /* 20 messages are the budget; what had left before is not counted against it. */
    cr_assert_lt(outcome.n_messages, 25);
    probe_wait_ends(&probe, 1);
    cr_assert_eq(probe.flood_end, STATUS_QUEUE_FULL);
    cr_assert_eq(probe_echo(&probe, "others go on", &error), STATUS_OK);
    outcome_finish(&outcome);
    probe_stop(&probe);
}

Test(server, a_port_in_use_is_an_error_with_words)
{
    struct probe probe;
    struct error error;
    struct rpc_server *second = NULL;
    probe_start(&probe, NULL);
    struct rpc_service service = probe_service(&probe);
    enum status status = rpc_server_create(probe.server_runtime, probe.address, &service, 1, NULL,
                                           &error, &second);
    cr_assert_eq(status, STATUS_IO_FAILED);
    cr_assert_not_null(strstr(error.text, probe.address), "%s", error.text);
    cr_assert_null(second);
    struct rpc_error failure;
    cr_assert_eq(probe_echo(&probe, "the first still serves", &failure), STATUS_OK);
    probe_stop(&probe);
}

Test(server, two_servers_share_one_runtime)
{
    struct probe probe;
    struct error error;
    struct rpc_server *second;
    struct rpc_error failure;
    probe_start(&probe, NULL);
    struct rpc_service service = rpc_health_service(probe.health);
    cr_assert_eq(
        rpc_server_create(probe.server_runtime, "127.0.0.1:0", &service, 1, NULL, &error, &second),
        STATUS_OK);
    cr_assert_neq(rpc_server_port(second), rpc_server_port(probe.server));
    struct rpc_channel *first_channel = probe.channel;
    char address[64];
    snprintf(address, sizeof address, "127.0.0.1:%u", rpc_server_port(second));
    cr_assert_eq(rpc_channel_open(probe.client, address, &probe.channel), STATUS_OK);
    cr_assert_eq(probe_echo(&probe, "not on this port", &failure), STATUS_UNIMPLEMENTED);
    rpc_channel_close(probe.channel);
    probe.channel = first_channel;
    cr_assert_eq(probe_echo(&probe, "but on that", &failure), STATUS_OK);
    rpc_server_destroy(second);
    probe_stop(&probe);
}

/* --- drain --- */

Test(server, a_drain_waits_for_open_calls_and_refuses_new_ones)
{
    struct probe probe;
    struct outcome outcome;
    struct rpc_error error;
    probe_start(&probe, NULL);
    outcome_init(&outcome);
    rpc_client_call_release(begin_sized(&probe, "HoldStream", 1, 10, &outcome));
    outcome_wait_messages(&outcome, 1);
    probe_wait_held(&probe, 1);
    rpc_server_drain_start(probe.server);
    cr_assert_eq(probe_echo(&probe, "too late", &error), STATUS_DRAINING);
    cr_assert_eq(error.grpc_code, 14);

    Kvferry__Probe__Answer answer = KVFERRY__PROBE__ANSWER__INIT;
    answer.index = 1;
    cr_assert_eq(rpc_call_send(probe.held[0], &answer.base), STATUS_OK);
    rpc_call_finish(probe.held[0]);
    rpc_server_drain(probe.server, PROBE_WAIT_S * NS_PER_S);
    outcome_wait_end(&outcome);
    cr_assert_eq(outcome.error.status, STATUS_OK, "%s", outcome.error.message);
    cr_assert_eq(outcome.n_messages, 2);
    outcome_finish(&outcome);
    probe_stop(&probe);
}

Test(server, a_drain_ends_what_is_left_at_its_limit)
{
    struct probe probe;
    struct outcome stream, unary;
    probe_start(&probe, NULL);
    outcome_init(&stream);
    outcome_init(&unary);
    rpc_client_call_release(begin_sized(&probe, "HoldStream", 1, 10, &stream));
    rpc_client_call_release(begin_sized(&probe, "Hold", 0, 0, &unary));
    probe_wait_held(&probe, 2);
    rpc_server_drain(probe.server, 100 * NS_PER_MS);
    probe_wait_ends(&probe, 2);
    cr_assert_eq(probe.last_end, STATUS_DRAINING);
    outcome_wait_end(&stream);
    outcome_wait_end(&unary);
    cr_assert_eq(stream.error.status, STATUS_DRAINING, "%s", stream.error.message);
    cr_assert_eq(unary.error.status, STATUS_DRAINING, "%s", unary.error.message);
    outcome_finish(&stream);
    outcome_finish(&unary);
    probe_stop(&probe);
}

Test(server, destroy_with_open_calls_ends_them)
{
    struct probe probe;
    struct outcome outcome;
    probe_start(&probe, NULL);
    outcome_init(&outcome);
    rpc_client_call_release(begin_sized(&probe, "Count", 1000, 100, &outcome));
    outcome_wait_messages(&outcome, 10);
    rpc_server_destroy(probe.server);
    probe.server = NULL;
    outcome_wait_end(&outcome);
    cr_assert_eq(probe.n_ends, 1);
    outcome_finish(&outcome);
    probe_stop(&probe);
}

static int count_entries(const char *path)
{
    DIR *directory = opendir(path);
    cr_assert_not_null(directory);
    int n = 0;
    while (readdir(directory))
        n++;
    closedir(directory);
    return n;
}

/* gRPC's own threads end when they find nothing to do. */
static bool falls_to(const char *path, int n)
{
    uint64_t until_ns = clock_now_ns() + 20 * NS_PER_S;
    while (count_entries(path) > n && clock_now_ns() < until_ns)
        (void)poll(NULL, 0, 10);
    return count_entries(path) <= n;
}

Test(server, nothing_is_left_after_twenty_rounds)
{
    int n_descriptors = 0, n_threads = 0;
    for (int round = 0; round < 20; round++) {
        struct probe probe;
        struct rpc_error error;
        struct outcome outcome;
        probe_start(&probe, NULL);
        outcome_init(&outcome);
        cr_assert_eq(probe_echo(&probe, "round", &error), STATUS_OK);
        rpc_client_call_release(begin_sized(&probe, "HoldStream", 2, 10, &outcome));
        outcome_wait_messages(&outcome, 2);
        probe_stop_open(&probe, &outcome);
        if (round == 4) {
            n_descriptors = count_entries("/proc/self/fd");
            n_threads = count_entries("/proc/self/task");
        }
    }
    cr_assert(falls_to("/proc/self/fd", n_descriptors));
    cr_assert(falls_to("/proc/self/task", n_threads));
}

/* --- another process, forked before anything of gRPC runs --- */

struct child {
    pid_t pid;
    int commands; /* closed: exit */
    uint16_t port;
};

/* A server of the probe's methods that lives until its parent closes the pipe, or kills it. */
static void serve_until_closed(int commands, int ports, uint16_t port)
{
    struct probe probe = {0};
    struct rpc_runtime *runtime;
    struct rpc_server *server = NULL;
    struct error error;
    char address[64], byte;
    pthread_mutex_init(&probe.lock, NULL);
    pthread_cond_init(&probe.changed, NULL);
    snprintf(address, sizeof address, "127.0.0.1:%u", port);
    struct rpc_service service = probe_service(&probe);
    if (rpc_runtime_create("server", NULL, &runtime) != STATUS_OK)
        _exit(3);
    if (rpc_server_create(runtime, address, &service, 1, NULL, &error, &server) != STATUS_OK)
        _exit(4);
    uint16_t bound = rpc_server_port(server);
    if (write(ports, &bound, sizeof bound) != sizeof bound)
        _exit(5);
    while (read(commands, &byte, 1) > 0)
        ;
    _exit(0);
}

/* Two children: the first serves at once, the second when told the port. */
static struct child fork_server(int *start_out)
{
    int commands[2], ports[2], start[2];
    cr_assert_eq(pipe(commands) | pipe(ports) | pipe(start), 0);
    struct child child = {.commands = commands[1]};
    child.pid = fork();
    if (child.pid == 0) {
        uint16_t port;
        close(commands[1]);
        close(start[1]);
        if (read(start[0], &port, sizeof port) == sizeof port)
            serve_until_closed(commands[0], ports[1], port);
        _exit(0);
    }
    close(commands[0]);
    close(start[0]);
    close(ports[1]);
    start_out[0] = start[1];
    start_out[1] = ports[0];
    return child;
}

static void start_server(struct child *child, const int *start, uint16_t port)
{
    cr_assert_eq(write(start[0], &port, sizeof port), sizeof port);
    cr_assert_eq(read(start[1], &child->port, sizeof child->port), sizeof child->port);
}

Test(server, a_killed_server_ends_the_stream_and_its_successor_is_found_again)
{
    int first_start[2], second_start[2];
    struct child first = fork_server(first_start);
    struct child second = fork_server(second_start);
    start_server(&first, first_start, 0);

    struct probe probe = {0};
    struct outcome outcome;
    struct rpc_error error;
    char address[64];
    snprintf(address, sizeof address, "127.0.0.1:%u", first.port);
    probe_start_client(&probe, address);
    outcome_init(&outcome);
    rpc_client_call_release(begin_sized(&probe, "HoldStream", 5, 100, &outcome));
    outcome_wait_messages(&outcome, 5);
    kill(first.pid, SIGKILL);
    outcome_wait_end(&outcome);
    cr_assert_eq(outcome.error.status, STATUS_PEER_LOST, "%s", outcome.error.message);
    cr_assert_eq(outcome.n_ends, 1);
    waitpid(first.pid, NULL, 0);

    start_server(&second, second_start, first.port);
    cr_assert_eq(probe_echo(&probe, "the same channel", &error), STATUS_OK, "%s", error.message);
    close(second.commands);
    close(first.commands);
    outcome_finish(&outcome);
    probe_stop(&probe);
    waitpid(second.pid, NULL, 0);
}
