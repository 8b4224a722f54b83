/* A model whose layers have different heads, and of which some read K and V of others (Gemma 4): a split cluster has the tokens of one
 * process and of a whole prompt, with every type of cache, small and large blocks, after pauses, from files, and without pages. */
#include "support/command.h"
#include "support/expect.h"
#include "support/unequal_model.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { N_REQUESTS = 6, N_TOKENS = 40, LIMIT_MS = 120000 };

#define TEXT KVFERRY_SOURCE_DIR "/cli/demo_prompt.txt"

TestSuite(unequal, .init = command_folder_make, .fini = command_folder_remove);

static const uint32_t LENGTHS[N_REQUESTS] = {9, 40, 49, 300, 511, 900};

/* single: the flags of the one process. */
static uint64_t expect_tokens_of(const char *model, const char *const *single,
                                 const char *const *both, const char *const *context)
{
    return expect_split_of(&(struct split){.limit_ms = LIMIT_MS,
                                           .model = model,
                                           .single = single,
                                           .both = both,
                                           .context = context},
                           LENGTHS, N_REQUESTS, N_TOKENS);
}

static uint64_t expect_tokens(const char *model, const char *const *both,
                              const char *const *context)
{
    return expect_tokens_of(model, both, both, context);
}

/* A whole prompt in one process, and chunks in two: of all types and sizes. */
Test(unequal, a_split_cluster_has_the_tokens_of_one_process)
{
    static const char *const CASES[][2] = {
        {"f32", "16"}, {"bf16", "8"}, {"f16", "64"}, {"bf16", "32"}};
    const char *model = unequal_model_make();
    uint64_t bytes[4];
    for (int i = 0; i < 4; i++) {
        const char *flags[] = {"--kv-dtype", CASES[i][0],   "--kv-block-tokens",
                               CASES[i][1],  "--kv-digest", NULL};
        const char *whole[] = {"--kv-dtype",
                               CASES[i][0],
                               "--kv-block-tokens",
                               CASES[i][1],
                               "--prefill-chunk-tokens",
                               "1024",
                               "--prefill-batch-tokens",
                               "1024",
                               NULL};
        bytes[i] = expect_tokens_of(model, whole, flags,
                                    (const char *const[]){"--prefill-chunk-tokens", "64",
                                                          "--prefill-batch-tokens", "64", NULL});
        cr_expect_gt(bytes[i], 0);
    }
    cr_expect_gt(bytes[0], bytes[1] * 3 / 2, "elements of four bytes");
}

Test(unequal, a_split_cluster_with_experts_beside_the_mlps_has_the_tokens_of_one_process)
{
    const char *model = unequal_model_make_with_experts();
    cr_expect_gt(expect_tokens_of(model,
                                  (const char *const[]){"--prefill-chunk-tokens", "1024",
                                                        "--prefill-batch-tokens", "1024", NULL},
                                  (const char *const[]){"--kv-digest", NULL},
                                  (const char *const[]){"--prefill-chunk-tokens", "64",
                                                        "--prefill-batch-tokens", "64", NULL}),
                 0);
    RUN("check-model", model);
    EXPECT_OK();
    cr_expect(
        strstr(last_command.out,
               "experts         6 of 6 layers have 4 experts, 2 for each token, beside the MLP\n"),
        "%s", last_command.out);
}

Test(unequal, caches_of_8_bits_have_the_scales_of_calibrate)
{
    const char *model = unequal_model_make();
    char scales[300];
    snprintf(scales, sizeof scales, "%s", in_folder("scales"));
    RUN("calibrate", model, "--text", TEXT, "--out", scales);
    EXPECT_OK();
    static const char *const TYPES[] = {"int8", "e4m3"};
    for (int i = 0; i < 2; i++)
        cr_expect_gt(expect_tokens(model,
                                   (const char *const[]){"--kv-dtype", TYPES[i], "--kv-scales",
                                                         scales, "--kv-digest", NULL},
                                   NULL),
                     0);
    RUN("eval", model, "--text", TEXT, "--kv-dtype", "int8", "--kv-scales", scales);
    EXPECT_OK();
}

Test(unequal, pauses_and_a_cache_without_pages_change_no_token)
{
    const char *model = unequal_model_make();
    cr_expect_gt(
        expect_tokens(model,
                      (const char *const[]){"--kv-blocks", "190", "--prefill-chunk-tokens", "64",
                                            "--prefill-batch-tokens", "64", "--kv-scrub", NULL},
                      NULL),
        0);
    cr_expect_gt(
        expect_tokens(model, (const char *const[]){"--kv-manager", "contiguous", NULL}, NULL), 0);
}

