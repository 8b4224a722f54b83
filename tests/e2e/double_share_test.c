/* Several workers on one GPU, as real processes on the driver double: each keeps to its part of the memory, plans by what the
 * others leave, is refused with a sentence where that is too little, and none of them minds another's end. */

#include "support/command.h"
#include "support/expect.h"
#include "support/ports.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint32_t LENGTHS[] = {1, 16, 33};
enum { N_PROMPTS = sizeof LENGTHS / sizeof *LENGTHS, N_TOKENS = 4, END_LIMIT_MS = 60000 };

#define SHORT_STEPS                                                                                \
    "--prefill-batch-tokens", "64", "--prefill-chunk-tokens", "16", "--max-context-tokens", "128"
#define GPU "--device", "cuda:0", SHORT_STEPS
#define MIB (1 << 20)

/* A GPU of so many MiB, which all processes have in common. */
static void make_gpu(const char *mib)
{
    cr_assert_eq(setenv("DOUBLE_GPU", in_folder("gpu"), 1), 0);
    cr_assert_eq(setenv("DOUBLE_MEMORY_MB", mib, 1), 0);
}

static void find_double(void)
{
    command_folder_make();
    cr_assert_eq(setenv("LD_LIBRARY_PATH", DOUBLE_FOLDER, 1), 0);
}

TestSuite(double_share, .init = find_double, .fini = command_folder_remove);

/* The line of its log that has msg; the caller's. */
static json_t *logged(const struct child *child, const char *msg)
{
    char path[256], line[4096], part[96];
    json_t *found = NULL;
    snprintf(part, sizeof part, "\"msg\":\"%s\"", msg);
    cr_assert(child_log_wait(child, part), "%s says no '%s'", child->name, msg);
    snprintf(path, sizeof path, "%s/%s.log", child->folder, child->name);
    FILE *file = fopen(path, "r");
    cr_assert_not_null(file, "%s", path);
    while (!found && fgets(line, sizeof line, file)) {
        json_t *one = json_loads(line, 0, NULL);
        const char *text = json_string_value(json_object_get(one, "msg"));
        if (text && strcmp(text, msg) == 0)
            found = json_incref(one);
        json_decref(one);
    }
    fclose(file);
    cr_assert_not_null(found);
    return found;
}

static uint64_t bytes_of(const json_t *line, const char *key)
{
    const json_t *value = json_object_get(line, key);
    cr_assert(json_is_integer(value), "%s", key);
    return (uint64_t)json_integer_value(value);
}

/* All that it has of the device, graphs included; as planned: what graphs were seen to take is what they take. */
static uint64_t device_bytes_of(const struct child *child)
{
    static const char *const uses[] = {"kv_bytes", "activation_bytes", "staging_bytes",
                                       "weight_bytes", "workspace_bytes"};
    json_t *has = logged(child, "device memory"),
           *planned = logged(child, "memory after the warm-up");
    uint64_t bytes = 0;
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++)
        bytes += bytes_of(has, uses[i]);
    const uint64_t of_graphs = bytes_of(planned, "graph_bytes");
    cr_expect_gt(of_graphs, 0);
    cr_expect_eq(bytes_of(planned, "workspace_bytes") + of_graphs,
                 bytes_of(has, "workspace_bytes"));
    json_decref(has);
    json_decref(planned);
    return bytes;
}

/* Each fills the part it was given; together they serve, and one that is killed is missed by nobody. One starts behind the other: what
 * graphs take is measured by what is free on the GPU before and after. */
Test(double_share, a_context_and_a_generation_worker_share_a_gpu)
{
    static const char *const both[] = {GPU, "--device-memory", "14M", NULL};
    static const char *const generation[] = {"--local-prefill-max-tokens", "0", "--no-prefix-cache",
                                             NULL};
    struct work work;
    struct cluster cluster;
    make_gpu("30");
    work_create_on(&work, DOUBLE_BINARY, LENGTHS, N_PROMPTS, N_TOKENS, both);
    cluster_start(&cluster, &(struct cluster_options){.n_contexts = 1,
                                                      .n_generations = 1,
                                                      .both = both,
                                                      .generation = generation,
                                                      .first_context_binary = DOUBLE_BINARY,
                                                      .first_generation_binary = DOUBLE_BINARY,
                                                      .is_in_turn = true});
    cr_expect_leq(device_bytes_of(&cluster.contexts[0]), 14 * MIB);
    cr_expect_leq(device_bytes_of(&cluster.generations[0]), 14 * MIB);
    cr_expect_gt(expect_all_same(&work, &cluster, END_LIMIT_MS), 0, "nothing crossed");
    child_kill(&cluster.contexts[0]);
    (void)expect_all_same(&work, &cluster, END_LIMIT_MS);
    child_restart(&cluster.contexts[0]);
    cluster_wait_ready(&cluster, 1, 1);
    uint64_t bytes = 0;
    for (int i = 0; bytes == 0 && i < 20; i++) /* a worker that was lost is not asked for a while */
        bytes = expect_all_same(&work, &cluster, END_LIMIT_MS);
    cr_expect_gt(bytes, 0, "nothing crosses any more");
    cluster_stop(&cluster);
    work_destroy(&work);
}

