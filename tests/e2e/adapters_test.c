/* Adapters: a prompt computed with one in one process and decoded in another gives the tokens of a single process, beside requests
 * with other adapters and without; caches do not mix; what a worker lacks is not asked of it, and what nobody has is refused. */
#include "proto/kvferry/v1/generation.pb-c.h"
#include "support/command.h"
#include "support/expect.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ADAPTERS KVFERRY_SOURCE_DIR "/tests/golden/adapters"

static const char DEMO_A[] = "a=" ADAPTERS "/demo", DEMO_B[] = "b=" ADAPTERS "/demo_other",
                  AS_A_IS_B[] = "a=" ADAPTERS "/demo_other", FOREIGN[] = "a=" ADAPTERS "/llama",
                  LATENTS[] = KVFERRY_SOURCE_DIR "/tests/golden/models/deepseek_v3_t4";

enum { N_KINDS = 3, N_LENGTHS = 5, N_TOKENS = 12, N_ALL = N_KINDS * N_LENGTHS };

static const char *const KINDS[N_KINDS] = {NULL, "a", "b"};
static const uint32_t LENGTHS[N_LENGTHS] = {1, 16, 65, 130, 513};
static uint32_t prompts[N_LENGTHS][513];

static const char *const BOTH[] = {"--adapter", DEMO_A, "--adapter", DEMO_B, NULL};

static void make_prompts(void)
{
    for (uint32_t i = 0; i < N_LENGTHS; i++)
        prompt_tokens(i + 1, prompts[i], LENGTHS[i]);
}

static struct generation request(uint32_t length, const char *adapter)
{
    return (struct generation){.model = adapter,
                               .tokens = prompts[length],
                               .n_tokens = LENGTHS[length],
                               .max_tokens = N_TOKENS,
                               .ignore_eos = true};
}

/* All at once, or one after the other. */
static void run_all(struct cluster *cluster, bool at_once, struct generation generations[N_ALL])
{
    struct client *client = client_create(cluster->router.grpc);
    for (uint32_t i = 0; i < N_ALL; i++) {
        generations[i] = request(i / N_KINDS, KINDS[i % N_KINDS]);
        client_start(client, &generations[i]);
        if (!at_once)
            cr_assert(client_wait(client, &generations[i], 120000));
    }
    for (uint32_t i = 0; i < N_ALL; i++) {
        cr_assert(client_wait(client, &generations[i], 120000), "request %u does not end", i);
        cr_assert_eq(generations[i].error.status, STATUS_OK, "request %u: %s", i,
                     generations[i].error.message);
        cr_assert_eq(generations[i].n_generated, N_TOKENS);
    }
    client_destroy(client);
}

static bool same(const struct generation *a, const struct generation *b)
{
    return memcmp(a->generated, b->generated, N_TOKENS * sizeof *a->generated) == 0;
}

Test(adapters, split_equals_single_in_company)
{
    static const char *const crossing[] = {"--local-prefill-max-tokens", "0", NULL};
    static struct generation single[N_ALL], split[N_ALL], again[N_ALL];
    struct cluster cluster;
    make_prompts();
    cluster_start(&cluster, &(struct cluster_options){.n_generations = 1, .both = BOTH});
    run_all(&cluster, false, single);
    cluster_stop(&cluster);
    cluster_start(&cluster,
                  &(struct cluster_options){
                      .n_contexts = 1, .n_generations = 1, .both = BOTH, .generation = crossing});
    run_all(&cluster, true, split);
    run_all(&cluster, true, again); /* out of the caches */
    cluster_wait_quiet(&cluster);
    cluster_stop(&cluster);
    uint32_t n_other = 0;
    for (uint32_t i = 0; i < N_ALL; i++) {
        cr_expect(same(&single[i], &split[i]), "request %u", i);
        cr_expect(same(&single[i], &again[i]), "request %u again", i);
        cr_expect_str_not_empty(split[i].context_worker, "request %u", i);
        n_other += !same(&single[i], &single[i - i % N_KINDS]);
    }
    cr_expect_geq(n_other, N_ALL - 2 * N_LENGTHS, "adapters change replies: %u did", n_other);
}

/* The first of each prompt is with another adapter than the second. */
Test(adapters, caches_do_not_mix)
{
    static struct generation cold[N_KINDS], warm[N_KINDS];
    struct cluster cluster;
    make_prompts();
    cluster_start(&cluster, &(struct cluster_options){.n_generations = 1, .both = BOTH});
    struct client *client = client_create(cluster.router.grpc);
    for (uint32_t kind = 0; kind < N_KINDS; kind++) {
        cold[kind] = request(3, KINDS[kind]);
        client_run(client, &cold[kind]);
        cr_expect_eq(cold[kind].cached_tokens, 0, "kind %u found another's", kind);
    }
    for (uint32_t kind = 0; kind < N_KINDS; kind++) {
        warm[kind] = request(3, KINDS[kind]);
        client_run(client, &warm[kind]);
        cr_expect_gt(warm[kind].cached_tokens, 0);
        cr_expect(same(&cold[kind], &warm[kind]), "kind %u", kind);
    }
    client_destroy(client);
    cluster_stop(&cluster);
}

