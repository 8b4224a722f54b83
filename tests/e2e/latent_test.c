/* A model of latents (DeepSeek V3): a split cluster has the tokens of one process, from one row a token and layer that crosses, with
 * every type of cache, small and large blocks, other blocks on the two sides, after pauses, and without pages. */
#include "support/command.h"
#include "support/expect.h"
#include "support/latent_model.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { N_REQUESTS = 6, N_TOKENS = 40, LIMIT_MS = 120000 };

#define TEXT KVFERRY_SOURCE_DIR "/cli/demo_prompt.txt"

TestSuite(latent, .init = command_folder_make, .fini = command_folder_remove);

static const uint32_t LENGTHS[N_REQUESTS] = {9, 40, 41, 300, 511, 900};
static const uint32_t PROMPT_TOKENS = 9 + 40 + 41 + 300 + 511 + 900;

static uint64_t expect_tokens(const char *model, const char *const *both,
                              const char *const *context, const char *const *generation)
{
    return expect_split_of(&(struct split){.limit_ms = LIMIT_MS,
                                           .model = model,
                                           .single = both,
                                           .both = both,
                                           .context = context,
                                           .generation = generation},
                           LENGTHS, N_REQUESTS, N_TOKENS);
}

/* Whole blocks cross: at least the tokens, at most a block more for each prompt. */
static void expect_bytes(uint64_t bytes, uint32_t element_bytes, uint32_t block_tokens)
{
    const uint64_t row = LATENT_MODEL_ROW_BYTES(element_bytes);
    cr_expect_geq(bytes, PROMPT_TOKENS * row);
    cr_expect_leq(bytes, (PROMPT_TOKENS + N_REQUESTS * block_tokens) * row);
}

Test(latent, a_split_cluster_has_the_tokens_of_one_process_from_one_row_a_token)
{
    static const struct {
        const char *dtype, *block_tokens;
        uint32_t element_bytes, tokens;
    } CASES[] = {{"f32", "16", 4, 16}, {"bf16", "8", 2, 8}, {"f16", "128", 2, 128}};
    const char *model = latent_model_make();
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const char *flags[] = {"--kv-dtype",          CASES[i].dtype, "--kv-block-tokens",
                               CASES[i].block_tokens, "--kv-digest",  NULL};
        const uint64_t bytes = expect_tokens(
            model, flags, (const char *const[]){"--prefill-chunk-tokens", "128", NULL}, NULL);
        expect_bytes(bytes, CASES[i].element_bytes, CASES[i].tokens);
    }
}

Test(latent, rows_of_8_bits_have_the_scales_of_calibrate)
{
    const char *model = latent_model_make();
    char scales[300];
    snprintf(scales, sizeof scales, "%s", in_folder("scales"));
    RUN("calibrate", model, "--text", TEXT, "--out", scales);
    EXPECT_OK();
    static const char *const TYPES[] = {"int8", "e4m3"};
    for (int i = 0; i < 2; i++)
        expect_bytes(expect_tokens(model,
                                   (const char *const[]){"--kv-dtype", TYPES[i], "--kv-scales",
                                                         scales, "--kv-digest", NULL},
                                   NULL, NULL),
                     1, 16);
}

Test(latent, other_blocks_on_the_two_sides)
{
    const char *model = latent_model_make();
    static const char *const CASES[][2] = {{"16", "32"}, {"64", "8"}};
    for (int i = 0; i < 2; i++)
        cr_expect_gt(expect_tokens(model, NULL,
                                   (const char *const[]){"--kv-block-tokens", CASES[i][0],
                                                         "--kv-digest", NULL},
                                   (const char *const[]){"--kv-block-tokens", CASES[i][1],
                                                         "--kv-digest", "--kv-convert", NULL}),
                     0);
}

/* The prompt is rounded elsewhere than in one process, so tokens may differ. */
Test(latent, other_types_on_the_two_sides_give_replies)
{
    const char *model = latent_model_make();
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
                                    "--kv-dtype", "bf16", "--kv-block-tokens", "32", "--kv-convert",
                                    "--local-prefill-max-tokens", "0", NULL}});
    expect_replies(&work, &cluster);
    cluster_stop(&cluster);
    work_destroy(&work);
}

Test(latent, pauses_and_a_cache_without_pages_change_no_token)
{
    const char *model = latent_model_make();
    cr_expect_gt(
        expect_tokens(model,
                      (const char *const[]){"--kv-blocks", "130", "--prefill-chunk-tokens", "64",
                                            "--prefill-batch-tokens", "64", "--kv-scrub", NULL},
                      NULL, NULL),
        0);
    cr_expect_gt(
        expect_tokens(model, (const char *const[]){"--kv-manager", "contiguous", NULL}, NULL, NULL),
        0);
}

static void expect_no_start(const char *model, const char *flag, const char *value,
                            const char *sentence)
{
    RUN("gen-worker", model, flag, value, "--force-window", "--dry-run");
    cr_expect_eq(last_command.exit_status, 1);
    cr_expect(strstr(last_command.err, sentence), "%s", last_command.err);
}

Test(latent, what_is_not_computed_is_refused_by_name)
{
    const char *model = latent_model_make();
    expect_no_start(model, "--attention-math", "bf16",
                    "attention_math is bf16, but attention is over latents: expected compute");
    expect_no_start(model, "--attention-path", "unfused",
                    "attention_path is unfused, but attention is over latents");
    expect_no_start(model, "--multi-block", "on",
                    "multi_block is on, but attention is over latents");
    expect_no_start(model, "--grouped-query", "off",
                    "grouped_query is off, but attention is over latents");
    expect_no_start(model, "--attention-window", "64",
                    "attention_window gives layer 0 a window of 64 tokens, but its attention is "
                    "over latents");
    expect_no_start(model, "--kv-dtype", "int8", "has no scales of K and V");
}

Test(latent, check_model_says_what_latents_save)
{
    const char *model = latent_model_make();
    RUN("check-model", model);
    EXPECT_OK();
    /* 3 layers of 2 bytes: 64 elements a token, in place of 4 heads of 40 + 20 */
    cr_expect(strstr(last_command.out, "48 elements and 16 of RoPE a token and layer: KV of 2048 "
                                       "tokens takes 0.8 MiB, 2.8 MiB as K and V of heads"),
              "%s", last_command.out);
    cr_expect(strstr(last_command.out, "3 of 64, 4 heads of 40, latents for K and V\n"), "%s",
              last_command.out);
    cr_expect(strstr(last_command.out, "layers 0-2: 4 heads on latents of 48, head_dim 40: flash, "
                                       "compute, KV bf16: supported"),
              "%s", last_command.out);
    cr_expect(strstr(last_command.err,
                     "1 tensors of the 1 layers behind layer 2 are not used: they "
                     "predict further tokens (num_nextn_predict_layers)"),
              "%s", last_command.err);
    cr_expect_null(strstr(last_command.err, "not used by this architecture"), "%s",
                   last_command.err);
    RUN("check-model", model, "--attention-math", "fp16", "--json");
    cr_expect_eq(last_command.exit_status, 1);
    cr_expect(strstr(last_command.out, "expected compute"), "%s", last_command.out);
}
