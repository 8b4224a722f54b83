/* A request that meets no ready worker waits for one, be they gone or not there yet: in a bounded queue, no
 * longer than the limit or its deadline, until it is cancelled or the router drains. So does one that meets full workers
 * only. What keeps it waiting is in the router's log. */

#include "support/client.h"
#include "support/cluster.h"
#include "support/command.h"
#include "support/ports.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { N_PROMPT = 100, N_REQUESTS = 4, LONG_TOKENS = 1900 };

TestSuite(wait, .init = command_folder_make, .fini = command_folder_remove);

static uint32_t prompt[N_PROMPT];
static struct generation requests[N_REQUESTS + 1]; /* and one of text */

static void wait_metric(const struct child *child, const char *name, const char *label,
                        double wanted)
{
    uint64_t until_ns = clock_now_ns() + COMMAND_LIMIT_NS;
    double value;
    while ((value = child_metric(child, name, label)) != wanted) {
        cr_assert_lt(clock_now_ns(), until_ns, "%s is %g", name, value);
        (void)poll(NULL, 0, 5);
    }
}

static void expect_waiting(const struct cluster *cluster, uint32_t n)
{
    wait_metric(&cluster->router, "kvferry_requests_waiting", "", n);
}

/* The generation worker was there and is gone, and the router knows it; or it has never seen one. */
enum absence { GONE, NEVER_SEEN };

static struct client *start_without_generation(struct cluster *cluster, enum absence absence,
                                               const char *const *router)
{
    cluster_start(cluster, &(struct cluster_options){.n_contexts = 1,
                                                     .n_generations = 1,
                                                     .router = router,
                                                     .is_cold = absence == NEVER_SEEN});
    child_kill(&cluster->generations[0]);
    /* By its first look at the workers it has loaded. */
    wait_metric(&cluster->router, "kvferry_peers", "role=\"gen-worker\",state=\"not_ready\"", 1);
    prompt_tokens(1, prompt, N_PROMPT);
    return client_create(cluster->router.grpc);
}

static struct generation *start(struct client *client, uint32_t i, uint32_t deadline_ms)
{
    requests[i] = (struct generation){.tokens = prompt,
                                      .n_tokens = N_PROMPT,
                                      .max_tokens = 4,
                                      .ignore_eos = true,
                                      .deadline_ms = deadline_ms};
    client_start(client, &requests[i]);
    return &requests[i];
}

static void expect_end(struct client *client, struct generation *request, enum status status)
{
    cr_assert(client_wait(client, request, 60000));
    cr_assert_eq(request->error.status, status, "%s: %s", status_name(request->error.status),
                 request->error.message);
}

static void expect_served_later(enum absence absence)
{
    /* The text goes by the thread for long ones. */
    static const char *const ROUTER[] = {"--wait-limit-ms", "60s", "--text-inline-bytes", "4",
                                         NULL};
    struct cluster cluster;
    struct client *client = start_without_generation(&cluster, absence, ROUTER);
    for (uint32_t i = 0; i < N_REQUESTS; i++)
        (void)start(client, i, 0);
    requests[N_REQUESTS] = (struct generation){
        .text = "In the beginning", .max_tokens = 4, .ignore_eos = true};
    client_start(client, &requests[N_REQUESTS]);
    expect_waiting(&cluster, N_REQUESTS + 1);
    cr_assert_eq(child_metric(&cluster.router, "kvferry_requests_running", ""), 0);
    child_restart(&cluster.generations[0]);
    for (uint32_t i = 0; i <= N_REQUESTS; i++) {
        expect_end(client, &requests[i], STATUS_OK);
        cr_assert_eq(requests[i].n_generated, 4);
    }
    expect_waiting(&cluster, 0);
    client_destroy(client);
    cluster_wait_quiet(&cluster);
    cluster_stop(&cluster);
}

Test(wait, a_request_goes_when_a_worker_is_back)
{
    expect_served_later(GONE);
}

