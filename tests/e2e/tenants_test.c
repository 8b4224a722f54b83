/* Tenants on a real cluster: tokens decide who may call what and how much, two tenants share nothing of the prefix cache
 * unless they say so, and what a failed worker says of itself reaches the log, not the client. */

#include "base/clock.h"
#include "support/client.h"
#include "support/cluster.h"
#include "support/command.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N_PROMPT 96u /* tokens: 6 blocks */

TestSuite(tenants, .init = command_folder_make, .fini = command_folder_remove);

static char tokens_path[160];
static char rows[8192];
static char tokens[4][80];
static uint32_t n_tokens;
static struct cluster cluster;
static uint32_t prompt[N_PROMPT];
static struct generation generation;

/* By `kvferry token`, as a person would: the token, and its row in the file. more: its flags. */
static const char *make_token(const char *tenant, const char *const *more)
{
    const char *words[16] = {"token", tenant};
    for (size_t i = 0; more && more[i]; i++)
        words[2 + i] = more[i];
    command_run(NULL, words);
    EXPECT_OK();
    char *token = tokens[n_tokens++];
    snprintf(token, sizeof tokens[0], "%.*s", (int)strcspn(last_command.out, "\n"),
             last_command.out);
    size_t n_before = strlen(rows);
    int n_added = snprintf(rows + n_before, sizeof rows - n_before, "%s", last_command.err);
    cr_assert(n_added > 0 && (size_t)n_added < sizeof rows - n_before, "the row fits");
    cr_assert_null(strstr(rows, token), "the row has no token");
    return token;
}

static void write_tokens_file(void)
{
    char text[sizeof rows + 16];
    snprintf(tokens_path, sizeof tokens_path, "%s", in_folder("tokens.yaml"));
    int n = snprintf(text, sizeof text, "tokens:\n%s", rows);
    write_file(tokens_path, text, (size_t)n);
}

/* more, of_worker: flags of the router and of the generation worker, a NULL last; NULL: none. */
static struct client *start_with(const char *const *more, const char *const *of_worker)
{
    const char *router[16] = {"--tokens-file", tokens_path};
    for (size_t i = 0; more && more[i]; i++)
        router[2 + i] = more[i];
    const char *generation_flags[8] = {"--local-prefill-max-tokens", "0"};
    for (size_t i = 0; of_worker && of_worker[i]; i++)
        generation_flags[2 + i] = of_worker[i];
    write_tokens_file();
    cluster_start(&cluster, &(struct cluster_options){.n_contexts = 1,
                                                      .n_generations = 1,
                                                      .router = router,
                                                      .generation = generation_flags});
    prompt_tokens(7, prompt, N_PROMPT);
    return client_create(cluster.router.grpc);
}

static struct client *start(const char *const *more)
{
    return start_with(more, NULL);
}

static void ask(struct client *client, const char *token, uint32_t max_tokens)
{
    generation = (struct generation){.tokens = prompt,
                                     .n_tokens = N_PROMPT,
                                     .max_tokens = max_tokens,
                                     .ignore_eos = true,
                                     .token = token};
    client_start(client, &generation);
    cr_assert(client_wait(client, &generation, 120000), "no end");
}

/* The router's figures are brought up to date a little later than its replies. */
static double router_figure(const char *name, double least)
{
    uint64_t until_ns = clock_now_ns() + 30 * NS_PER_S;
    double value;
    while ((value = child_metric(&cluster.router, name, "")) < least) {
        cr_assert_lt(clock_now_ns(), until_ns, "%s is %g still", name, value);
        (void)poll(NULL, 0, 10);
    }
    return value;
}

static void expect_cached(struct client *client, const char *token, uint32_t n_cached)
{
    static const char HITS[] = "kvferry_router_prefix_hit_tokens_total";
    static const char QUERIES[] = "kvferry_router_prefix_query_tokens_total";
    double hits = router_figure(HITS, 0), queries = router_figure(QUERIES, 0);
    ask(client, token, 4);
    cr_assert_eq(generation.error.status, STATUS_OK, "%s", generation.error.message);
    cr_assert_eq(generation.cached_tokens, n_cached, "%u of %u", generation.cached_tokens,
                 n_cached);
    (void)router_figure(QUERIES, queries + N_PROMPT);
    hits = router_figure(HITS, 0) - hits;
    cr_assert_eq(hits, n_cached ? N_PROMPT : 0, "the router thought that %g are held", hits);
}

