/* `drain` has a process finish what it has and take no more, and waits for that when it is told to. In its
 * delay a process is not ready and serves; a second signal ends all of it. */

#include "support/client.h"
#include "support/cluster.h"
#include "support/command.h"
#include "support/server.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#define LIMIT_MS 60000

TestSuite(drain, .init = command_folder_make, .fini = command_folder_remove);

enum { N_LONG = 1500 };

static const struct cluster_options OPTIONS = {.n_contexts = 1, .n_generations = 1};

Test(drain, what_runs_ends_well_and_nothing_new_begins)
{
    struct cluster cluster;
    static struct generation running;
    uint32_t prompt[64];
    struct cluster_options options = OPTIONS;
    /* A stopped worker is not lost. */
    options.router = (const char *const[]){"--poll-limit-ms", "60s", NULL};
    cluster_start(&cluster, &options);
    struct client *client = client_create(cluster.router.grpc);
    prompt_tokens(1, prompt, 64);
    running = (struct generation){
        .tokens = prompt, .n_tokens = 64, .max_tokens = N_LONG, .ignore_eos = true};
    client_start(client, &running);
    cr_assert(client_wait_messages(client, &running, 1, LIMIT_MS));
    cr_assert_eq(kill(cluster.generations[0].pid, SIGSTOP), 0);
    cr_assert_lt(running.n_generated, N_LONG, "it ended before it was stopped");

    RUN("drain", "--server", address_of(cluster.router.control), "--wait-ms", "200ms");
    expect_refused("still has requests after 200 ms");
    cr_assert_eq(kill(cluster.generations[0].pid, SIGCONT), 0);
    RUN("drain", "--server", address_of(cluster.router.control), "--wait-ms", "60s");
    EXPECT_OK();
    EXPECT_IN(last_command.out, "requests running 0 waiting 0");
    cr_assert(client_wait(client, &running, LIMIT_MS));
    cr_assert_eq(running.error.status, STATUS_OK, "%s", running.error.message);
    cr_assert_eq(running.n_generated, N_LONG);
    cr_assert_gt(running.kv_bytes_received, 0);

    RUN("generate", "--server", address_of(cluster.router.grpc), "In the beginning");
    expect_refused("DRAINING");
    client_destroy(client);
    cluster_wait_quiet(&cluster);
    cluster_stop(&cluster);
}

Test(drain, a_port_that_takes_no_drain_and_nobody_are_told_apart)
{
    struct cluster cluster;
    cluster_start(&cluster, &OPTIONS);
    RUN("drain", "--server", address_of(cluster.router.grpc));
    expect_refused("this port does not accept Drain: give the control port of the process");
    RUN("drain", "--server", "127.0.0.1:1");
    expect_refused("nothing listens at 127.0.0.1:1");
    RUN("generate", "--server", address_of(cluster.router.grpc), "--max-tokens", "2", "In the");
    EXPECT_OK();
    cluster_stop(&cluster);
}

/* ---- the delay ---- */

#define LONG_DELAY "--drain-delay-ms", "10m"

static void wait_not_ready(const struct child *child)
{
    uint64_t until_ns = clock_now_ns() + LIMIT_MS * NS_PER_MS;
    while (child_http_status(child, "/readyz") == 200) {
        cr_assert_lt(clock_now_ns(), until_ns, "%s stays ready", child->name);
        (void)poll(NULL, 0, 10);
    }
}

static void wait_workers_down(const struct child *router, double n)
{
    uint64_t until_ns = clock_now_ns() + LIMIT_MS * NS_PER_MS;
    while (child_metric(router, "kvferry_peers", "state=\"not_ready\"") != n) {
        cr_assert_lt(clock_now_ns(), until_ns, "the router does not see %g workers down", n);
        (void)poll(NULL, 0, 10);
    }
}

static void expect_clean_exit(struct child *child)
{
    int status = child_wait(child, LIMIT_MS);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "wait status %d", status);
}

/* The request's prompt is long enough to be handed over. */
static void set_request(struct generation *request, uint32_t prompt[64], uint32_t max_tokens)
{
    prompt_tokens(max_tokens, prompt, 64);
    *request = (struct generation){
        .tokens = prompt, .n_tokens = 64, .max_tokens = max_tokens, .ignore_eos = true};
}

Test(drain, a_router_in_its_delay_is_not_ready_and_serves_and_a_second_signal_ends_it)
{
    struct cluster cluster;
    static struct generation first, running;
    uint32_t prompts[2][64];
    const struct cluster_options options = {
        .n_contexts = 1, .n_generations = 1, .router = (const char *const[]){LONG_DELAY, NULL}};
    cluster_start(&cluster, &options);
    struct client *client = client_create(cluster.router.grpc);
    child_signal(&cluster.router, SIGTERM);
    wait_not_ready(&cluster.router);
    cr_expect_eq(child_http_status(&cluster.router, "/healthz"), 200);
    RUN("ps", "--server", address_of(cluster.router.grpc));
    EXPECT_IN(last_command.out, "draining");

    set_request(&first, prompts[0], 8);
    client_run(client, &first);
    cr_expect_gt(first.kv_bytes_received, 0, "it is handed over as ever");
    set_request(&running, prompts[1], 1500);
    client_start(client, &running);
    cr_assert(client_wait_messages(client, &running, 1, LIMIT_MS));
    child_signal(&cluster.router, SIGINT);
    cr_assert(client_wait(client, &running, LIMIT_MS));
    cr_expect_eq(running.error.status, STATUS_DRAINING, "%s", running.error.message);
    expect_clean_exit(&cluster.router);
    client_destroy(client);
    cluster_wait_quiet(&cluster);
    cluster_stop(&cluster);
}

