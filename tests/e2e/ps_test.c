/* `ps` finds a server by the address that `generate` takes, and tells programs what it tells people. */

#include "base/clock.h"
#include "support/cluster.h"
#include "support/command.h"
#include "support/ports.h"
#include "support/server.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

TestSuite(ps, .init = command_folder_make, .fini = command_folder_remove);

/* Of what the last command printed; the caller's. */
static json_t *processes(void)
{
    json_error_t error;
    EXPECT_OK();
    json_t *all = json_loads(last_command.out, 0, &error);
    cr_assert_not_null(all, "%s in:\n%s", error.text, last_command.out);
    json_t *list = json_object_get(all, "processes");
    cr_assert(json_is_array(list));
    json_incref(list);
    json_decref(all);
    return list;
}

static const char *text_of(const json_t *process, const char *key)
{
    const char *text = json_string_value(json_object_get(process, key));
    cr_assert_not_null(text, "%s is no text", key);
    return text;
}

static json_int_t number_of(const json_t *process, const char *key)
{
    const json_t *number = json_object_get(process, key);
    cr_assert(json_is_integer(number), "%s is no number", key);
    return json_integer_value(number);
}

static void expect_keys(const json_t *process)
{
    static const char *const TEXTS[] = {"role", "address",     "state", "unused_reason",
                                        "name", "incarnation", "model", "transport"};
    static const char *const NUMBERS[] = {"pid", "uptime_ms", "resident_bytes", "kv_bytes_received",
                                          "kv_bytes_sent"};
    for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++)
        (void)text_of(process, TEXTS[i]);
    for (size_t i = 0; i < sizeof NUMBERS / sizeof *NUMBERS; i++)
        cr_assert_geq(number_of(process, NUMBERS[i]), 0);
    cr_assert(json_is_true(json_object_get(process, "used")));
    const json_t *requests = json_object_get(process, "requests");
    cr_assert_eq(number_of(requests, "running") + number_of(requests, "waiting"), 0);
    cr_assert_str_eq(text_of(process, "state"), "ready");
    cr_assert_gt(number_of(process, "pid"), 1);
    cr_assert_eq(strlen(text_of(process, "incarnation")), 16);
}

static void expect_blocks(const json_t *blocks)
{
    static const char *const STATES[] = {"free",   "active",  "cached",
                                         "pinned", "inbound", "quarantined"};
    json_int_t sum = 0;
    for (size_t i = 0; i < sizeof STATES / sizeof *STATES; i++)
        sum += number_of(blocks, STATES[i]);
    cr_assert_gt(sum, 0);
    cr_assert_eq(sum, number_of(blocks, "all"));
}

static void expect_kernels(const json_t *kernels)
{
    static const char *const WAYS[] = {"default", "configured", "measured"};
    size_t way = 0;
    cr_assert(text_of(kernels, "products")[0] && text_of(kernels, "attention")[0]);
    while (strcmp(text_of(kernels, "chosen_by"), WAYS[way]) != 0)
        cr_assert_lt(++way, 3);
    cr_assert_gt(number_of(kernels, "threads"), 0);
}

Test(ps, json_has_every_process_with_every_documented_key)
{
    static const char *const ROLES[] = {"router", "ctx-worker", "gen-worker"};
    struct child server;
    server_start(&server, NULL);
    setenv("KVFERRY_SERVER", address_of(server.grpc), 1);
    RUN("generate", "--max-tokens", "2", "--prompt-file",
        KVFERRY_SOURCE_DIR "/cli/demo_prompt.txt");
    EXPECT_OK();
    RUN("ps", "--json");
    json_t *list = processes();
    cr_assert_eq(json_array_size(list), 3);
    bool is_seen[3] = {false};
    for (size_t i = 0; i < 3; i++) {
        const json_t *process = json_array_get(list, i);
        size_t role = 0;
        while (strcmp(text_of(process, "role"), ROLES[role]) != 0)
            cr_assert_lt(++role, 3);
        is_seen[role] = true;
        expect_keys(process);
        if (role == 0)
            cr_assert(json_is_null(json_object_get(process, "blocks")));
        else
            expect_blocks(json_object_get(process, "blocks"));
        if (role == 0)
            cr_assert(json_is_null(json_object_get(process, "kernels")));
        else
            expect_kernels(json_object_get(process, "kernels"));
        if (role > 0)
            cr_assert_gt(number_of(process, role == 1 ? "kv_bytes_sent" : "kv_bytes_received"), 0);
    }
    cr_assert(is_seen[0] && is_seen[1] && is_seen[2]);
    cr_assert_str_eq(text_of(json_array_get(list, 0), "address"), address_of(server.grpc));
    json_decref(list);

    RUN("ps", "--server", address_of(server.control), "--json");
    list = processes();
    cr_assert_eq(json_array_size(list), 3);
    json_decref(list);
    RUN("ps");
    EXPECT_OK();
    for (size_t i = 0; i < 3; i++)
        EXPECT_IN(last_command.out, ROLES[i]);
    EXPECT_IN(last_command.out, "THREADS KERNELS");
    child_stop(&server);
}