Test(tenants, a_prompt_of_another_tenant_is_one_that_nobody_has_asked)
{
    static const char *const SHARES[] = {"--shares-prefix-cache", "family", NULL};
    const char *a = make_token("a", NULL), *b = make_token("b", NULL);
    const char *c = make_token("c", SHARES), *d = make_token("d", SHARES);
    struct client *client = start(NULL);

    expect_cached(client, a, 0);
    uint64_t first_bytes = generation.kv_bytes_received;
    expect_cached(client, a, N_PROMPT - 16); /* the last token is always computed */
    expect_cached(client, b, 0);
    cr_assert_eq(generation.kv_bytes_received, first_bytes);
    expect_cached(client, c, 0);
    expect_cached(client, d, N_PROMPT - 16);
    expect_cached(client, b, N_PROMPT - 16);
    client_destroy(client);
    cluster_stop(&cluster);
}

Test(tenants, a_token_opens_what_its_row_says_and_health_needs_none)
{
    static const char *const ONLY[] = {"--methods", "Tokenize", NULL};
    const char *a = make_token("a", NULL), *watcher = make_token("watcher", ONLY);
    struct client *client = start(NULL);
    char address[32], file[160];
    snprintf(address, sizeof address, "%s", address_of(cluster.router.grpc));

    ask(client, NULL, 4);
    cr_assert_eq(generation.error.status, STATUS_UNAUTHENTICATED);
    cr_assert_eq(generation.error.grpc_code, 16);
    ask(client, "kvf_0000", 4);
    cr_assert_eq(generation.error.status, STATUS_UNAUTHENTICATED);
    ask(client, watcher, 4);
    cr_assert_eq(generation.error.status, STATUS_NOT_ALLOWED);
    cr_assert_eq(generation.error.grpc_code, 7);
    ask(client, a, 4);
    cr_assert_eq(generation.error.status, STATUS_OK, "%s", generation.error.message);
    cr_assert_eq(
        child_metric(&cluster.router, "kvferry_token_failures_total", "reason=\"no_token\""), 1);
    cr_assert_eq(
        child_metric(&cluster.router, "kvferry_token_failures_total", "reason=\"unknown_token\""),
        1);
    cr_assert_eq(
        child_metric(&cluster.router, "kvferry_token_failures_total", "reason=\"not_allowed\""), 1);
    cr_assert_eq(child_metric(&cluster.router, "kvferry_tenant_tokens_total", "tenant=\"a\""),
                 N_PROMPT + 4);

    setenv("KVFERRY_TOKEN", watcher, 1);
    RUN("generate", "--server", address, "In the beginning");
    expect_refused("NOT_ALLOWED: this method is not allowed with this token");
    unsetenv("KVFERRY_TOKEN");
    RUN("generate", "--server", address, "In the beginning");
    expect_refused("UNAUTHENTICATED: no bearer token");
    snprintf(file, sizeof file, "%s", in_folder("a.token"));
    write_file(file, a, strlen(a));
    RUN("generate", "--server", address, "--max-tokens", "2", "--token-file", file,
        "In the beginning");
    EXPECT_OK();
    cr_assert_not(child_log_has(&cluster.router, a), "tokens are not logged");
    client_destroy(client);
    cluster_stop(&cluster);
}

static void wait_for_status(struct client *client, const char *token, enum status status)
{
    uint64_t until_ns = clock_now_ns() + 30 * NS_PER_S;
    do {
        cr_assert_lt(clock_now_ns(), until_ns, "still %s", status_name(generation.error.status));
        (void)poll(NULL, 0, 20);
        ask(client, token, 1);
    } while (generation.error.status != status);
}

Test(tenants, a_file_that_changes_counts_without_a_restart)
{
    const char *a = make_token("a", NULL);
    struct client *client = start(NULL);
    const char *b = make_token("b", NULL);
    ask(client, b, 1);
    cr_assert_eq(generation.error.status, STATUS_UNAUTHENTICATED);
    write_tokens_file();
    wait_for_status(client, b, STATUS_OK);
    write_file(tokens_path, "tokens: nonsense\n", 17);
    cr_assert(child_log_wait(&cluster.router, "the last valid one is still in use"));
    ask(client, a, 1);
    cr_assert_eq(generation.error.status, STATUS_OK, "%s", generation.error.message);
    client_destroy(client);
    cluster_stop(&cluster);
}

