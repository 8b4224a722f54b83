/* A process of `serve` that dies is started again at its ports while the others serve: each request ends once, with the
 * single process's tokens or one typed status; then KV crosses again, and nothing is owned. */

#include "support/command.h"
#include "support/expect.h"
#include "support/server.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_REQUESTS = 6, N_TOKENS = 24, LONG_PROMPT = 600 };

static const char *const ROLES[] = {"router", "ctx-worker", "gen-worker"};

TestSuite(restart, .init = command_folder_make, .fini = command_folder_remove, .timeout = 600);

/* A child of serve, as its ports file has it. */
struct member {
    pid_t pid;
    struct child ports; /* metrics port and incarnation */
};

static uint16_t port_of(json_t *root, const char *key)
{
    const char *address = json_string_value(json_object_get(root, key));
    const char *colon = address ? strrchr(address, ':') : NULL;
    return colon ? (uint16_t)strtoul(colon + 1, NULL, 10) : 0;
}

/* False: there is none of that role that is ready. */
static bool find_member(const struct child *server, const char *role, struct member *member_out)
{
    struct server_members members;
    char path[256];
    server_members(server->pid, &members);
    for (uint32_t i = 0; i < members.n; i++) {
        if (!member_ports_file(members.pids[i], role, path))
            continue;
        json_error_t error;
        json_t *root = json_load_file(path, 0, &error);
        bool is_ready = json_is_true(json_object_get(root, "ready")) &&
                        json_integer_value(json_object_get(root, "pid")) == members.pids[i];
        *member_out = (struct member){.pid = members.pids[i]};
        member_out->ports.metrics = port_of(root, "metrics");
        member_out->ports.control = port_of(root, "control");
        json_decref(root);
        return is_ready;
    }
    return false;
}

static struct member wait_member(const struct child *server, const char *role)
{
    uint64_t until_ns = clock_now_ns() + COMMAND_LIMIT_NS;
    struct member member;
    while (!find_member(server, role, &member)) {
        if (clock_now_ns() > until_ns)
            child_print_log(server);
        cr_assert_lt(clock_now_ns(), until_ns, "no %s is ready", role);
        (void)poll(NULL, 0, 10);
    }
    return member;
}

static bool owns_nothing(const struct member *worker)
{
    static const char *const STATES[] = {"active", "pinned", "inbound", "quarantined"};
    for (size_t i = 0; i < sizeof STATES / sizeof *STATES; i++) {
        char label[48];
        snprintf(label, sizeof label, "state=\"%s\"", STATES[i]);
        if (child_metric(&worker->ports, "kvferry_kv_blocks", label) != 0)
            return false;
    }
    return true;
}

static void wait_until(bool (*test)(const struct member *), const struct member *member,
                       const char *what)
{
    uint64_t until_ns = clock_now_ns() + COMMAND_LIMIT_NS;
    while (!test(member)) {
        cr_assert_lt(clock_now_ns(), until_ns, "%s", what);
        (void)poll(NULL, 0, 10);
    }
}

static bool sees_both(const struct member *router)
{
    return child_metric(&router->ports, "kvferry_peers", "role=\"ctx-worker\",state=\"ready\"") ==
               1 &&
           child_metric(&router->ports, "kvferry_peers", "role=\"gen-worker\",state=\"ready\"") ==
               1;
}

static void make_work(struct work *work)
{
    uint32_t lengths[N_REQUESTS];
    for (uint32_t i = 0; i < N_REQUESTS; i++)
        lengths[i] = LONG_PROMPT - 16 * i;
    work_create(work, lengths, N_REQUESTS, N_TOKENS, NULL);
}

/* All work as it did: each succeeds, some KV crosses, nobody owns anything at the end. */
static void expect_recovered(const struct work *work, const struct child *server,
                             struct client *client, const char *salt)
{
    struct member router = wait_member(server, "router");
    uint64_t bytes = 0;
    wait_until(sees_both, &router, "the router does not see both workers");
    struct generation *generations = work_start(work, client, salt);
    for (uint32_t i = 0; i < N_REQUESTS; i++) {
        cr_assert(client_wait(client, &generations[i], 90000), "request %u does not end", i);
        expect_same(work, i, &generations[i]);
        bytes += generations[i].kv_bytes_received;
    }
    free(generations);
    cr_assert_gt(bytes, 0, "%s: no KV crosses", salt);
    for (uint32_t r = 1; r < 3; r++) {
        struct member worker = wait_member(server, ROLES[r]);
        wait_until(owns_nothing, &worker, "blocks are owned");
    }
}

/* Kills the one of that role while requests are under way, and lets its next life begin. */
static void kill_amid_requests(const struct work *work, const struct child *server,
                               struct client *client, const char *role)
{
    struct member victim = wait_member(server, role);
    struct generation *generations = work_start(work, client, role);
    cr_assert(client_wait_messages(client, &generations[0], 1, 90000));
    cr_assert_eq(kill(victim.pid, SIGKILL), 0);
    for (uint32_t i = 0; i < N_REQUESTS; i++) {
        cr_assert(client_wait(client, &generations[i], 90000), "request %u does not end", i);
        (void)expect_same_or_typed(work, i, &generations[i]);
    }
    free(generations);
    struct member next = wait_member(server, role);
    cr_assert_neq(next.pid, victim.pid);
    cr_assert_eq(next.ports.control, victim.ports.control, "%s is at another port", role);
    cr_assert_eq(next.ports.metrics, victim.ports.metrics, "%s is at another port", role);
}

Test(restart, each_process_in_turn_dies_and_serves_again)
{
    struct work work;
    struct child server;
    make_work(&work);
    server_start(&server, (const char *const[]){"--prefill-chunk-tokens", "64",
                                                "--local-prefill-max-tokens", "8", NULL});
    struct client *client = client_create(server.grpc);
    expect_recovered(&work, &server, client, "before");
    for (uint32_t r = 0; r < 3; r++) {
        char salt[32];
        kill_amid_requests(&work, &server, client, ROLES[r]);
        snprintf(salt, sizeof salt, "after %s", ROLES[r]);
        expect_recovered(&work, &server, client, salt);
    }
    client_destroy(client);
    child_stop(&server);
    cr_assert_eq(child_log_count(&server, "process ended, starts again"), 3);
    cr_assert_eq(child_log_count(&server, "process serves again"), 3);
    expect_no_temporaries();
    work_destroy(&work);
}

/* Its model is gone: no next life begins, and a signal during such a pause is heard as ever. */
Test(restart, what_cannot_start_again_is_tried_with_pauses_until_serve_is_told_to_stop)
{
    struct child server;
    char link[160];
    snprintf(link, sizeof link, "%s", in_folder("model"));
    cr_assert_eq(symlink(KVFERRY_DEMO_MODEL, link), 0);
    child_start(&server, command_folder, "serve",
                (const char *const[]){"serve", link, "--grpc-address", "127.0.0.1:0",
                                      "--control-address", "127.0.0.1:0", "--health-address",
                                      "127.0.0.1:0", "--metrics-address", "127.0.0.1:0",
                                      "--http-address", "", "--threads", "1", NULL});
    struct member worker = wait_member(&server, "gen-worker");
    cr_assert_eq(unlink(link), 0);
    cr_assert_eq(kill(worker.pid, SIGKILL), 0);
    cr_assert(child_log_wait(&server, "\"pause_ms\":500"));
    cr_assert(child_log_wait(&server, "\"pause_ms\":1000"));
    cr_assert(child_log_wait(&server, "\"pause_ms\":2000"));
    child_stop(&server);
    expect_no_temporaries();
}
