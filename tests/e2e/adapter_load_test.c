/* `kvferry adapter`: adapters come, go and are replaced on both workers of a pair while requests run: each reply is that of one adapter,
 * or one error says that there is none; nothing is held afterwards, and no memory stays. What cannot be loaded is refused in words. */
#include "base/clock.h"
#include "support/command.h"
#include "support/expect.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define ADAPTERS KVFERRY_SOURCE_DIR "/tests/golden/adapters"
#define LIMIT_NS (60 * NS_PER_S)

enum { PROMPT = 130, LONG_TOKENS = 200, N_BESIDE = 4 };

static const char FOLDER[] = ADAPTERS;
static const char DEMO_A[] = "a=" ADAPTERS "/demo", DEMO_B[] = "b=" ADAPTERS "/demo_other";
static const char *const BOTH[] = {"--adapter-folder", FOLDER, NULL};
static const char *const CROSSING[] = {"--local-prefill-max-tokens", "0", NULL};
static uint32_t prompt[PROMPT];

static void begin(void)
{
    command_folder_make();
    prompt_tokens(4, prompt, PROMPT);
}

TestSuite(adapter_load, .init = begin, .fini = command_folder_remove);

static struct generation request(const char *adapter, uint32_t max_tokens, const char *salt)
{
    return (struct generation){.model = adapter,
                               .tokens = prompt,
                               .n_tokens = PROMPT,
                               .max_tokens = max_tokens,
                               .salt = salt,
                               .ignore_eos = true};
}

/* A context and a generation worker without adapters, and a folder of them. */
static struct client *start_pair(struct cluster *cluster)
{
    cluster_start(cluster,
                  &(struct cluster_options){
                      .n_contexts = 1, .n_generations = 1, .both = BOTH, .generation = CROSSING});
    return client_create(cluster->router.grpc);
}

/* What one process that was started with both adapters replies. */
static void expect_of_one_process(struct generation *a, struct generation *b)
{
    static const char *const with[] = {"--adapter", DEMO_A, "--adapter", DEMO_B, NULL};
    struct cluster cluster;
    cluster_start(&cluster, &(struct cluster_options){.n_generations = 1, .both = with});
    struct client *client = client_create(cluster.router.grpc);
    *a = request("a", LONG_TOKENS, NULL);
    client_run(client, a);
    *b = request("b", LONG_TOKENS, NULL);
    client_run(client, b);
    client_destroy(client);
    cluster_stop(&cluster);
}

static bool same(const struct generation *a, const struct generation *b)
{
    return a->n_generated == b->n_generated &&
           memcmp(a->generated, b->generated, a->n_generated * sizeof *a->generated) == 0;
}

/* ---- commands ---- */

static void command(uint16_t port, const char *flag, const char *value)
{
    RUN("adapter", "--server", address_of(port), "--deadline-ms", "60s", flag, value);
}

static void on_both(const struct cluster *cluster, const char *flag, const char *value)
{
    command(cluster->contexts[0].control, flag, value);
    EXPECT_OK();
    command(cluster->generations[0].control, flag, value);
    EXPECT_OK();
}

static void expect_failure(const char *sentence)
{
    cr_expect_eq(last_command.exit_status, 1, "%d: %s", last_command.exit_status, last_command.err);
    EXPECT_IN(last_command.err, sentence);
}

/* ---- waiting ---- */

/* Whether a request ended as one may while adapters change. */
static void expect_typed(const struct generation *generation)
{
    cr_assert_eq(generation->n_ends, 1);
    cr_assert(generation->error.status == STATUS_OK ||
                  generation->error.status == STATUS_MODEL_NOT_FOUND,
              "%s: %s", status_name(generation->error.status), generation->error.message);
}

/* Until the router has heard of it: that is how requests with the adapter end from then on. */
static void ask_until(struct client *client, const char *adapter, enum status status,
                      struct generation *generation)
{
    const uint64_t until_ns = clock_now_ns() + LIMIT_NS;
    do {
        cr_assert_lt(clock_now_ns(), until_ns, "it does not become %s", status_name(status));
        (void)poll(NULL, 0, 10);
        *generation = request(adapter, 12, NULL);
        client_start(client, generation);
        cr_assert(client_wait(client, generation, 120000));
        expect_typed(generation);
    } while (generation->error.status != status);
}

