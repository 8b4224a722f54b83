/* What decides the bits of a GPU's workers, as real processes on the driver double: under each setting split equals single bit
 * for bit, and workers of different ones are paired only where that is allowed. */

#include "support/command.h"
#include "support/expect.h"
#include "support/model_copy.h"
#include "support/ports.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const uint32_t LENGTHS[] = {1, 16, 33};
enum { N_PROMPTS = sizeof LENGTHS / sizeof *LENGTHS, N_TOKENS = 4, END_LIMIT_MS = 60000 };

#define POOL "--kv-memory", "2M", "--max-context-tokens", "128"
#define GPU  "--device", "cuda:0", POOL

/* Every prompt crosses, in chunks. */
static const char *const TAKES[] = {"--local-prefill-max-tokens", "0", "--no-prefix-cache", NULL};
static const char *const CHUNKS[] = {"--prefill-chunk-tokens", "16", NULL};

static char model[160]; /* heads of 64 */

static void make_model(void)
{
    command_folder_make();
    model_copy_make();
    model_copy_widen_heads();
    snprintf(model, sizeof model, "%s", in_folder("model"));
    cr_assert_eq(setenv("LD_LIBRARY_PATH", DOUBLE_FOLDER, 1), 0);
    cr_assert_eq(setenv("DOUBLE_SUMMARY", "1", 1), 0);
}

TestSuite(double_numerics, .init = make_model, .fini = command_folder_remove);

static void start_pair(struct cluster *cluster, const char *const *both)
{
    cluster_start(cluster, &(struct cluster_options){.model = model,
                                                     .n_contexts = 1,
                                                     .n_generations = 1,
                                                     .both = both,
                                                     .context = CHUNKS,
                                                     .generation = TAKES,
                                                     .first_context_binary = DOUBLE_BINARY,
                                                     .first_generation_binary = DOUBLE_BINARY});
}

static void make_single(struct work *work, const char *const *flags)
{
    work_create_of(work,
                   &(struct cluster_options){.model = model,
                                             .n_generations = 1,
                                             .both = flags,
                                             .generation = TAKES,
                                             .first_generation_binary = DOUBLE_BINARY},
                   LENGTHS, N_PROMPTS, N_TOKENS);
}

/* Both of a pair have the setting: split has single's tokens, and the kernels of it ran. */
static void check_math(const char *math, const char *cache, const char *type)
{
    const char *flags[] = {GPU, "--attention-math", math, "--kv-dtype", cache, NULL};
    char of_prompts[64], of_generation[64];
    struct work work;
    struct cluster cluster;
    snprintf(of_prompts, sizeof of_prompts, "kernel attention_flash_%s_64 ", type);
    snprintf(of_generation, sizeof of_generation, "kernel attention_grouped_%s_16_64 ", type);
    make_single(&work, flags);
    start_pair(&cluster, flags);
    cr_expect_gt(expect_all_same(&work, &cluster, END_LIMIT_MS), 0, "%s: nothing crossed", math);
    cluster_end(&cluster);
    cr_expect(child_log_has(&cluster.contexts[0], of_prompts), "no %s", of_prompts);
    cr_expect(child_log_has(&cluster.generations[0], of_generation), "no %s", of_generation);
    cr_expect_not(child_log_has(&cluster.generations[0], "kernel attention_masked"));
    cluster_remove(&cluster);
    work_destroy(&work);
}

Test(double_numerics, split_equals_single_on_tensor_cores_in_both_phases)
{
    check_math("bf16", "bf16", "bf16");
    check_math("fp16", "f16", "f16");
}

/* A prompt of a tile and a part of one; the chunk of the context worker is a tile. */
static void check_8_bits(const char *math, const char *kernel)
{
    static const uint32_t length = 64 + 6;
    static const char *const tiles[] = {"--prefill-chunk-tokens", "64", "--prefill-batch-tokens",
                                        "64", NULL};
    const char *flags[] = {GPU, "--attention-math", math, "--kv-block-tokens", "64", NULL};
    struct work work;
    struct cluster cluster;
    work_create_of(&work,
                   &(struct cluster_options){.model = model,
                                             .n_generations = 1,
                                             .both = flags,
                                             .generation = TAKES,
                                             .first_generation_binary = DOUBLE_BINARY},
                   &length, 1, N_TOKENS);
    cluster_start(&cluster, &(struct cluster_options){.model = model,
                                                      .n_contexts = 1,
                                                      .n_generations = 1,
                                                      .both = flags,
                                                      .context = tiles,
                                                      .generation = TAKES,
                                                      .first_context_binary = DOUBLE_BINARY,
                                                      .first_generation_binary = DOUBLE_BINARY});
    cr_expect_gt(expect_all_same(&work, &cluster, END_LIMIT_MS), 0, "%s: nothing crossed", math);
    cluster_end(&cluster);
    cr_expect(child_log_has(&cluster.contexts[0], kernel), "no %s", kernel);
    cluster_remove(&cluster);
    work_destroy(&work);
}

