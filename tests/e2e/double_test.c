/* A GPU's workers as real processes, on the driver double: split equals single bit for bit, prefixes are reused, a GPU and a
 * CPU pair where that is allowed, kills cost time only, a call that fails is a lost device (double_calls_test.py: each of
 * them). A report of the double (a missing wait, a byte outside its memory, a leak) is no clean exit, and asserts here. */

#include "support/command.h"
#include "support/expect.h"
#include "support/ports.h"
#include "support/server.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const uint32_t LENGTHS[] = {1, 16, 33};
enum { N_PROMPTS = sizeof LENGTHS / sizeof *LENGTHS, N_TOKENS = 4, END_LIMIT_MS = 60000 };

#define POOL "--kv-memory", "2M", "--max-context-tokens", "128"

/* Of every worker: short steps. */
static const char *const GPU[] = {"--device", "cuda:0", POOL, NULL};
static const char *const GPU_ALONE[] = {"--device", "cuda:0", POOL, "--no-prefix-cache", NULL};
/* Every prompt crosses. */
static const char *const TAKES[] = {"--local-prefill-max-tokens", "0", "--no-prefix-cache", NULL};
static const char *const TAKES_ANY[] = {"--local-prefill-max-tokens", "0",   "--no-prefix-cache",
                                        "--allow-numerics",           "any", NULL};
/* What is sent carries digests, and is compared by them. */
static const char *const IPC[] = {"--device",        "cuda:0", "--kv-transport", "cuda-ipc", POOL,
                                  "--kv-digest=yes", NULL};
static const char *const CHUNKS[] = {"--prefill-chunk-tokens", "16", NULL};

static void find_double(void)
{
    cr_assert_eq(setenv("LD_LIBRARY_PATH", DOUBLE_FOLDER, 1), 0);
}

static void gpu_pair(struct cluster *cluster, const char *const *both,
                     const char *const *generation)
{
    cluster_start(cluster, &(struct cluster_options){.n_contexts = 1,
                                                     .n_generations = 1,
                                                     .both = both,
                                                     .context = CHUNKS,
                                                     .generation = generation,
                                                     .first_context_binary = DOUBLE_BINARY,
                                                     .first_generation_binary = DOUBLE_BINARY});
}

/* Bytes that the generation worker's metric says came over that driver. */
static double received_over(const struct cluster *cluster, const char *driver)
{
    char label[64];
    snprintf(label, sizeof label, "transport=\"%s\",direction=\"received\"", driver);
    return child_metric(&cluster->generations[0], "kvferry_kv_transfer_bytes_total", label);
}

TestSuite(driver_double, .init = find_double);

Test(driver_double, split_has_the_tokens_of_single_over_each_driver)
{
    static const char *const DRIVERS[] = {"am-tcp", "unix", "tls", "cuda-ipc"};
    struct work work;
    work_create_on(&work, DOUBLE_BINARY, LENGTHS, N_PROMPTS, N_TOKENS, GPU_ALONE);
    for (size_t d = 0; d < sizeof DRIVERS / sizeof *DRIVERS; d++) {
        struct cluster cluster;
        const char *both[] = {"--device", "cuda:0", POOL, "--kv-transport", DRIVERS[d], NULL};
        gpu_pair(&cluster, both, TAKES);
        uint64_t bytes = expect_all_same(&work, &cluster, END_LIMIT_MS);
        cr_expect_gt(bytes, 0, "%s: nothing crossed", DRIVERS[d]);
        cr_expect_eq(received_over(&cluster, DRIVERS[d]), (double)bytes, "%s", DRIVERS[d]);
        cluster_stop(&cluster);
    }
    work_destroy(&work);
}

/* Of one prompt through a pair that both are started so. */
static struct generation run_one(struct cluster *cluster, const char *const *both)
{
    static uint32_t prompt[33];
    prompt_tokens(3, prompt, 33);
    gpu_pair(cluster, both, TAKES);
    struct client *client = client_create(cluster->router.grpc);
    struct generation generation = {.tokens = prompt, .n_tokens = 33, .max_tokens = 2};
    client_run(client, &generation);
    client_destroy(client);
    cluster_wait_quiet(cluster);
    return generation;
}

Test(driver_double, the_timing_says_that_blocks_are_staged)
{
    struct cluster cluster;
    const struct generation generation = run_one(&cluster, GPU);
    cr_expect_str_eq(generation.transport, "am-tcp, staged");
    cluster_stop(&cluster);
}