Test(drain, a_second_signal_ends_the_drain_of_each_worker)
{
    struct cluster cluster;
    static struct generation running;
    uint32_t prompt[64];
    const struct cluster_options options = {
        .n_contexts = 1, .n_generations = 1, .both = (const char *const[]){LONG_DELAY, NULL}};
    cluster_start(&cluster, &options);
    struct client *client = client_create(cluster.router.grpc);
    set_request(&running, prompt, 1500);
    client_start(client, &running);
    cr_assert(client_wait_messages(client, &running, 1, LIMIT_MS));
    struct child *workers[] = {&cluster.generations[0], &cluster.contexts[0]};
    for (size_t i = 0; i < 2; i++) {
        child_signal(workers[i], SIGTERM);
        wait_not_ready(workers[i]);
        child_signal(workers[i], SIGTERM);
        expect_clean_exit(workers[i]);
    }
    cr_assert(client_wait(client, &running, LIMIT_MS));
    cr_expect_neq(running.error.status, STATUS_OK);
    client_destroy(client);
    child_stop(&cluster.router);
}

Test(drain, a_worker_in_its_delay_gets_nothing_of_a_router_that_knows)
{
    struct cluster cluster;
    static struct generation request;
    uint32_t prompt[64];
    const struct cluster_options options = {
        .n_contexts = 1,
        .n_generations = 2,
        .first_generation = (const char *const[]){LONG_DELAY, NULL}};
    cluster_start(&cluster, &options);
    struct client *client = client_create(cluster.router.grpc);
    RUN("drain", "--server", address_of(cluster.generations[0].control));
    EXPECT_OK();
    wait_workers_down(&cluster.router, 1);
    for (uint32_t i = 0; i < 6; i++) {
        set_request(&request, prompt, 4 + i);
        client_run(client, &request);
        const char *control = address_of(
            cluster.generations[1].control); /* the name has its port */
        cr_assert_str_eq(strrchr(request.generation_worker, ':'), strrchr(control, ':'));
    }
    RUN("drain", "--server", address_of(cluster.generations[0].control), "--wait-ms", "100ms");
    expect_refused("takes new requests for");
    client_destroy(client);
    child_signal(&cluster.generations[0], SIGTERM);
    wait_not_ready(&cluster.generations[0]);
    child_signal(&cluster.generations[0], SIGINT);
    child_signal(&cluster.generations[0], SIGTERM);
    expect_clean_exit(&cluster.generations[0]);
    cluster_stop(&cluster);
}

/* The router asks its workers again only in a minute. */
Test(drain, workers_in_their_delay_serve_who_has_not_heard_of_it)
{
    struct cluster cluster;
    static struct generation request;
    uint32_t prompt[64];
    const struct cluster_options options = {
        .n_contexts = 1,
        .n_generations = 1,
        .both = (const char *const[]){"--drain-delay-ms", "20s", NULL},
        .router = (const char *const[]){"--poll-ms", "1m", NULL},
    };
    cluster_start(&cluster, &options);
    struct client *client = client_create(cluster.router.grpc);
    child_signal(&cluster.contexts[0], SIGTERM);
    child_signal(&cluster.generations[0], SIGTERM);
    wait_not_ready(&cluster.contexts[0]);
    wait_not_ready(&cluster.generations[0]);
    set_request(&request, prompt, 16);
    client_run(client, &request);
    cr_expect_gt(request.kv_bytes_received, 0);
    client_destroy(client);
    expect_clean_exit(&cluster.contexts[0]);
    expect_clean_exit(&cluster.generations[0]);
    child_stop(&cluster.router);
}

Test(drain, when_the_delay_is_over_new_requests_are_refused)
{
    struct cluster cluster;
    const struct cluster_options options = {
        .n_contexts = 1,
        .n_generations = 1,
        .router = (const char *const[]){"--drain-delay-ms", "300ms", NULL}};
    cluster_start(&cluster, &options);
    RUN("drain", "--server", address_of(cluster.router.control), "--wait-ms", "60s");
    EXPECT_OK();
    EXPECT_IN(last_command.out, "requests running 0 waiting 0");
    RUN("generate", "--server", address_of(cluster.router.grpc), "In the beginning");
    expect_refused("DRAINING");
    cluster_stop(&cluster);
}

Test(drain, serve_gives_the_delay_to_its_router_and_stops_the_workers_after_it)
{
    struct child server;
    static struct generation running, late;
    uint32_t prompts[2][64];
    server_start(&server, (const char *const[]){"--drain-delay-ms", "5s", NULL});
    struct client *client = client_create(server.grpc);
    set_request(&running, prompts[0], 1500);
    client_start(client, &running);
    cr_assert(client_wait_messages(client, &running, 1, LIMIT_MS));
    child_signal(&server, SIGTERM);
    wait_not_ready(&server);
    set_request(&late, prompts[1], 200);
    client_start(client, &late);
    cr_assert(client_wait(client, &late, LIMIT_MS) && client_wait(client, &running, LIMIT_MS));
    cr_expect_eq(late.error.status, STATUS_OK, "%s", late.error.message);
    cr_expect_eq(late.n_generated, 200);
    cr_expect_eq(running.error.status, STATUS_OK, "%s", running.error.message);
    cr_expect_eq(running.n_generated, 1500);
    expect_clean_exit(&server);
    client_destroy(client);
}

Test(drain, a_second_signal_ends_serve_in_its_delay)
{
    struct child server;
    struct server_members members;
    server_start(&server, (const char *const[]){LONG_DELAY, NULL});
    server_members(server.pid, &members);
    child_signal(&server, SIGTERM);
    wait_not_ready(&server);
    child_signal(&server, SIGTERM);
    int status = child_wait(&server, LIMIT_MS);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGTERM, "wait status %d", status);
    expect_all_gone(&members);
}