/* ---- by what is free ---- */

#define ALONE                                                                                      \
    "gen-worker", KVFERRY_DEMO_MODEL, GPU, "--sequences-max", "64", "--log-format", "json",        \
        WORKER_PORTS

static void start_alone(struct child *child, const char *name)
{
    child_start_binary(child, DOUBLE_BINARY, command_folder, name,
                       (const char *const[]){ALONE, NULL});
}

static void expect_sentence(const char *part)
{
    cr_expect_eq(last_command.exit_status, EXIT_FAILURE, "%d", last_command.exit_status);
    cr_expect(strstr(last_command.err, part), "\"%s\" is not in:\n%s", part, last_command.err);
}

/* Nobody says how much: the first has what its batch can use, the second what is left, the third is refused until one is gone. */
Test(double_share, who_comes_later_plans_by_what_is_free_or_is_refused)
{
    struct child first, second;
    command_binary = DOUBLE_BINARY;
    make_gpu("32");
    start_alone(&first, "first");
    cr_expect(child_log_wait(&first, "what the batch can use"));
    start_alone(&second, "second");
    cr_expect(child_log_wait(&second, "what other processes leave of the device"));
    cr_expect_leq(device_bytes_of(&first) + device_bytes_of(&second), 32 * MIB);
    RUN(ALONE);
    expect_sentence("weights need 6.3 MiB of cuda:0, of which ");
    expect_sentence(" of 32.0 MiB are free");
    child_kill(&second);
    RUN(ALONE, "--kv-memory", "10M");
    expect_sentence("KV blocks of 20.0 KiB need 10.0 MiB of the device beside ");
    expect_sentence(" MiB for weights and work, and others leave it ");
    expect_sentence(" MiB: lower kv_memory or kv_blocks, or end other processes on the device");
    start_alone(&second, "third");
    child_stop(&second);
    child_stop(&first);
}

/* The part that it was given is kept to though the GPU has more. */
Test(double_share, a_part_that_is_too_small_is_refused)
{
    command_binary = DOUBLE_BINARY;
    make_gpu("256");
    RUN(ALONE, "--device-memory", "8M");
    expect_sentence("and this worker's part (device_memory) is 8.0 MiB: raise device_memory, ");
    RUN(ALONE, "--device-memory", "16M", "--kv-memory", "10M");
    expect_sentence("and this worker's part (device_memory) is 16.0 MiB: lower kv_memory or ");
}

/* Over cuda-ipc it is mapped in pieces of 2 MiB, the last of them whole. */
Test(double_share, a_pool_that_others_map_is_within_the_part)
{
    struct child child;
    make_gpu("256");
    child_start_binary(&child, DOUBLE_BINARY, command_folder, "context",
                       (const char *const[]){"ctx-worker", KVFERRY_DEMO_MODEL, GPU, WORKER_PORTS,
                                             "--log-format", "json", "--kv-transport", "cuda-ipc",
                                             "--device-memory", "14M", NULL});
    cr_expect_leq(device_bytes_of(&child), 14 * MIB);
    child_stop(&child);
}

/* ---- before a start ---- */

/* Of the table that --dry-run printed: the number behind name. */
static double planned(const char *name)
{
    char words[64];
    double value = -1;
    snprintf(words, sizeof words, "%s ", name);
    const char *at = strstr(last_command.out, words);
    cr_assert(at && sscanf(at + strlen(words), "%lf", &value) == 1, "no %s in\n%s", name,
              last_command.out);
    return value;
}

static void expect_planned(const char *name, uint64_t bytes)
{
    char is[32], is_planned[32];
    snprintf(is_planned, sizeof is_planned, "%.1f MiB", planned(name));
    snprintf(is, sizeof is, "%.1f MiB", (double)bytes / MIB);
    cr_expect_str_eq(is_planned, is, "%s: %s, and a start %s", name, is_planned, is);
}

#define OF_PART   "what is left of the part of the device for this worker"
#define OF_OTHERS "what other processes leave of the device"

/* Its pool is what the rest of its part holds: with its graphs that of the start, to the block. Of what others leave the driver has a
 * page of each allocation at most, which nobody knows before. */