Test(double_numerics, split_equals_single_with_prompts_in_8_bits)
{
    check_8_bits("fp8", "kernel attention_masked_64 ");
    check_8_bits("int8", "kernel attention_masked_int8_256 ");
}

/* ---- what is kept of an answer ---- */

enum { N_FIRST = 16, N_ANSWER = 20, N_SECOND = N_FIRST + N_ANSWER, N_OF_SECOND = 3 };

struct turns {
    uint32_t cached, tokens[N_OF_SECOND];
};

/* A prompt, then prompt and answer as the next one's beginning. */
static struct turns take_turns(const char *math, const char *prefix_cache)
{
    const char *flags[] = {"--attention-math", math, prefix_cache, NULL};
    uint32_t prompt[N_SECOND];
    struct turns turns;
    struct cluster cluster;
    prompt_tokens(9, prompt, N_FIRST);
    cluster_start(&cluster, &(struct cluster_options){.n_generations = 1, .generation = flags});
    struct client *client = client_create(cluster.router.grpc);
    struct generation first = {
        .tokens = prompt, .n_tokens = N_FIRST, .max_tokens = N_ANSWER, .ignore_eos = true};
    client_run(client, &first);
    cr_assert_eq(first.n_generated, N_ANSWER);
    memcpy(prompt + N_FIRST, first.generated, N_ANSWER * sizeof *prompt);
    struct generation second = {
        .tokens = prompt, .n_tokens = N_SECOND, .max_tokens = N_OF_SECOND, .ignore_eos = true};
    client_run(client, &second);
    cr_assert_eq(second.n_generated, N_OF_SECOND);
    turns.cached = second.cached_tokens;
    memcpy(turns.tokens, second.generated, sizeof turns.tokens);
    client_destroy(client);
    cluster_stop(&cluster);
    return turns;
}

/* Where prompts are computed in another math than answers, an answer's KV is not what a prompt's would be. */
Test(double_numerics, an_answer_is_cached_only_where_a_prompt_would_have_its_bits)
{
    const struct turns agree = take_turns("compute", "--prefix-cache");
    const struct turns differ = take_turns("bf16", "--prefix-cache");
    const struct turns alone = take_turns("bf16", "--no-prefix-cache");
    cr_expect_eq(agree.cached, 32, "%u", agree.cached);
    cr_expect_eq(differ.cached, 16, "%u", differ.cached);
    cr_expect_eq(alone.cached, 0);
    cr_expect_eq(memcmp(differ.tokens, alone.tokens, sizeof differ.tokens), 0);
}

Test(double_numerics, nobody_is_paused_whose_answer_could_not_be_computed_again)
{
    RUN("gen-worker", KVFERRY_DEMO_MODEL, WORKER_PORTS, "--attention-math", "bf16",
        "--capacity-policy", "max-utilization");
    cr_expect_eq(last_command.exit_status, EXIT_FAILURE);
    cr_expect(strstr(last_command.err, "capacity_policy is max-utilization: generated tokens "
                                       "cannot be computed again in chunks with any attention_math "
                                       "but compute"),
              "%s", last_command.err);
    command_binary = DOUBLE_BINARY;
    RUN("gen-worker", KVFERRY_DEMO_MODEL, WORKER_PORTS, GPU, "--device-math", "fast",
        "--capacity-policy", "max-utilization");
    cr_expect_eq(last_command.exit_status, EXIT_FAILURE);
    cr_expect(strstr(last_command.err, "in chunks with device_math fast, whose sums depend on how "
                                       "many tokens a step has"),
              "%s", last_command.err);
}

/* ---- weights of eight bits ---- */

/* Made on the host from the file's, sent to the device: split equals single, on the products' kernels for them. */
Test(double_numerics, split_equals_single_with_weights_rounded_to_int8)
{
    static const char *const formats[] = {"int8", "int8-group32"};
    static const char *const kernels[] = {"kernel product_rows_bf16_",
                                          "kernel product_groups_bf16_"};
    for (int i = 0; i < 2; i++) {
        const char *flags[] = {GPU, "--weights", formats[i], NULL};
        struct work work;
        struct cluster cluster;
        make_single(&work, flags);
        start_pair(&cluster, flags);
        cr_expect_gt(expect_all_same(&work, &cluster, END_LIMIT_MS), 0, "%s", formats[i]);
        cluster_end(&cluster);
        cr_expect(child_log_has(&cluster.contexts[0], kernels[i]), "no %s", kernels[i]);
        cr_expect(child_log_has(&cluster.generations[0], kernels[i]), "no %s", kernels[i]);
        cluster_remove(&cluster);
        work_destroy(&work);
    }
}

/* The CPU rounds activations to eight bits, too, the GPU does not: greedy tokens of prompts that were seen to be the same
 * (tests/simt/model/margin_test.c). */
