/* Processes die, stop and leave at every moment of a hand-over: each request still ends exactly
 * once, in time, with the single process's tokens or one typed status, and nothing is left owned. */

#include "base/random.h"
#include "support/expect.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

/* A sanitizer makes processes some ten times slower: less work takes as long, and faults find it on
 * its way all the same. */
#ifdef KVFERRY_SANITIZED
#define N_REQUESTS  8u
#define LONG_PROMPT 600u
static const int KILL_AFTER_MS[] = {0, 150, 600};
#else
#define N_REQUESTS  16u
#define LONG_PROMPT 1900u
static const int KILL_AFTER_MS[] = {0, 3, 10, 30, 80, 150, 300, 600};
#endif
#define N_KILLS  (sizeof KILL_AFTER_MS / sizeof *KILL_AFTER_MS)
#define N_TOKENS 24u

static const char *const GENERATION[] = {"--local-prefill-max-tokens", "8", NULL};
/* Small chunks: a long prompt takes many steps, so that faults find it on its way. */
static const char *const CONTEXT[] = {"--prefill-chunk-tokens", "64", NULL};

static void long_and_short(struct work *work)
{
    uint32_t lengths[N_REQUESTS];
    for (uint32_t i = 0; i < N_REQUESTS; i++)
        lengths[i] = i % 4 == 3 ? 40 + i : LONG_PROMPT - 64 * i;
    work_create(work, lengths, N_REQUESTS, N_TOKENS, NULL);
}

static void start(struct cluster *cluster, uint32_t n_contexts, uint32_t n_generations)
{
    cluster_start(cluster, &(struct cluster_options){.n_contexts = n_contexts,
                                                     .n_generations = n_generations,
                                                     .context = CONTEXT,
                                                     .generation = GENERATION});
}

/* Each time with a salt of its own: what is cached from before would cross no more. */
static struct generation *start_all(const struct work *work, struct client *client)
{
    static uint32_t n_started;
    char salt[16];
    snprintf(salt, sizeof salt, "%u", n_started++);
    return work_start(work, client, salt);
}

/* Returns how many succeeded. */
static uint32_t finish_all(const struct work *work, struct client *client,
                           struct generation *generations)
{
    uint32_t n_done = 0;
    for (uint32_t i = 0; i < work->n; i++) {
        cr_assert(client_wait(client, &generations[i], 90000), "request %u does not end", i);
        n_done += expect_same_or_typed(work, i, &generations[i]);
    }
    free(generations);
    return n_done;
}

/* A healthy cluster again: everything succeeds and KV crosses. */
static void expect_recovered(const struct work *work, struct cluster *cluster,
                             struct client *client)
{
    cluster_wait_quiet(cluster);
    cr_assert_eq(finish_all(work, client, start_all(work, client)), work->n);
    cluster_wait_quiet(cluster);
}

Test(fault, a_context_worker_killed_at_any_moment_costs_time_only)
{
    struct work work;
    long_and_short(&work);
    struct cluster cluster;
    start(&cluster, 1, 1);
    struct client *client = client_create(cluster.router.grpc);
    for (uint32_t round = 0; round < N_KILLS; round++) {
        struct generation *generations = start_all(&work, client);
        (void)poll(NULL, 0, KILL_AFTER_MS[round]);
        child_kill(&cluster.contexts[0]);
        cr_assert_eq(finish_all(&work, client, generations), work.n,
                     "local prefill must take over");
        cluster_wait_quiet(&cluster);
        child_restart(&cluster.contexts[0]);
        cluster_wait_ready(&cluster, 1, 1);
    }
    double before = child_metric(&cluster.generations[0], "kvferry_kv_transfer_bytes_total", "");
    expect_recovered(&work, &cluster, client);
    cr_assert_gt(child_metric(&cluster.generations[0], "kvferry_kv_transfer_bytes_total", ""),
                 before, "no KV crosses after the restart");
    client_destroy(client);
    cluster_stop(&cluster);
    work_destroy(&work);
}

/* No prefill is under way when the context worker dies, so that nothing tells the generation worker:
 * its next prefill goes to a life that is over. */
Test(fault, the_first_prefill_after_a_restart_nobody_noticed_crosses_all_the_same)
{
    enum { N_PROMPT = 300 };
    uint32_t prompt[N_PROMPT];
    prompt_tokens(2, prompt, N_PROMPT);
    struct cluster cluster;
    start(&cluster, 1, 1);
    struct client *client = client_create(cluster.router.grpc);
    static const char *const salts[] = {"before", "after", "once more"};
    for (uint32_t i = 0; i < sizeof salts / sizeof *salts; i++) {
        struct generation generation = {.tokens = prompt,
                                        .n_tokens = N_PROMPT,
                                        .max_tokens = 4,
                                        .salt = salts[i],
                                        .ignore_eos = true};
        client_run(client, &generation);
        cr_assert_eq(generation.kv_tokens_recomputed, 0, "%s: computed here", salts[i]);
        cr_assert_eq(generation.kv_tokens_received, N_PROMPT, "%s", salts[i]);
        cluster_wait_quiet(&cluster);
        if (i > 0)
            continue;
        child_kill(&cluster.contexts[0]);
        child_restart(&cluster.contexts[0]);
        cluster_wait_ready(&cluster, 1, 1);
    }
    client_destroy(client);
    cluster_stop(&cluster);
}

