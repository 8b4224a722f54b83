/* A context worker whose KV a generation worker cannot take is not paired with it, whatever it is that
 * differs: prompts cross from the others, and ps, log and readiness say why that one is not used. */

#include "support/client.h"
#include "support/cluster.h"
#include "support/command.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_PROMPT = 200, N_REQUESTS = 6 };

static const char *const GENERATION[] = {"--local-prefill-max-tokens", "0", NULL};

TestSuite(misfit, .init = command_folder_make, .fini = command_folder_remove);

/* What `ps` prints under the line of a worker of that port; it may be the next worker's. */
static const char *line_under(uint16_t port)
{
    static char line[512];
    const char *found = strstr(last_command.out, address_of(port));
    found = found ? strchr(found, '\n') : NULL;
    snprintf(line, sizeof line, "%.*s", found ? (int)strcspn(found + 1, "\n") : 0,
             found ? found + 1 : "");
    return line;
}

/* Asks ps until it says that of the worker. */
static void wait_until_said(const struct cluster *cluster, uint16_t port, const char *part)
{
    uint64_t until_ns = clock_now_ns() + COMMAND_LIMIT_NS;
    do {
        cr_assert_lt(clock_now_ns(), until_ns, "\"%s\" is never said:\n%s", part, last_command.out);
        RUN("ps", "--control", address_of(cluster->router.control));
        EXPECT_OK();
    } while (!strstr(line_under(port), part));
}

/* Different prompts, all of which must cross. */
static void expect_all_cross(const struct cluster *cluster, uint64_t seed)
{
    static uint32_t prompts[N_REQUESTS][N_PROMPT];
    static struct generation generations[N_REQUESTS];
    struct client *client = client_create(cluster->router.grpc);
    for (uint32_t i = 0; i < N_REQUESTS; i++) {
        prompt_tokens(seed + i, prompts[i], N_PROMPT);
        generations[i] = (struct generation){
            .tokens = prompts[i], .n_tokens = N_PROMPT, .max_tokens = 4, .ignore_eos = true};
        client_start(client, &generations[i]);
    }
    for (uint32_t i = 0; i < N_REQUESTS; i++) {
        cr_assert(client_wait(client, &generations[i], 60000));
        cr_assert_eq(generations[i].error.status, STATUS_OK, "%s", generations[i].error.message);
        cr_assert_gt(generations[i].kv_bytes_received, 0, "prompt %u was computed locally", i);
    }
    client_destroy(client);
}

/* Lines of a process's log that have both. */
static uint32_t count_lines(const struct child *child, const char *part, const char *other)
{
    char path[256], line[1024];
    uint32_t n = 0;
    snprintf(path, sizeof path, "%s/%s.log", child->folder, child->name);
    FILE *file = fopen(path, "r");
    cr_assert_not_null(file);
    while (fgets(line, sizeof line, file))
        n += strstr(line, part) && strstr(line, other);
    fclose(file);
    return n;
}

static void an_odd_one_beside_a_good_one(const char *const *odd, const char *reason)
{
    struct cluster cluster;
    cluster_start(&cluster, &(struct cluster_options){.n_contexts = 2,
                                                      .n_generations = 1,
                                                      .n_misfits = 1,
                                                      .first_context = odd,
                                                      .generation = GENERATION});
    wait_until_said(&cluster, cluster.contexts[0].control, reason);
    cr_assert(strstr(line_under(cluster.contexts[0].control), "does not use it: gen-worker"));
    expect_all_cross(&cluster, 1);
    cr_assert_eq(count_lines(&cluster.router, "does not fit", "warn"), 1, "said once");
    cr_assert_eq(
        child_metric(&cluster.router, "kvferry_peers", "role=\"ctx-worker\",state=\"not_ready\""),
        1);
    cr_assert_eq(count_lines(&cluster.generations[0], "cannot be used", ""), 0,
                 "the generation worker never had to refuse it");
    cluster_wait_quiet(&cluster);
    cluster_stop(&cluster);
}

Test(misfit, another_block_size_is_not_paired)
{
    an_odd_one_beside_a_good_one((const char *const[]){"--kv-block-tokens", "32", NULL},
                                 "block_tokens is 16 here and 32 there");
}

Test(misfit, another_kv_dtype_is_not_paired)
{
    an_odd_one_beside_a_good_one((const char *const[]){"--kv-dtype", "f32", NULL},
                                 "dtype is bf16 here and f32 there");
}

Test(misfit, another_path_of_attention_is_not_paired)
{
    an_odd_one_beside_a_good_one((const char *const[]){"--attention-path", "unfused", NULL},
                                 "compute_whole-asis");
}

Test(misfit, another_transport_is_not_paired)
{
    an_odd_one_beside_a_good_one((const char *const[]){"--kv-transport", "shm-read", NULL},
                                 "transport is am-tcp here and shm-read there");
}

Test(misfit, one_that_encrypts_is_not_paired_with_one_that_does_not)
{
    an_odd_one_beside_a_good_one((const char *const[]){"--kv-transport", "tls", NULL},
                                 "transport is am-tcp here and tls there");
}

/* Its KV has other bits than that of one process. */
static const char *const OTHER_NUMERICS[] = {"--attention-math", "bf16", NULL};

