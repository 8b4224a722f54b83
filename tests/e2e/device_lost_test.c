/* A worker whose device is lost, as real processes: before it is ready, in prefill, in hand-over, in decode. Its requests end as
 * typed ones or complete elsewhere with the single process's tokens; it says so once and ends with 1; its peers are well. */

#include "support/command.h"
#include "support/expect.h"
#include "support/spawn.h"
#include "tests/e2e/fault_device_open.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef KVFERRY_SANITIZED
enum { N_REQUESTS = 6, LONG_PROMPT = 300, N_TOKENS = 12, END_LIMIT_MS = 60000 };
#else
enum { N_REQUESTS = 12, LONG_PROMPT = 700, N_TOKENS = 24, END_LIMIT_MS = 15000 };
#endif
enum { DEVICE_LOST_EXIT = 1 };

static const char *const GENERATION[] = {"--local-prefill-max-tokens", "8", NULL};
/* Small chunks: a prompt takes many steps. */
static const char *const CONTEXT[] = {"--prefill-chunk-tokens", "64", NULL};

static void make_work(struct work *work)
{
    uint32_t lengths[N_REQUESTS];
    for (uint32_t i = 0; i < N_REQUESTS; i++)
        lengths[i] = LONG_PROMPT - 16 * i;
    work_create(work, lengths, N_REQUESTS, N_TOKENS, NULL);
}

static void lose_at(struct child *child, enum fault_call call, uint32_t n)
{
    const union sigval value = {.sival_int = fault_signal(call, n)};
    cr_assert_eq(sigqueue(child->pid, SIGRTMIN, value), 0);
}

/* It ends by itself, soon, says why once, and its exit status is not a success. */
static void expect_ended(struct child *child)
{
    int status = child_wait(child, END_LIMIT_MS);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != DEVICE_LOST_EXIT) {
        child_print_log(child);
        cr_assert_fail("%s ended with wait status %d", child->name, status);
    }
    cr_expect_eq(child_log_count(child, "device lost"), 1, "%s said it %u times", child->name,
                 child_log_count(child, "device lost"));
}

struct ends {
    uint32_t n_ok, n_lost, n_moved; /* moved: to where the device was not lost, by the router */
};

/* Each ends once; one that the client has had no token of completes. */
static struct ends run_all(const struct work *work, struct client *client, const char *salt)
{
    struct generation *generations = work_start(work, client, salt);
    struct ends ends = {0};
    for (uint32_t i = 0; i < work->n; i++) {
        const struct generation *ended = &generations[i];
        cr_assert(client_wait(client, &generations[i], 60000), "request %u does not end", i);
        if (expect_same_or_typed(work, i, ended)) {
            ends.n_ok++;
            continue;
        }
        cr_expect_eq(ended->error.status, STATUS_DEVICE_LOST, "request %u: %s: %s", i,
                     status_name(ended->error.status), ended->error.message);
        cr_expect_eq(ended->error.grpc_code, 14, "UNAVAILABLE");
        cr_expect(ended->n_generated > 0, "request %u had no token and was not moved", i);
        ends.n_lost++;
    }
    free(generations);
    return ends;
}

/* Nothing is owned, and a hand-over with KV works. */
static void expect_well(struct cluster *cluster, const struct work *work, struct client *client)
{
    cluster_wait_quiet(cluster);
    struct child *survivor = cluster->generations[0].pid ? &cluster->generations[0]
                                                         : &cluster->generations[1];
    double before = child_metric(survivor, "kvferry_kv_transfer_bytes_total", "");
    struct ends ends = run_all(work, client, "behind it");
    cr_expect_eq(ends.n_ok, work->n);
    cr_expect_gt(child_metric(survivor, "kvferry_kv_transfer_bytes_total", ""), before,
                 "no KV crosses");
    cluster_wait_quiet(cluster);
}