Test(fault, a_generation_worker_killed_ends_or_moves_its_requests)
{
    struct work work;
    long_and_short(&work);
    struct cluster cluster;
    start(&cluster, 1, 2);
    struct client *client = client_create(cluster.router.grpc);
    static const int kill_after_ms[] = {0, 20, 100, 300};
    for (uint32_t round = 0; round < 4; round++) {
        struct child *victim = &cluster.generations[round % 2];
        struct generation *generations = start_all(&work, client);
        (void)poll(NULL, 0, kill_after_ms[round]);
        child_kill(victim);
        (void)finish_all(&work, client, generations);
        cluster_wait_quiet(&cluster); /* the context worker's pins ended with the streams */
        child_restart(victim);
        cluster_wait_ready(&cluster, 1, 2);
    }
    expect_recovered(&work, &cluster, client);
    client_destroy(client);
    cluster_stop(&cluster);
    work_destroy(&work);
}

static void survive_ten_seconds_of_silence(bool is_context)
{
    struct work work;
    long_and_short(&work);
    struct cluster cluster;
    start(&cluster, 1, 1);
    struct child *silent = is_context ? &cluster.contexts[0] : &cluster.generations[0];
    struct client *client = client_create(cluster.router.grpc);
    struct generation *generations = start_all(&work, client);
    (void)poll(NULL, 0, 60);
    child_signal(silent, SIGSTOP);
    (void)poll(NULL, 0, 10000);
    child_signal(silent, SIGCONT);
    (void)finish_all(&work, client, generations);
    cluster_wait_ready(&cluster, 1, 1);
    expect_recovered(&work, &cluster, client);
    client_destroy(client);
    cluster_stop(&cluster);
    work_destroy(&work);
}

Test(fault, a_context_worker_stopped_for_ten_seconds_is_survived)
{
    survive_ten_seconds_of_silence(true);
}

Test(fault, a_generation_worker_stopped_for_ten_seconds_is_survived)
{
    survive_ten_seconds_of_silence(false);
}

Test(fault, sigterm_under_load_finishes_what_was_accepted)
{
    struct work work;
    long_and_short(&work);
    struct cluster cluster;
    start(&cluster, 2, 2);
    struct client *client = client_create(cluster.router.grpc);
    struct generation *generations = start_all(&work, client);
    for (uint32_t i = 0; i < 4; i++)
        cr_assert(client_wait_messages(client, &generations[i], 1, 60000));

    child_signal(&cluster.generations[0], SIGTERM);
    child_signal(&cluster.contexts[0], SIGTERM);
    (void)finish_all(&work, client, generations);
    cr_assert_eq(child_wait(&cluster.generations[0], 60000), 0);
    cr_assert_eq(child_wait(&cluster.contexts[0], 60000), 0);

    /* What is left serves on. */
    cr_assert_eq(finish_all(&work, client, start_all(&work, client)), work.n);
    cluster_wait_quiet(&cluster);
    client_destroy(client);
    cluster_stop(&cluster);
    work_destroy(&work);
}

Test(fault, sigterm_to_the_router_finishes_open_streams_and_refuses_new_ones)
{
    struct work work;
    long_and_short(&work);
    struct cluster cluster;
    start(&cluster, 1, 1);
    struct client *client = client_create(cluster.router.grpc);
    struct generation *generations = start_all(&work, client);
    cr_assert(client_wait_messages(client, &generations[0], 1, 60000));
    child_signal(&cluster.router, SIGTERM);
    cr_assert_gt(finish_all(&work, client, generations), 0);
    cr_assert_eq(child_wait(&cluster.router, 60000), 0);
    cluster_wait_quiet(&cluster);
    client_destroy(client);
    cluster_stop(&cluster);
    work_destroy(&work);
}

Test(fault, a_pool_too_small_refuses_or_waits_and_never_wedges)
{
    struct work work;
    long_and_short(&work);
    /* One long request at a time on each worker. */
    char n_blocks[16];
    snprintf(n_blocks, sizeof n_blocks, "%u", LONG_PROMPT / 16 + 22);
    const char *const both[] = {"--kv-blocks", n_blocks, NULL};
    struct cluster cluster;
    cluster_start(&cluster, &(struct cluster_options){.n_contexts = 1,
                                                      .n_generations = 1,
                                                      .both = both,
                                                      .context = CONTEXT,
                                                      .generation = GENERATION});
    struct client *client = client_create(cluster.router.grpc);
    cr_assert_gt(finish_all(&work, client, start_all(&work, client)), 0);
    cluster_wait_quiet(&cluster);

    /* One that can never fit is refused at once. */
    struct cluster tiny;
    static const char *const few[] = {"--kv-blocks", "8", NULL};
    cluster_start(&tiny,
                  &(struct cluster_options){.n_contexts = 1, .n_generations = 1, .both = few});
    struct client *other = client_create(tiny.router.grpc);
    struct generation generation;
    work_request(&work, 0, &generation);
    client_start(other, &generation);
    cr_assert(client_wait(other, &generation, 30000));
    cr_assert_eq(generation.error.status, STATUS_NO_BLOCKS, "%s",
                 status_name(generation.error.status));
    client_destroy(other);
    cluster_stop(&tiny);

    client_destroy(client);
    cluster_stop(&cluster);
    work_destroy(&work);
}