/* GPU to GPU: nothing is staged, every block of the prompt has crossed, and is compared by a digest of the receiver's GPU. */
Test(driver_double, over_cuda_ipc_all_of_a_prompt_crosses_and_nothing_is_staged)
{
    struct cluster cluster;
    const struct generation generation = run_one(&cluster, IPC);
    cr_expect_str_eq(generation.transport, "cuda-ipc");
    cr_expect_eq(generation.kv_tokens_recomputed, 0);
    cr_expect_eq(received_over(&cluster, "cuda-ipc"), (double)generation.kv_bytes_received);
    cr_expect(child_log_wait(&cluster.generations[0], "pool mapped"));
    cr_expect_eq(child_log_count(&cluster.generations[0], "pool mapped"), 1);
    cluster_stop(&cluster);
}

/* The second time most of the prompt is there: on either side. */
Test(driver_double, a_prefix_is_reused_with_the_same_tokens)
{
    enum { N = 50 };
    uint32_t prompt[N];
    struct cluster cluster;
    prompt_tokens(4, prompt, N);
    gpu_pair(&cluster, GPU, NULL);
    struct client *client = client_create(cluster.router.grpc);
    struct generation first = {
        .tokens = prompt, .n_tokens = N, .max_tokens = N_TOKENS, .ignore_eos = true};
    struct generation second = first;
    client_run(client, &first);
    client_run(client, &second);
    cr_expect_eq(first.cached_tokens, 0);
    cr_expect_geq(second.cached_tokens, 48, "%u are cached", second.cached_tokens);
    cr_expect_eq(second.n_generated, N_TOKENS);
    cr_expect_eq(memcmp(first.generated, second.generated, N_TOKENS * sizeof(uint32_t)), 0);
    client_destroy(client);
    cluster_stop(&cluster);
}

/* ---- a GPU and a CPU ---- */

/* Each greedy token of the first and the third has a margin of more than twice what a GPU's logits may be off by, so the CPU's
 * and the GPU's are the same: tests/simt/model/margin_test.c measures that of these. Of other prompts they may differ. */
static const uint32_t MIXED_LENGTHS[N_PROMPTS] = {18, 16, 25};

static void mixed(bool gpu_is_context)
{
    struct work work;
    struct cluster cluster;
    work_create(&work, MIXED_LENGTHS, N_PROMPTS, N_TOKENS, NULL);
    for (uint32_t i = 0; i < work.n; i++)
        work.single[i].temperature = 0;
    static const char *const pool[] = {POOL, NULL}, *const gpu[] = {"--device", "cuda:0", NULL};
    cluster_start(&cluster, &(struct cluster_options){
                                .n_contexts = 1,
                                .n_generations = 1,
                                .both = pool,
                                .first_context = gpu_is_context ? gpu : NULL,
                                .generation = TAKES_ANY,
                                .first_generation = gpu_is_context ? NULL : gpu,
                                .first_context_binary = gpu_is_context ? DOUBLE_BINARY : NULL,
                                .first_generation_binary = gpu_is_context ? NULL : DOUBLE_BINARY});
    expect_greedy_same(&work, &cluster);
    cluster_stop(&cluster);
    work_destroy(&work);
}

Test(driver_double, a_gpu_context_worker_feeds_a_cpu_generation_worker)
{
    mixed(true);
}

Test(driver_double, a_cpu_context_worker_feeds_a_gpu_generation_worker)
{
    mixed(false);
}

/* ---- what fails ---- */

/* A channel whose connection was refused tries again within a second (rpc/client/client.h), whatever the router knows by then; a
 * prompt that comes meanwhile is computed where it is decoded. So one of a few crosses, and none is wrong. */
static void expect_crossing(const struct work *work, struct cluster *cluster)
{
    enum { ATTEMPTS = 20 };
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < ATTEMPTS && bytes == 0; i++)
        bytes = expect_all_same(work, cluster, END_LIMIT_MS);
    cr_expect_gt(bytes, 0, "no KV crosses after the restart");
}