Test(tenants, a_refusal_names_the_time_at_which_it_will_be_let_in)
{
    static const char *const QUOTA[] = {"--tokens-per-minute", "600", NULL};
    const char *a = make_token("a", QUOTA);
    struct client *client = start(NULL);
    ask(client, a, 504); /* 96 and 504: all of it; what is not generated comes back */
    uint64_t used_ns = clock_now_ns();
    cr_assert_eq(generation.error.status, STATUS_OK, "%s", generation.error.message);
    cr_assert_eq(generation.n_generated, 504);
    ask(client, a, 4);
    cr_assert_eq(generation.error.status, STATUS_QUOTA);
    cr_assert_eq(generation.error.grpc_code, 8);
    uint32_t wait_ms = generation.error.retry_after_ms;
    cr_assert(wait_ms > 0 && wait_ms <= 10000, "%u ms for 100 of 600 a minute", wait_ms);
    uint64_t told_ns = clock_now_ns();
    while (clock_now_ns() < told_ns + wait_ms * NS_PER_MS)
        (void)poll(NULL, 0, 10);
    ask(client, a, 4);
    cr_assert_eq(generation.error.status, STATUS_OK, "told %u ms, %llu ms after it was used up",
                 wait_ms, (told_ns - used_ns) / NS_PER_MS);
    client_destroy(client);
    cluster_stop(&cluster);
}

Test(tenants, two_tenants_may_use_the_same_request_id)
{
    const char *a = make_token("a", NULL), *b = make_token("b", NULL);
    struct client *client = start(NULL);
    static struct generation first, second, third;
    const struct generation request = {.tokens = prompt,
                                       .n_tokens = N_PROMPT,
                                       .max_tokens = 400,
                                       .ignore_eos = true,
                                       .request_id = "same"};
    first = second = third = request;
    first.token = third.token = a;
    second.token = b;
    client_start(client, &first);
    cr_assert(client_wait_messages(client, &first, 1, 60000));
    client_start(client, &second);
    client_start(client, &third);
    cr_assert(client_wait(client, &third, 60000));
    cr_assert_eq(third.error.status, STATUS_DUPLICATE_REQUEST);
    cr_assert(client_wait_messages(client, &second, 1, 60000));
    client_cancel(&first);
    cr_assert(client_wait(client, &first, 60000) && client_wait(client, &second, 60000));
    cr_assert_eq(second.error.status, STATUS_OK, "%s", second.error.message);
    client_destroy(client);
    cluster_stop(&cluster);
}

/* Of 64 requests at once no more run than the quota says, and all that are refused are told QUOTA. */
Test(tenants, no_more_run_at_once_than_the_quota_says)
{
    enum { N = 64 };
    static struct generation all[N];
    static const char *const QUOTA[] = {"--requests-at-once", "4", NULL};
    const char *a = make_token("a", QUOTA);
    struct client *client = start(NULL);
    for (uint32_t i = 0; i < N; i++) {
        all[i] = (struct generation){.tokens = prompt,
                                     .n_tokens = N_PROMPT,
                                     .max_tokens = 600,
                                     .ignore_eos = true,
                                     .token = a};
        client_start(client, &all[i]);
    }
    uint32_t n_ok = 0, n_refused = 0;
    for (uint32_t i = 0; i < N; i++) {
        cr_assert(client_wait(client, &all[i], 120000));
        n_ok += all[i].error.status == STATUS_OK;
        n_refused += all[i].error.status == STATUS_QUOTA && all[i].error.retry_after_ms > 0;
    }
    cr_assert_eq(n_ok + n_refused, N);
    cr_assert(n_ok >= 4 && n_ok < N, "%u of %u", n_ok, N);
    cr_assert_eq(child_metric(&cluster.router, "kvferry_tenant_requests_total", "tenant=\"a\""),
                 n_ok);
    /* Who has seen the end of a request finds its place free, one after the other. */
    for (int i = 0; i < 50; i++) {
        ask(client, a, 1);
        cr_assert_eq(generation.error.status, STATUS_OK, "%d: %s", i, generation.error.message);
    }
    client_destroy(client);
    cluster_stop(&cluster);
}

/* A flood of 24 requests on a worker that decodes two at a time, and one that comes after them: it ends behind those that
 * decoded already and one turn of the flood's. */