static void mixed_int8(bool is_context)
{
    static const uint32_t lengths[] = {18, 16, 25};
    static const char *const pool[] = {POOL, "--weights", "int8", NULL};
    static const char *const gpu[] = {"--device", "cuda:0", NULL};
    static const char *const any[] = {"--local-prefill-max-tokens", "0",   "--no-prefix-cache",
                                      "--allow-numerics",           "any", NULL};
    struct work work;
    struct cluster cluster;
    work_create(&work, lengths, 3, N_TOKENS, pool);
    cluster_start(&cluster, &(struct cluster_options){
                                .n_contexts = 1,
                                .n_generations = 1,
                                .both = pool,
                                .first_context = is_context ? gpu : NULL,
                                .generation = any,
                                .first_generation = is_context ? NULL : gpu,
                                .first_context_binary = is_context ? DOUBLE_BINARY : NULL,
                                .first_generation_binary = is_context ? NULL : DOUBLE_BINARY});
    expect_greedy_same(&work, &cluster);
    cluster_stop(&cluster);
    work_destroy(&work);
}

Test(double_numerics, a_gpu_with_int8_weights_feeds_a_cpu_with_them_and_the_reverse)
{
    mixed_int8(true);
    mixed_int8(false);
}

/* ---- products by the library of the device's maker ---- */

#define SHORT_STEPS "--prefill-chunk-tokens", "16", "--prefill-batch-tokens", "16"

static void start_fast(struct cluster *cluster)
{
    static const char *const fast[] = {GPU, SHORT_STEPS, "--device-math", "fast", NULL};
    static const char *const few[] = {
        "--local-prefill-max-tokens", "0", "--no-prefix-cache", "--sequences-max", "4", NULL};
    cr_assert_eq(setenv("DOUBLE_LOG", "1", 1), 0);
    cluster_start(cluster, &(struct cluster_options){.model = model,
                                                     .n_contexts = 1,
                                                     .n_generations = 1,
                                                     .both = fast,
                                                     .generation = few,
                                                     .first_context_binary = DOUBLE_BINARY,
                                                     .first_generation_binary = DOUBLE_BINARY});
}

/* A chunk of 16 tokens, which are planned, and one of 7: by the algorithm of 8 or, where the library says that it does not fit, by own
 * kernels. Its sums are in the order of theirs: the same tokens. The id says what computes. */
Test(double_numerics, fast_products_come_from_cublaslt_as_far_as_it_takes_them)
{
    static const char *const exact[] = {GPU, SHORT_STEPS, NULL};
    static const uint32_t length = 16 + 7;
    struct work work;
    struct cluster cluster;
    work_create_of(&work,
                   &(struct cluster_options){.model = model,
                                             .n_generations = 1,
                                             .both = exact,
                                             .generation = TAKES,
                                             .first_generation_binary = DOUBLE_BINARY},
                   &length, 1, N_TOKENS);
    for (int is_refused = 0; is_refused < 2; is_refused++) {
        if (is_refused)
            cr_assert_eq(setenv("DOUBLE_REFUSED_TOKENS", "7", 1), 0);
        start_fast(&cluster);
        cr_expect_gt(expect_all_same(&work, &cluster, END_LIMIT_MS), 0);
        cluster_end(&cluster);
        const struct child *context = &cluster.contexts[0];
        cr_expect(child_log_has(context, "numerics cuda_sm90-bf16-cublaslt-cuda-compute-asis-3"));
        cr_expect_eq(child_log_has(context, "cublaslt-double: product of 7 tokens"), !is_refused);
        cr_expect_eq(child_log_has(context, "7 tokens are not for the algorithm of 8"), is_refused);
        cluster_remove(&cluster);
    }
    work_destroy(&work);
}

Test(double_numerics, fast_products_without_a_library_or_a_gpu_are_refused)
{
#define SERVES "gen-worker", KVFERRY_DEMO_MODEL, POOL, WORKER_PORTS, "--device-math", "fast"
    RUN(SERVES, "--device", "cpu");
    cr_expect_eq(last_command.exit_status, EXIT_FAILURE);
    cr_expect(strstr(last_command.err, "device_math is fast: it needs a GPU, but device is cpu"),
              "%s", last_command.err);
    char path[512];
    static const char *const files[] = {"libcuda.so.1", "double-executor", "double-image.so"};
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", DOUBLE_FOLDER, files[i]);
        cr_assert_eq(symlink(path, in_folder(files[i])), 0);
    }
    cr_assert_eq(setenv("LD_LIBRARY_PATH", command_folder, 1), 0);
    command_binary = DOUBLE_BINARY;
    RUN(SERVES, "--device", "cuda:0");
    cr_expect_eq(last_command.exit_status, EXIT_FAILURE);
    cr_expect(strstr(last_command.err, "device_math is fast, and there is no libcublasLt.so.13"),
              "%s", last_command.err);
}