/* One context worker has no adapter, the other calls another one by that name: neither is asked. */
Test(adapters, workers_without_the_adapter_are_not_asked)
{
    static const char *const generation[] = {"--adapter", DEMO_A, "--local-prefill-max-tokens", "0",
                                             NULL};
    static const char *const first[] = {"--adapter", AS_A_IS_B, NULL};
    static struct generation with, without;
    struct cluster cluster;
    make_prompts();
    cluster_start(&cluster, &(struct cluster_options){.n_contexts = 2,
                                                      .n_generations = 1,
                                                      .first_context = first,
                                                      .generation = generation});
    struct client *client = client_create(cluster.router.grpc);
    with = request(3, "a");
    client_run(client, &with);
    cr_expect_str_empty(with.context_worker);
    without = request(3, NULL);
    client_run(client, &without);
    cr_expect_str_not_empty(without.context_worker);
    client_destroy(client);
    cluster_stop(&cluster);
}

Test(adapters, what_nobody_has_is_refused_by_name)
{
    static struct generation wrong;
    struct cluster cluster;
    make_prompts();
    cluster_start(&cluster, &(struct cluster_options){.n_generations = 1, .both = BOTH});
    struct client *client = client_create(cluster.router.grpc);
    wrong = request(0, "c");
    client_start(client, &wrong);
    cr_assert(client_wait(client, &wrong, 60000));
    cr_expect_eq(wrong.error.status, STATUS_MODEL_NOT_FOUND);
    cr_expect(strstr(wrong.error.message, "\"c\" is not served here"), "%s", wrong.error.message);
    client_destroy(client);
    cluster_stop(&cluster);
}

TestSuite(adapter_commands, .init = command_folder_make, .fini = command_folder_remove);

static void expect_failure(int exit_status, const char *sentence)
{
    cr_expect_eq(last_command.exit_status, exit_status, "%d: %s", last_command.exit_status,
                 last_command.err);
    EXPECT_IN(last_command.err, sentence);
}

Test(adapter_commands, generate_starts_a_server_with_one)
{
    RUN("generate", "--model", KVFERRY_DEMO_MODEL, "--max-tokens", "8", "--temperature", "0",
        "In the beginning");
    EXPECT_OK();
    char *plain = strdup(last_command.out);
    RUN("generate", "--model", KVFERRY_DEMO_MODEL, "--adapter", DEMO_A, "--max-tokens", "8",
        "--temperature", "0", "In the beginning");
    EXPECT_OK();
    cr_expect_str_neq(last_command.out, plain);
    free(plain);
    RUN("generate", "--model", KVFERRY_DEMO_MODEL, "--adapter", "a", "x");
    expect_failure(2, "adapter is \"a\", expected NAME=FOLDER with model");
    RUN("generate", "--adapter", DEMO_A, "x");
    expect_failure(2, "expected NAME without model");
    RUN("generate", "--adapter", "a=", "x");
    expect_failure(2, "expected NAME without model");
    RUN("generate", "--adapter", "a b", "x");
    expect_failure(2, "adapter is \"a b\", expected a name of 1 to 64");
}

Test(adapter_commands, a_worker_says_what_is_wrong_with_an_adapter)
{
    RUN("gen-worker", KVFERRY_DEMO_MODEL, "--check-config", "--adapter", "a");
    expect_failure(1, "adapter is \"a\", expected NAME=FOLDER");
    RUN("gen-worker", KVFERRY_DEMO_MODEL, "--check-config", "--adapter", FOREIGN);
    expect_failure(1, "lora_A.weight has shape [4, 32] (2 dimensions), expected [4, 256]");
    RUN("ctx-worker", KVFERRY_DEMO_MODEL, "--check-config", "--adapter", DEMO_A,
        "--adapter-rank-max", "3");
    expect_failure(1, "rank 4, at most 3 (adapter_rank_max)");
    RUN("serve", KVFERRY_DEMO_MODEL, "--check-config", "--adapter", DEMO_A, "--adapter", AS_A_IS_B);
    expect_failure(1, "adapter a is there with the digest ");
    RUN("gen-worker", LATENTS, "--check-config", "--adapter", DEMO_A);
    expect_failure(1, "adapters are not supported for attention over latents");
}