Test(misfit, other_numerics_are_not_paired)
{
    an_odd_one_beside_a_good_one(OTHER_NUMERICS, "-compute-asis-3 here and cpu-f32-");
}

/* One greedy request of a prompt, which is always the same. */
static struct generation ask_once(const struct cluster *cluster)
{
    static uint32_t prompt[N_PROMPT];
    struct client *client = client_create(cluster->router.grpc);
    struct generation generation = {
        .tokens = prompt, .n_tokens = N_PROMPT, .max_tokens = 12, .ignore_eos = true};
    prompt_tokens(77, prompt, N_PROMPT);
    client_run(client, &generation);
    client_destroy(client);
    return generation;
}

Test(misfit, other_numerics_that_are_allowed_are_paired_and_leave_nothing_in_the_cache)
{
    static const char *const ALLOWING[] = {"--local-prefill-max-tokens", "0", "--allow-numerics",
                                           "any", NULL};
    struct cluster cluster;
    cluster_start(&cluster, &(struct cluster_options){.n_generations = 1});
    const struct generation single = ask_once(&cluster);
    cluster_stop(&cluster);

    cluster_start(&cluster, &(struct cluster_options){.n_contexts = 1,
                                                      .n_generations = 1,
                                                      .context = OTHER_NUMERICS,
                                                      .generation = ALLOWING});
    for (uint32_t i = 0; i < 2; i++) {
        const struct generation crossed = ask_once(&cluster);
        cr_assert_eq(crossed.kv_tokens_received, N_PROMPT, "time %u", i);
        cr_assert_eq(crossed.n_generated, 12);
    }
    RUN("ps", "--json", "--control", address_of(cluster.router.control));
    EXPECT_OK();
    cr_assert(strstr(last_command.out, "\"allow_numerics\": \"any\""), "%s", last_command.out);
    cr_assert(strstr(last_command.out, "-bf16-asis-3\""), "%s", last_command.out);

    /* What is computed here now finds nothing that was computed there, and is found itself. */
    child_kill(&cluster.contexts[0]);
    wait_until_said(&cluster, cluster.contexts[0].control, "does not use it: ");
    for (uint32_t i = 0; i < 2; i++) {
        const struct generation local = ask_once(&cluster);
        cr_assert_eq(local.kv_tokens_received, 0);
        cr_assert_eq(local.cached_tokens, i == 0 ? 0 : N_PROMPT - N_PROMPT % 16, "time %u", i);
        cr_assert_eq(local.n_generated, single.n_generated);
        cr_assert_arr_eq(local.generated, single.generated,
                         single.n_generated * sizeof *single.generated);
    }
    cluster_stop(&cluster);
}

Test(misfit, each_generation_worker_is_paired_with_the_context_worker_that_fits_it)
{
    static const char *const ODD[] = {"--kv-block-tokens", "32", NULL};
    struct cluster cluster;
    cluster_start(&cluster, &(struct cluster_options){.n_contexts = 2,
                                                      .n_generations = 2,
                                                      .first_context = ODD,
                                                      .first_generation = ODD,
                                                      .generation = GENERATION});
    wait_until_said(&cluster, cluster.contexts[0].control, "with every generation worker");
    expect_all_cross(&cluster, 1);
    for (uint32_t i = 0; i < 2; i++)
        cr_assert_gt(child_metric(&cluster.generations[i], "kvferry_kv_transfer_bytes_total", ""),
                     0);

    /* The one that fits the first is gone: no other is taken for it. */
    child_kill(&cluster.contexts[0]);
    wait_until_said(&cluster, cluster.contexts[0].control, "does not use it: ");
    expect_all_cross(&cluster, 100);
    cluster_wait_quiet(&cluster);
    cluster_stop(&cluster);
}

/* `ps`: the state in the router's own line. */
static void wait_router_state(const struct cluster *cluster, const char *state)
{
    uint64_t until_ns = clock_now_ns() + COMMAND_LIMIT_NS;
    char line[64];
    snprintf(line, sizeof line, "%-22s %s", address_of(cluster->router.control), state);
    do {
        cr_assert_lt(clock_now_ns(), until_ns, "never %s:\n%s", state, last_command.out);
        RUN("ps", "--control", address_of(cluster->router.control));
        EXPECT_OK();
    } while (!strstr(last_command.out, line));
}

Test(misfit, where_prompts_must_cross_a_router_without_a_pair_does_not_serve)
{
    static const char *const ROUTER[] = {"--no-local-prefill", "--wait-limit-ms", "500ms", NULL};
    struct cluster cluster;
    cluster_start(&cluster, &(struct cluster_options){.n_contexts = 1,
                                                      .n_generations = 1,
                                                      .generation = GENERATION,
                                                      .router = ROUTER});
    wait_router_state(&cluster, "ready");
    child_stop(&cluster.contexts[0]);
    snprintf(cluster.contexts[0].arguments[cluster.contexts[0].n_arguments++], 192,
             "--kv-block-tokens=32");
    child_restart(&cluster.contexts[0]);
    wait_until_said(&cluster, cluster.contexts[0].control, "block_tokens");
    wait_router_state(&cluster, "not ready");
    RUN("generate", "--server", address_of(cluster.router.grpc), "In the beginning");
    expect_refused("no context worker is ready");
    cluster_stop(&cluster);
}