static void kill_context_workers(const char *const *both)
{
    static const int KILL_AFTER_MS[] = {0, 100};
    static const char *const generation[] = {"--no-prefix-cache", NULL};
    struct work work;
    struct cluster cluster;
    work_create_on(&work, DOUBLE_BINARY, LENGTHS, N_PROMPTS, N_TOKENS, GPU_ALONE);
    gpu_pair(&cluster, both, generation);
    expect_crossing(&work, &cluster); /* whatever is kept of a context worker is there */
    struct client *client = client_create(cluster.router.grpc);
    for (size_t k = 0; k < sizeof KILL_AFTER_MS / sizeof *KILL_AFTER_MS; k++) {
        struct generation *generations = work_start(&work, client, NULL);
        (void)poll(NULL, 0, KILL_AFTER_MS[k]);
        child_kill(&cluster.contexts[0]);
        for (uint32_t i = 0; i < work.n; i++) {
            cr_assert(client_wait(client, &generations[i], END_LIMIT_MS), "request %u hangs", i);
            expect_same(&work, i, &generations[i]);
        }
        free(generations);
        cluster_wait_quiet(&cluster);
        child_restart(&cluster.contexts[0]);
        cluster_wait_ready(&cluster, 1, 1);
    }
    client_destroy(client);
    expect_crossing(&work, &cluster);
    if (both == IPC)
        cr_expect_geq(child_log_count(&cluster.generations[0], "pool mapped"), 2);
    cluster_stop(&cluster);
    work_destroy(&work);
}

Test(driver_double, a_context_worker_killed_at_any_moment_costs_time_only)
{
    kill_context_workers(GPU);
}

/* Whose pool is mapped, and copied out of. Its next life is mapped anew. */
Test(driver_double, a_context_worker_over_cuda_ipc_killed_at_any_moment_costs_time_only)
{
    kill_context_workers(IPC);
}

/* The folder in /dev/shm that a process holds open. */
static bool find_shm(pid_t pid, char path_out[64])
{
    bool is_found = false;
    for (int fd = 0; !is_found && fd < 256; fd++) {
        char link[48];
        snprintf(link, sizeof link, "/proc/%d/fd/%d", (int)pid, fd);
        ssize_t n = readlink(link, path_out, 63);
        path_out[n > 0 ? n : 0] = '\0';
        is_found = strncmp(path_out, "/dev/shm/kvferry-", 17) == 0 && !strchr(path_out + 17, '/');
    }
    return is_found;
}

/* Its name by which others reached it outlives a worker that is killed, and not serve, which ends with it. */
Test(driver_double, serve_removes_what_a_killed_worker_over_cuda_ipc_left)
{
    struct child serve;
    struct server_members members;
    char path[64] = "";
    uint32_t i = 0;
    command_folder_make();
    child_start_binary(&serve, DOUBLE_BINARY, command_folder, "serve",
                       (const char *const[]){"serve", KVFERRY_DEMO_MODEL, ROUTER_PORTS, "--device",
                                             "cuda:0", "--kv-transport", "cuda-ipc", "--restart",
                                             "never", POOL, NULL});
    server_members(serve.pid, &members);
    while (i < members.n && !find_shm(members.pids[i], path))
        i++;
    cr_assert_lt(i, members.n, "nobody has a folder");
    cr_assert_eq(kill(members.pids[i], SIGKILL), 0);
    int status = child_wait(&serve, END_LIMIT_MS);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_FAILURE, "%d", status);
    cr_expect_neq(access(path, F_OK), 0, "%s is left", path);
    command_folder_remove();
}

/* In the middle of its work: what the worker had ends as lost, and so does the worker, with 1. */
Test(driver_double, a_call_that_fails_at_work_is_a_lost_device)
{
    uint32_t prompt[33];
    struct cluster cluster;
    prompt_tokens(5, prompt, 33);
    setenv("DOUBLE_FAIL", "cuGraphLaunch:3:719", 1);
    cluster_start(&cluster, &(struct cluster_options){.n_generations = 1,
                                                      .generation = GPU_ALONE,
                                                      .first_generation_binary = DOUBLE_BINARY});
    unsetenv("DOUBLE_FAIL");
    struct client *client = client_create(cluster.router.grpc);
    struct generation generation = {
        .tokens = prompt, .n_tokens = 33, .max_tokens = 16, .ignore_eos = true};
    client_start(client, &generation);
    cr_assert(client_wait(client, &generation, END_LIMIT_MS), "it hangs");
    cr_expect_eq(generation.error.status, STATUS_DEVICE_LOST, "%s",
                 status_name(generation.error.status));
    int status = child_wait(&cluster.generations[0], END_LIMIT_MS);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_FAILURE, "%d", status);
    cr_expect_eq(child_log_count(&cluster.generations[0], "device lost"), 1);
    client_destroy(client);
    cluster_stop(&cluster);
}