Test(wait, a_request_goes_when_the_first_worker_is_there)
{
    expect_served_later(NEVER_SEEN);
}

static void expect_left(enum absence absence)
{
    static const char *const ROUTER[] = {"--wait-limit-ms", "60s", "--wait-max", "3", NULL};
    struct cluster cluster;
    struct client *client = start_without_generation(&cluster, absence, ROUTER);
    for (uint32_t i = 0; i < 3; i++)
        (void)start(client, i, 0);
    expect_waiting(&cluster, 3);
    expect_end(client, start(client, 3, 0), STATUS_QUEUE_FULL);

    client_cancel(&requests[0]);
    expect_end(client, &requests[0], STATUS_CANCELLED);
    expect_waiting(&cluster, 2);
    expect_end(client, start(client, 3, 300), STATUS_TIMED_OUT);
    expect_waiting(&cluster, 2);
    cr_assert_eq(child_metric(&cluster.router, "kvferry_requests_total", "reason=\"DEADLINE\""), 1);

    child_signal(&cluster.router, SIGTERM);
    expect_end(client, &requests[1], STATUS_DRAINING);
    expect_end(client, &requests[2], STATUS_DRAINING);
    cr_assert_eq(child_wait(&cluster.router, 60000), 0);
    client_destroy(client);
    cluster_stop(&cluster);
}

Test(wait, the_queue_is_bounded_and_left_by_cancel_deadline_and_drain)
{
    expect_left(GONE);
}

Test(wait, before_the_first_worker_the_queue_is_bounded_and_left_in_the_same_way)
{
    expect_left(NEVER_SEEN);
}

static void expect_told(enum absence absence)
{
    static const char *const ROUTER[] = {"--wait-limit-ms", "300ms", NULL};
    struct cluster cluster;
    struct client *client = start_without_generation(&cluster, absence, ROUTER);
    expect_end(client, start(client, 0, 0), STATUS_NO_GENERATION_WORKER);
    cr_assert_str_eq(requests[0].error.message,
                     "no generation worker is ready: waited 300 ms for one");
    client_destroy(client);
    cluster_stop(&cluster);
}

Test(wait, one_that_waits_too_long_is_told_what_lacks)
{
    expect_told(GONE);
}

Test(wait, before_the_first_worker_too)
{
    expect_told(NEVER_SEEN);
}

/* One place to decode and one to wait, which two long requests have. */
Test(wait, a_request_that_meets_full_workers_is_told_that_they_are_ready_and_full)
{
    static const char *const SMALL[] = {"--sequences-max", "1", "--queue-max", "1", NULL};
    static const char *const ROUTER[] = {"--wait-limit-ms", "300ms", NULL};
    struct cluster cluster;
    cluster_start(&cluster,
                  &(struct cluster_options){
                      .n_contexts = 1, .n_generations = 1, .generation = SMALL, .router = ROUTER});
    prompt_tokens(1, prompt, N_PROMPT);
    struct client *client = client_create(cluster.router.grpc);
    for (uint32_t i = 0; i < 2; i++) {
        struct generation *request = &requests[i];
        *request = (struct generation){
            .tokens = prompt, .n_tokens = N_PROMPT, .max_tokens = LONG_TOKENS, .ignore_eos = true};
        client_start(client, request);
        if (i == 0)
            cr_assert(client_wait_messages(client, request, 1, 60000));
    }
    wait_metric(&cluster.generations[0], "kvferry_decodes_waiting", "", 1);
    expect_end(client, start(client, 2, 0), STATUS_QUEUE_FULL);
    cr_assert_eq(requests[2].error.grpc_code, 8, "RESOURCE_EXHAUSTED");
    cr_assert_gt(requests[2].error.retry_after_ms, 0);
    cr_assert_str_eq(requests[2].error.message,
                     "1 generation worker is ready and full: waited 300 ms");
    for (uint32_t i = 0; i < 2; i++) {
        client_cancel(&requests[i]);
        cr_assert(client_wait(client, &requests[i], 60000));
    }
    client_destroy(client);
    cluster_stop(&cluster);
}