/* Of two workers of a role the first is on the device that is lost at the nth such call. */
static struct ends lose(bool is_context, enum fault_call call, uint32_t n)
{
    struct work work;
    struct cluster cluster;
    make_work(&work);
    cluster_start(&cluster, &(struct cluster_options){
                                .n_contexts = is_context ? 2 : 1,
                                .n_generations = is_context ? 1 : 2,
                                .context = CONTEXT,
                                .generation = GENERATION,
                                .first_context_binary = is_context ? FAULT_BINARY : NULL,
                                .first_generation_binary = is_context ? NULL : FAULT_BINARY});
    struct child *victim = is_context ? &cluster.contexts[0] : &cluster.generations[0];
    struct client *client = client_create(cluster.router.grpc);
    lose_at(victim, call, n);
    struct ends ends = run_all(&work, client, "when it is lost");
    expect_ended(victim);
    expect_well(&cluster, &work, client);
    client_destroy(client);
    cluster_stop(&cluster);
    work_destroy(&work);
    return ends;
}

Test(device_lost, a_context_workers_in_prefill_costs_no_request)
{
    cr_expect_eq(lose(true, FAULT_COMPUTED, 4).n_ok, N_REQUESTS);
}

Test(device_lost, a_context_workers_in_hand_over_costs_no_request)
{
    cr_expect_eq(lose(true, FAULT_READ, 3).n_ok, N_REQUESTS);
}

Test(device_lost, a_generation_workers_in_hand_over_moves_who_had_no_token)
{
    struct ends ends = lose(false, FAULT_WRITE, 3);
    cr_expect_eq(ends.n_ok + ends.n_lost, N_REQUESTS);
    cr_expect(ends.n_ok >= N_REQUESTS / 2, "%u completed", ends.n_ok);
}

Test(device_lost, a_generation_workers_in_decode_ends_who_had_tokens)
{
    struct ends ends = lose(false, FAULT_COMPUTED, 6);
    cr_expect(ends.n_lost > 0, "a step that decodes is lost for somebody");
    cr_expect(ends.n_ok >= N_REQUESTS / 2, "%u completed", ends.n_ok);
}

/* ---- before it is ready ---- */

static void expect_no_start(const char *role, enum fault_call call, uint32_t n)
{
    char environment[32], log[192], text[4096] = "";
    snprintf(environment, sizeof environment, "%u %u", (unsigned)call, n);
    snprintf(log, sizeof log, "%s/start.log", command_folder);
    char *const argv[] = {(char *)FAULT_BINARY,
                          (char *)(uintptr_t)role,
                          (char *)KVFERRY_DEMO_MODEL,
                          "--control-address",
                          "127.0.0.1:0",
                          "--health-address",
                          "127.0.0.1:0",
                          "--metrics-address",
                          "",
                          NULL};
    const int input = open("/dev/null", O_RDONLY | O_CLOEXEC);
    const int output = open(log, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    cr_assert(input >= 0 && output >= 0);
    setenv(FAULT_ENVIRONMENT, environment, 1);
    struct child child = {.name = "start"};
    child.pid = spawn_bound(argv, input, output, output);
    unsetenv(FAULT_ENVIRONMENT);
    int status = child_wait(&child, END_LIMIT_MS);
    cr_assert(pread(output, text, sizeof text - 1, 0) > 0);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == DEVICE_LOST_EXIT, "%s: %d\n%s",
              environment, status, text);
    const char *said = strstr(text, "device lost");
    cr_expect(said && !strstr(said + 1, "\"device lost\""), "once: %s", text);
    cr_expect(strstr(text, "cannot start"), "%s", text);
    cr_expect(!strstr(text, "ready in"), "%s", text);
    close(input);
    close(output);
}

TestSuite(device_lost_start, .init = command_folder_make, .fini = command_folder_remove);

Test(device_lost_start, weights_or_warm_up_end_the_process_with_a_sentence)
{
    static const char *const ROLES[] = {"ctx-worker", "gen-worker"};
    for (int r = 0; r < 2; r++) {
        expect_no_start(ROLES[r], FAULT_ANY, 1);
        expect_no_start(ROLES[r], FAULT_WRITE, 20);
        expect_no_start(ROLES[r], FAULT_COMPUTED, 1);
    }
}