/* The entry of a role. */
static const json_t *find(const json_t *list, const char *role)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (strcmp(text_of(json_array_get(list, i), "role"), role) == 0)
            return json_array_get(list, i);
    cr_assert_fail("no %s", role);
    return NULL;
}

Test(ps, a_worker_that_does_not_answer_is_listed_with_the_reason)
{
    const struct cluster_options options = {.n_contexts = 1, .n_generations = 1};
    struct cluster cluster;
    cluster_start(&cluster, &options);
    child_kill(&cluster.contexts[0]);
    RUN("ps", "--server", address_of(cluster.router.grpc), "--json");
    json_t *list = processes();
    const json_t *gone = find(list, "ctx-worker");
    cr_assert_str_eq(text_of(gone, "state"), "no_answer");
    cr_assert_gt(strlen(text_of(gone, "error")), 0);
    cr_assert_null(json_object_get(gone, "pid"));
    cr_assert_str_eq(text_of(find(list, "gen-worker"), "state"), "ready");
    json_decref(list);
    cluster_stop(&cluster);
}

/* 1 + 2 * 80 bytes: more than a name may have, and cut in the middle of a character. */
Test(ps, a_name_that_is_cut_loses_no_process)
{
    struct child router;
    char name[1 + 2 * 80 + 1] = "a";
    for (size_t n = 1; n + 2 < sizeof name; n += 2)
        memcpy(name + n, "\xc3\xa9", 3);
    child_start_unready(&router, command_folder, "router",
                        (const char *const[]){"router", KVFERRY_DEMO_MODEL, ROUTER_PORTS, "--name",
                                              name, "--served-model-name", name + 1, NULL});
    json_t *list = NULL;
    const uint64_t until_ns = clock_now_ns() + COMMAND_LIMIT_NS;
    do { /* it knows its model when it has read that */
        cr_assert_lt(clock_now_ns(), until_ns);
        json_decref(list);
        RUN("ps", "--server", address_of(router.control), "--json");
        list = processes();
        cr_assert_eq(json_array_size(list), 1);
    } while (text_of(json_array_get(list, 0), "model")[0] == '\0');
    const char *told = text_of(json_array_get(list, 0), "name");
    cr_assert_eq(strncmp(told, name, strlen(told)), 0, "%s", told);
    cr_assert_gt(strlen(told), 120);
    cr_assert_gt(strlen(text_of(json_array_get(list, 0), "model")), 120);
    json_decref(list);
    child_stop(&router);
}

Test(ps, where_nobody_listens_is_said_and_what_starts_it)
{
    RUN("ps", "--server", "127.0.0.1:1");
    expect_refused(
        "nothing listens at 127.0.0.1:1: is the server running? `kvferry serve MODEL` starts it");
    RUN("ps", "--server", "unix:/nowhere");
    expect_refused(
        "nothing listens at unix:/nowhere: is the server running? `kvferry serve MODEL`");
    RUN("ps", "--json", "--control", "127.0.0.1:1");
    expect_refused("nothing listens at 127.0.0.1:1");
    cr_assert_str_empty(last_command.out);
}

/* Each has a key of its own, of which the other would say that a stranger called. */
Test(ps, of_two_servers_neither_is_asked_with_the_others_key)
{
    struct child servers[2];
    for (int i = 0; i < 2; i++) {
        char name[16];
        snprintf(name, sizeof name, "serve%d", i);
        child_start(&servers[i], command_folder, name,
                    (const char *const[]){"serve", KVFERRY_DEMO_MODEL, ROUTER_PORTS, NULL});
    }
    for (int i = 0; i < 2; i++) {
        RUN("ps", "--server", address_of(servers[i].grpc));
        EXPECT_OK();
        RUN("ps", "--server", address_of(servers[i].control));
        EXPECT_OK();
        cr_expect_eq(child_metric(&servers[i], "kvferry_auth_failures_total", "unproven"), 0);
    }
    for (int i = 0; i < 2; i++) {
        child_stop(&servers[i]);
        cr_expect_not(child_log_has(&servers[i], "calls between processes refused"));
    }
}

static const char *other_key(void)
{
    static char path[160];
    snprintf(path, sizeof path, "%s/other.key", command_folder);
    RUN("key", path);
    EXPECT_OK();
    return path;
}

Test(ps, a_public_port_that_is_open_to_the_network_tells_its_state_to_who_knows_the_key)
{
    struct child server;
    const char *const arguments[] = {
        "serve", KVFERRY_DEMO_MODEL, "--insecure", "--grpc-address", "0.0.0.0:0", "--http-address",
        "",      WORKER_PORTS,       NULL};
    child_start(&server, command_folder, "serve", arguments);
    RUN("ps", "--server", address_of(server.grpc));
    EXPECT_OK();
    RUN("ps", "--server", address_of(server.control));
    EXPECT_OK();
    RUN("ps", "--server", address_of(server.grpc), "--cluster-key", other_key());
    expect_refused("does not accept this cluster key");
    cr_assert_str_empty(last_command.out);
    child_stop(&server);
}