/* The worker that has the old one may not have heard yet that it was cancelled. */
Test(wait, an_id_that_was_cancelled_and_is_used_again_at_once_is_handed_over_like_any)
{
    static const char *const ALL_CROSS[] = {"--local-prefill-max-tokens", "0", NULL};
    struct cluster cluster;
    cluster_start(&cluster, &(struct cluster_options){
                                .n_contexts = 1, .n_generations = 1, .generation = ALL_CROSS});
    struct client *client = client_create(cluster.router.grpc);
    for (uint32_t i = 0; i < 20; i++) {
        struct generation *old = &requests[0], *again = &requests[1];
        prompt_tokens(100 + i, prompt, N_PROMPT);
        *old = (struct generation){.tokens = prompt,
                                   .n_tokens = N_PROMPT,
                                   .max_tokens = 4,
                                   .ignore_eos = true,
                                   .request_id = "again"};
        client_start(client, old);
        client_cancel(old);
        cr_assert(client_wait(client, old, 60000));
        do { /* the router itself may not have heard of it */
            *again = (struct generation){.tokens = prompt,
                                         .n_tokens = N_PROMPT,
                                         .max_tokens = 4,
                                         .ignore_eos = true,
                                         .request_id = "again"};
            client_start(client, again);
            cr_assert(client_wait(client, again, 60000));
        } while (again->error.status == STATUS_DUPLICATE_REQUEST);
        cr_assert_eq(again->error.status, STATUS_OK, "%s", again->error.message);
        cr_assert_str_not_empty(again->context_worker, "it was computed where it was decoded");
    }
    client_destroy(client);
    cluster_wait_quiet(&cluster);
    cluster_stop(&cluster);
}

/* Waits until a line of that file has all three. */
static void wait_line(int fd, const char *level, const char *who, const char *what)
{
    static char text[COMMAND_TEXT_MAX];
    uint64_t until_ns = clock_now_ns() + COMMAND_LIMIT_NS;
    for (;;) {
        ssize_t n = pread(fd, text, sizeof text - 1, 0);
        text[n > 0 ? n : 0] = '\0';
        char *rest = text, *line;
        while ((line = strsep(&rest, "\n")))
            if (strstr(line, level) && strstr(line, who) && strstr(line, what))
                return;
        cr_assert_lt(clock_now_ns(), until_ns, "the log never says %s %s %s", level, who, what);
        (void)poll(NULL, 0, 10);
    }
}

Test(wait, a_worker_that_was_never_there_is_in_the_log)
{
    struct command router;
    const char *const words[] = {
        "router",      KVFERRY_DEMO_MODEL,  ROUTER_PORTS,  "--generation-workers",
        "127.0.0.1:1", "--context-workers", "127.0.0.1:2", NULL};
    command_start(&router, NULL, words);
    wait_line(router.err_fd, "warn", "gen-worker 127.0.0.1:1 not ready: ", "refused");
    wait_line(router.err_fd, "warn", "ctx-worker 127.0.0.1:2 not ready: ", "refused");
    wait_line(router.err_fd, "warn", "not serving: ", "no generation worker is ready");
    cr_assert_eq(kill(router.pid, SIGTERM), 0);
    command_finish(&router);
    cr_assert_eq(router.exit_status, 0, "%s", router.err);
}

Test(wait, prompts_that_are_computed_where_they_are_decoded_are_in_the_log)
{
    struct cluster cluster;
    char path[256];
    cluster_start(&cluster, &(struct cluster_options){.n_contexts = 1, .n_generations = 1});
    snprintf(path, sizeof path, "%s/router.log", cluster.folder);
    FILE *log = fopen(path, "r");
    cr_assert_not_null(log);
    child_kill(&cluster.contexts[0]);
    wait_line(fileno(log), "warn", "no context worker is ready",
              "generation workers compute the prompts");
    fclose(log);
    cluster_stop(&cluster);
}