static void expect_one_overtakes_the_flood(const char *flood_token, struct generation one)
{
    enum { N_FLOOD = 24, AT_ONCE = 2 };
    static struct generation flood[N_FLOOD], other;
    static const char *const NARROW[] = {"--sequences-max", "2", "--local-prefill-max-tokens", "0",
                                         NULL};
    static const char *const FILE_OF[] = {"--tokens-file", tokens_path, NULL};
    write_tokens_file();
    cluster_start(&cluster, &(struct cluster_options){.n_contexts = 1,
                                                      .n_generations = 1,
                                                      .router = FILE_OF,
                                                      .generation = NARROW});
    struct client *client = client_create(cluster.router.grpc);
    prompt_tokens(7, prompt, N_PROMPT);
    for (uint32_t i = 0; i < N_FLOOD; i++) {
        flood[i] = (struct generation){.tokens = prompt,
                                       .n_tokens = N_PROMPT,
                                       .max_tokens = 200,
                                       .ignore_eos = true,
                                       .token = flood_token};
        client_start(client, &flood[i]);
    }
    other = (struct generation){.tokens = prompt,
                                .n_tokens = N_PROMPT,
                                .max_tokens = 200,
                                .ignore_eos = true,
                                .token = one.token,
                                .has_priority = one.has_priority,
                                .priority = one.priority};
    uint64_t until_ns = clock_now_ns() + 60 * NS_PER_S;
    while (child_metric(&cluster.generations[0], "kvferry_decodes_waiting", "") <
           N_FLOOD - AT_ONCE - 1) {
        cr_assert_lt(clock_now_ns(), until_ns, "the flood does not wait");
        (void)poll(NULL, 0, 1);
    }
    client_start(client, &other);
    cr_assert(client_wait(client, &other, 120000));
    cr_assert_eq(other.error.status, STATUS_OK, "%s", other.error.message);
    uint32_t n_before = 0, n_after = 0;
    for (uint32_t i = 0; i < N_FLOOD; i++) {
        cr_assert(client_wait(client, &flood[i], 120000));
        cr_assert_eq(flood[i].error.status, STATUS_OK, "%s", flood[i].error.message);
        n_before += flood[i].ended_ns < other.ended_ns && flood[i].ended_ns > other.started_ns;
        n_after += flood[i].ended_ns > other.ended_ns;
    }
    cr_assert_leq(n_before, 3 * AT_ONCE, "%u ended while it waited and decoded", n_before);
    cr_assert_geq(n_after, N_FLOOD / 2, "it overtook only %u", n_after);
    client_destroy(client);
    cluster_stop(&cluster);
}

Test(tenants, a_flood_keeps_no_other_tenant_waiting)
{
    static const char *const URGENT[] = {"--priority", "100", NULL};
    const char *a = make_token("a", URGENT), *b = make_token("b", NULL);
    expect_one_overtakes_the_flood(a, (struct generation){.token = b});
}

Test(tenants, a_request_of_high_priority_overtakes_its_tenants_flood)
{
    static const char *const MAY[] = {"--priority", "-5", "--priority-max", "100", NULL};
    const char *a = make_token("a", MAY);
    expect_one_overtakes_the_flood(
        a, (struct generation){.token = a, .has_priority = true, .priority = 100});
}

Test(tenants, a_request_asks_for_no_more_priority_than_its_tenant_may)
{
    static const char *const MAY[] = {"--priority-max", "5", NULL};
    const char *a = make_token("a", MAY), *b = make_token("b", NULL);
    struct client *client = start(NULL);
    static const struct {
        int which;
        int32_t priority;
        enum status status;
    } CASES[] = {
        {0, 5, STATUS_OK},  {0, 6, STATUS_NOT_ALLOWED}, {0, 101, STATUS_INVALID_ARGUMENT},
        {1, -9, STATUS_OK}, {1, 1, STATUS_NOT_ALLOWED}, {1, -101, STATUS_INVALID_ARGUMENT},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        static struct generation asked;
        asked = (struct generation){.tokens = prompt,
                                    .n_tokens = N_PROMPT,
                                    .max_tokens = 2,
                                    .token = CASES[i].which == 0 ? a : b,
                                    .has_priority = true,
                                    .priority = CASES[i].priority};
        client_start(client, &asked);
        cr_assert(client_wait(client, &asked, 60000));
        cr_assert_eq(asked.error.status, CASES[i].status, "%zu: %s", i, asked.error.message);
        if (asked.error.status != STATUS_OK)
            cr_assert_str_eq(asked.error.field, "priority");
    }
    char address[32];
    snprintf(address, sizeof address, "%s", address_of(cluster.router.grpc));
    setenv("KVFERRY_TOKEN", a, 1);
    RUN("generate", "--server", address, "--priority", "6", "In the beginning");
    expect_refused("NOT_ALLOWED: priority is 6; you may ask for 5 at most");
    RUN("generate", "--server", address, "--priority", "1.5", "In the beginning");
    expect_misused("priority is 1.5; it must be a whole number");
    RUN("generate", "--server", address, "--priority", "5", "--max-tokens", "2",
        "In the beginning");
    EXPECT_OK();
    unsetenv("KVFERRY_TOKEN");
    client_destroy(client);
    cluster_stop(&cluster);
}