static void wait_for_bytes(const struct child *worker, double bytes)
{
    const uint64_t until_ns = clock_now_ns() + LIMIT_NS;
    double is;
    while ((is = child_metric(worker, "kvferry_adapter_bytes", "")) != bytes) {
        cr_assert_lt(clock_now_ns(), until_ns, "%.0f bytes of adapters, expected %.0f", is, bytes);
        (void)poll(NULL, 0, 20);
    }
}

/* ---- tests ---- */

Test(adapter_load, one_comes_and_goes_while_requests_run)
{
    static struct generation expected, ignored, loaded, running, beside[N_BESIDE], gone;
    struct cluster cluster;
    expect_of_one_process(&expected, &ignored);
    struct client *client = start_pair(&cluster);
    for (int i = 0; i < N_BESIDE; i++) {
        beside[i] = request(NULL, LONG_TOKENS, NULL);
        client_start(client, &beside[i]);
    }
    on_both(&cluster, "--load", "a=demo");
    EXPECT_IN(last_command.out, " a\n");
    ask_until(client, "a", STATUS_OK, &loaded);
    cr_expect_eq(memcmp(loaded.generated, expected.generated, 12 * sizeof *loaded.generated), 0);

    running = request("a", LONG_TOKENS, "not cached");
    client_start(client, &running);
    cr_assert(client_wait_messages(client, &running, 1, 60000));
    on_both(&cluster, "--unload", "a");
    cr_expect_str_empty(last_command.out);
    ask_until(client, "a", STATUS_MODEL_NOT_FOUND, &gone);
    cr_expect(strstr(gone.error.message, "model \"a\" is "), "%s", gone.error.message);
    cr_assert(client_wait(client, &running, 120000));
    cr_expect_eq(running.error.status, STATUS_OK, "%s", running.error.message);
    cr_expect(same(&running, &expected), "it has the adapter to its end");
    cr_expect_gt(running.kv_bytes_received, 0);
    for (int i = 0; i < N_BESIDE; i++) {
        cr_assert(client_wait(client, &beside[i], 120000));
        cr_expect_eq(beside[i].error.status, STATUS_OK, "%s", beside[i].error.message);
        cr_expect(same(&beside[i], &beside[0]));
    }
    cluster_wait_quiet(&cluster);
    wait_for_bytes(&cluster.generations[0], 0);
    wait_for_bytes(&cluster.contexts[0], 0);
    client_destroy(client);
    cluster_stop(&cluster);
}

/* The tokens that came are those of one adapter from the first to the last. */
static uint32_t count_of_one(const struct generation *all, uint32_t n, const struct generation *a,
                             const struct generation *b, uint32_t *n_b_out)
{
    uint32_t n_a = 0;
    *n_b_out = 0;
    for (uint32_t i = 0; i < n; i++) {
        expect_typed(&all[i]);
        if (all[i].error.status != STATUS_OK)
            continue;
        n_a += same(&all[i], a);
        *n_b_out += same(&all[i], b);
        cr_expect(same(&all[i], a) || same(&all[i], b), "request %u has tokens of neither", i);
    }
    return n_a;
}