static void expect_pool(uint64_t n_blocks, uint64_t graph_bytes, const char *rule)
{
    enum { BLOCK_BYTES = 20 << 10, PAGES = 64 * 4096 };
    const uint64_t n_planned = (uint64_t)planned("pool       ");
    const uint64_t of_driver = strcmp(rule, OF_OTHERS) == 0 ? PAGES : 0;
    cr_expect_geq(n_planned * BLOCK_BYTES + BLOCK_BYTES, n_blocks * BLOCK_BYTES + graph_bytes);
    cr_expect_leq(n_planned * BLOCK_BYTES,
                  n_blocks * BLOCK_BYTES + graph_bytes + BLOCK_BYTES + of_driver);
}

static void expect_start_as_planned(const char *name, const char *rule, const char *const flags[5])
{
    struct child child;
    RUN(ALONE, "--dry-run", flags[0], flags[1], flags[2], flags[3]);
    cr_assert_eq(last_command.exit_status, EXIT_SUCCESS, "%s", last_command.err);
    cr_expect(strstr(last_command.out, rule), "%s: not '%s':\n%s", name, rule, last_command.out);
    cr_expect(strstr(last_command.out, "not known   what graphs of steps take"));
    child_start_binary(&child, DOUBLE_BINARY, command_folder, name,
                       (const char *const[]){ALONE, flags[0], flags[1], flags[2], flags[3], NULL});
    cr_expect(child_log_wait(&child, rule), "%s starts, and not by '%s'", name, rule);
    json_t *has = logged(&child, "device memory"),
           *measured = logged(&child, "memory after the warm-up");
    expect_planned("taken       weights", bytes_of(has, "weight_bytes"));
    expect_planned("activations", bytes_of(measured, "activation_bytes"));
    expect_planned("staging", bytes_of(measured, "staging_bytes"));
    expect_planned("workspace", bytes_of(measured, "workspace_bytes"));
    expect_pool(bytes_of(has, "kv_bytes") / (20 << 10), bytes_of(measured, "graph_bytes"), rule);
    json_decref(has);
    json_decref(measured);
    child_stop(&child);
}

static void expect_part_as_planned(const char *memory, const char *row, const char *value)
{
    expect_start_as_planned(value, OF_PART,
                            (const char *const[]){"--device-memory", memory, row, value, NULL});
}

/* Also with weights that are made at load, and with the workspace of a library. */
Test(double_share, a_dry_run_has_the_numbers_of_the_start)
{
    command_binary = DOUBLE_BINARY;
    make_gpu("256");
    expect_part_as_planned("14M", "--weights", "auto");
    expect_part_as_planned("12M", "--weights", "int8");
    expect_part_as_planned("46M", "--device-math", "fast");
}

/* Where others have most of the GPU: what a start is to take is not free for its pool, the weights and a library's workspace
 * included; and what has no room is said as a start says it. */
Test(double_share, a_dry_run_beside_others_has_the_numbers_of_the_start)
{
    static const char *const any[5] = {NULL}, *const fast[5] = {"--device-math", "fast"};
    struct child other;
    command_binary = DOUBLE_BINARY;
    make_gpu("34");
    start_alone(&other, "other");
    expect_start_as_planned("second", OF_OTHERS, any);
    child_stop(&other);
    make_gpu("57");
    start_alone(&other, "before");
    RUN(ALONE, "--device-math", "fast", "--dry-run");
    expect_sentence("weights need 6.3 MiB of cuda:0, of which ");
    expect_sentence("57.0 MiB are free: take weights int8, or another device");
    child_stop(&other);
    make_gpu("66");
    start_alone(&other, "wide");
    expect_start_as_planned("fast", OF_OTHERS, fast);
    child_stop(&other);
}

Test(double_share, a_gpu_that_is_lost_before_a_start_is_not_called_full)
{
    command_binary = DOUBLE_BINARY;
    make_gpu("256");
    cr_assert_eq(setenv("DOUBLE_FAIL", "cuMemGetInfo:1:719", 1), 0);
    RUN(ALONE, "--dry-run");
    expect_sentence("cuda:0 was lost before it had memory for weights: the log says why");
}

/* Each alone fits a part that the GPU has but once. */
Test(double_share, a_dry_run_of_serve_counts_every_worker_that_shares_the_gpu)
{
#define SERVE                                                                                      \
    "serve", KVFERRY_DEMO_MODEL, "--device", "cuda:0", "--prefill-chunk-tokens", "16",             \
        "--max-context-tokens", "128", "--dry-run"
    command_binary = DOUBLE_BINARY;
    make_gpu("45");
    RUN(SERVE, "--device-memory", "24M");
    expect_sentence("2 workers that need 24.0 MiB of cuda:0 each need ");
    expect_sentence(" MiB, and 45.0 MiB are free: lower device_memory or kv_memory");
    RUN(SERVE, "--device-memory", "22M");
    cr_expect_eq(last_command.exit_status, EXIT_SUCCESS, "%s", last_command.err);
    cr_expect(strstr(last_command.out, "free now    45.0 MiB of it; 2 workers share it, as many "),
              "%s", last_command.out);
}