/* Blocks that left for files come back to their groups, twice, and behind a restart. */
Test(unequal, prefixes_from_files_change_no_token)
{
    static const char *const BLOCKS[] = {
        "--kv-blocks", "110", "--prefill-chunk-tokens", "64", "--prefill-batch-tokens", "64", NULL};
    const char *model = unequal_model_make();
    struct work work;
    char folder[300];
    snprintf(folder, sizeof folder, "%s", in_folder("blocks"));
    work_create_of(&work, &(struct cluster_options){.model = model, .n_generations = 1}, LENGTHS,
                   N_REQUESTS, N_TOKENS);
    for (int life = 0; life < 2; life++) {
        struct cluster cluster;
        cluster_start(&cluster,
                      &(struct cluster_options){
                          .model = model,
                          .n_contexts = 1,
                          .n_generations = 1,
                          .both = BLOCKS,
                          .context = (const char *const[]){"--kv-disk", folder, "--kv-disk-size",
                                                           "200M", NULL},
                          .generation = (const char *const[]){"--local-prefill-max-tokens", "0",
                                                              "--no-prefix-cache", NULL}});
        for (int round = 0; round < 2; round++)
            (void)expect_all_same(&work, &cluster, LIMIT_MS);
        cr_expect_gt(
            child_metric(&cluster.contexts[0], "kvferry_kv_tier_restored_tokens_total", ""), 100,
            "life %d", life);
        cr_expect_eq(child_metric(&cluster.contexts[0], "kvferry_kv_tier_errors_total", ""), 0);
        cluster_stop(&cluster);
    }
    work_destroy(&work);
}

/* Without windows both kinds of layers keep all, in groups of their own, and blocks of other sizes are converted. */
Test(unequal, other_blocks_on_the_two_sides_have_the_tokens_of_one_process)
{
    static const char *const WHOLE[] = {"--attention-window", "0", "--force-window", NULL};
    static const char *const CASES[][2] = {{"16", "16"}, {"8", "64"}, {"64", "16"}};
    const char *model = unequal_model_make();
    struct work work;
    work_create_of(&work,
                   &(struct cluster_options){.model = model, .n_generations = 1, .both = WHOLE},
                   LENGTHS, N_REQUESTS, N_TOKENS);
    for (int i = 0; i < 3; i++) {
        struct cluster cluster;
        cluster_start(&cluster,
                      &(struct cluster_options){
                          .model = model,
                          .n_contexts = 1,
                          .n_generations = 1,
                          .both = WHOLE,
                          .context = (const char *const[]){"--kv-block-tokens", CASES[i][0],
                                                           "--kv-digest", NULL},
                          .generation = (const char *const[]){
                              "--kv-block-tokens", CASES[i][1], "--kv-convert", "--kv-digest",
                              "--local-prefill-max-tokens", "0", NULL}});
        cr_expect_gt(expect_all_same(&work, &cluster, LIMIT_MS), 0);
        cluster_stop(&cluster);
    }
    work_destroy(&work);
}

/* The prompt is rounded elsewhere than in one process, so tokens may differ; nothing is computed again. */
Test(unequal, other_types_on_the_two_sides_give_replies)
{
    const char *model = unequal_model_make();
    struct work work;
    struct cluster cluster;
    work_create_of(&work, &(struct cluster_options){.model = model, .n_generations = 1}, LENGTHS,
                   N_REQUESTS, N_TOKENS);
    cluster_start(&cluster, &(struct cluster_options){
                                .model = model,
                                .n_contexts = 1,
                                .n_generations = 1,
                                .context = (const char *const[]){"--kv-dtype", "f32", NULL},
                                .generation = (const char *const[]){
                                    "--kv-dtype", "bf16", "--kv-convert",
                                    "--local-prefill-max-tokens", "0", NULL}});
    expect_replies(&work, &cluster);
    cluster_stop(&cluster);
    work_destroy(&work);
}

Test(unequal, check_model_says_what_differs)
{
    const char *model = unequal_model_make();
    RUN("check-model", model);
    EXPECT_OK();
    static const char *const SAYS[] = {
        "6 of 64, 4 heads of 16, 2 for K and V\n",
        "windows         3 of 6 layers see 48 tokens",
        "2 of 6 layers have heads of 32, 2 for K and V: 2048 tokens have 0.0 MiB of padding",
        "shared          2 of 6 layers read K and V of others\n",
        "layers 0-2: window 48, local RoPE, 4 heads on 2, head_dim 16: flash, compute, KV bf16",
        "layer 3: 4 heads on 2, head_dim 32: ",
        "layer 4: window 48, K and V of others, local RoPE, 4 heads on 2, head_dim 16: ",
    };
    for (size_t i = 0; i < sizeof SAYS / sizeof *SAYS; i++)
        cr_expect(strstr(last_command.out, SAYS[i]), "%s: %s", SAYS[i], last_command.out);
    RUN("gen-worker", model, "--sink-tokens", "4", "--attention-window", "64", "--dry-run");
    cr_expect_eq(last_command.exit_status, 1);
    cr_expect(strstr(last_command.err, "sink_tokens"), "%s", last_command.err);
    RUN("gen-worker", model, "--attention-window", "48,48,48,0,16,0", "--force-window",
        "--dry-run");
    cr_expect_eq(last_command.exit_status, 1);
    cr_expect(strstr(last_command.err, "attention_window gives layer 4 a window of 16 tokens, but "
                                       "it reads K and V of layer 2, which has 48"),
              "%s", last_command.err);
}