Test(tenants, a_dead_workers_address_is_in_the_log_and_not_in_the_clients_error)
{
    static const char *const NO_WAIT[] = {"--wait-max", "0",   "--attempts-max",  "1",
                                          "--poll-ms",  "60s", "--poll-limit-ms", "60s",
                                          NULL};
    const char *a = make_token("a", NULL);
    struct client *client = start(NO_WAIT);
    char address[32];
    snprintf(address, sizeof address, "%s", address_of(cluster.generations[0].control));
    ask(client, a, 2);
    cr_assert_eq(generation.error.status, STATUS_OK, "%s", generation.error.message);
    child_kill(&cluster.generations[0]);
    ask(client, a, 2);
    cr_assert_eq(generation.error.status, STATUS_PEER_LOST, "%s",
                 status_name(generation.error.status));
    cr_assert_null(strstr(generation.error.message, "127.0.0.1"), "%s", generation.error.message);
    cr_assert_null(strstr(generation.error.message, strchr(address, ':')), "%s",
                   generation.error.message);
    cr_assert(child_log_wait(&cluster.router, "\"status\":\"PEER_LOST\",\"why\":"));
    client_destroy(client);
    cluster_stop(&cluster);
}

/* More than the worker takes on one connection, so that some wait in the router; by several connections of the client. */
enum { N_CROWD = 320, CROWD_CLIENTS = 4 };

static struct generation crowd[N_CROWD];

Test(tenants, a_small_call_does_not_wait_behind_a_crowd_of_another_tenant)
{
    static const char *const PATIENT[] = {"--wait-limit-ms", "10m", "--wait-max", "400", NULL};
    /* So few that most of the crowd waits while the rest of it is still sent. */
    static const char *const FEW[] = {"--sequences-max", "16", "--queue-max", "16", NULL};
    const char *a = make_token("a", NULL), *b = make_token("b", NULL);
    struct client *client = start_with(PATIENT, FEW);
    struct client *clients[CROWD_CLIENTS];
    for (uint32_t i = 0; i < CROWD_CLIENTS; i++)
        clients[i] = client_create(cluster.router.grpc);
    for (uint32_t i = 0; i < N_CROWD; i++) {
        crowd[i] = (struct generation){.tokens = prompt,
                                       .n_tokens = N_PROMPT,
                                       .max_tokens = 24,
                                       .ignore_eos = true,
                                       .deadline_ms = 600000,
                                       .token = a};
        client_start(clients[i % CROWD_CLIENTS], &crowd[i]);
    }
    (void)router_figure("kvferry_requests_waiting", 1);
    ask(client, b, 2);
    cr_assert_eq(generation.error.status, STATUS_OK, "%s", generation.error.message);
    uint32_t n_later = 0;
    for (uint32_t i = 0; i < N_CROWD; i++) {
        cr_assert(client_wait(clients[i % CROWD_CLIENTS], &crowd[i], 600000));
        cr_assert_eq(crowd[i].error.status, STATUS_OK, "%s", crowd[i].error.message);
        n_later += crowd[i].ended_ns > generation.ended_ns;
    }
    cr_assert_gt(n_later, 32, "it waited for nearly all of them");
    for (uint32_t i = 0; i < CROWD_CLIENTS; i++)
        client_destroy(clients[i]);
    client_destroy(client);
    cluster_stop(&cluster);
}