Test(adapter_load, another_one_takes_the_name_while_requests_run)
{
    enum { N_EACH = 6, N_MORE = 12, N = 2 * N_EACH + N_MORE };
    static struct generation a, b, all[N], ready;
    static char salts[N][8];
    struct cluster cluster;
    uint32_t n = 0, n_b;
    expect_of_one_process(&a, &b);
    cr_assert_not(same(&a, &b));
    struct client *client = start_pair(&cluster);
    for (uint32_t i = 0; i < N; i++) {
        snprintf(salts[i], sizeof salts[i], "%u", i); /* each prompt crosses */
        all[i] = request("a", LONG_TOKENS, salts[i]);
    }
    on_both(&cluster, "--load", "a=demo");
    ask_until(client, "a", STATUS_OK, &ready);
    for (uint32_t i = 0; i < N_EACH; i++)
        client_start(client, &all[n++]);
    const uint16_t ports[] = {cluster.contexts[0].control, cluster.generations[0].control};
    for (int i = 0; i < 2; i++) { /* one worker has the new one, and the other still the old one */
        command(ports[i], "--load", "a=demo_other");
        expect_failure("unload it first");
        command(ports[i], "--unload", "a");
        EXPECT_OK();
        for (uint32_t k = 0; k < N_MORE / 4; k++)
            client_start(client, &all[n++]);
        command(ports[i], "--load", "a=demo_other");
        EXPECT_OK();
        for (uint32_t k = 0; k < N_MORE / 4; k++)
            client_start(client, &all[n++]);
    }
    do
        ask_until(client, "a", STATUS_OK, &ready);
    while (memcmp(ready.generated, b.generated, 12 * sizeof *b.generated) != 0);
    for (uint32_t i = 0; i < N_EACH; i++)
        client_start(client, &all[n++]);
    cr_assert_eq(n, N);
    for (uint32_t i = 0; i < N; i++)
        cr_assert(client_wait(client, &all[i], 120000), "request %u does not end", i);
    cr_expect_geq(count_of_one(all, N, &a, &b, &n_b), N_EACH, "those before have the first one");
    cr_expect_geq(n_b, N_EACH, "those behind have the other one");
    cr_expect_gt(all[0].kv_bytes_received, 0);
    cr_expect_gt(all[N - 1].kv_bytes_received, 0);
    cluster_wait_quiet(&cluster);
    on_both(&cluster, "--unload", "a");
    wait_for_bytes(&cluster.generations[0], 0);
    wait_for_bytes(&cluster.contexts[0], 0);
    client_destroy(client);
    cluster_stop(&cluster);
}

Test(adapter_load, what_cannot_be_loaded_is_refused_in_words)
{
    static const char *const both[] = {"--adapter-folder", FOLDER, "--adapter-memory", "400K",
                                       NULL};
    struct cluster cluster;
    cluster_start(&cluster, &(struct cluster_options){.n_generations = 1, .both = both});
    const uint16_t port = cluster.generations[0].control;
    command(port, "--load", "a");
    expect_failure("load is \"a\", expected NAME=FOLDER");
    command(port, "--load", "a=../adapters/demo");
    expect_failure("folder is \"../adapters/demo\", expected the name of a folder");
    command(port, "--load", "a=none");
    expect_failure("folder is \"none\", in adapter_folder ");
    command(port, "--load", "a b=demo");
    expect_failure("name is \"a b\"");
    command(port, "--load", "a=llama");
    expect_failure("has shape [4, 32]");
    command(port, "--load", "a=demo");
    EXPECT_OK();
    command(port, "--load", "b=demo");
    expect_failure("(adapter_memory)");
    command(port, "--unload", "b");
    expect_failure("adapter \"b\" is not there");
    command(cluster.router.control, "--load", "a=demo");
    expect_failure("only workers load adapters");
    RUN("adapter", "--server", address_of(port), "--unload", "a", "--load", "b=demo");
    EXPECT_OK();
    EXPECT_IN(last_command.out, " b\n");
    cr_expect_null(strstr(last_command.out, " a\n"), "%s", last_command.out);
    cluster_stop(&cluster);
    RUN("gen-worker", KVFERRY_DEMO_MODEL, "--check-config", "--adapter-folder", "/nowhere");
    expect_failure("adapter_folder is \"/nowhere\": No such file or directory");
}

Test(adapter_load, a_worker_that_drains_loads_no_more)
{
    static struct generation running;
    struct cluster cluster;
    cluster_start(&cluster, &(struct cluster_options){.n_generations = 1, .both = BOTH});
    struct child *worker = &cluster.generations[0];
    struct client *client = client_create(cluster.router.grpc);
    running = request(NULL, 1800, NULL);
    client_start(client, &running);
    cr_assert(client_wait_messages(client, &running, 1, 60000));
    child_signal(worker, SIGTERM);
    const uint64_t until_ns = clock_now_ns() + LIMIT_NS;
    do {
        cr_assert_lt(clock_now_ns(), until_ns, "it does not drain");
        command(worker->control, "--load", "a=demo");
    } while (last_command.exit_status == 0);
    expect_failure("draining");
    client_cancel(&running);
    cr_assert(client_wait(client, &running, 60000));
    cr_expect_eq(child_wait(worker, 60000), 0);
    client_destroy(client);
    cluster_stop(&cluster);
}
