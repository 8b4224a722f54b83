/* Whatever chooses how attention is computed, a split cluster has the tokens of one process with the same choice: in chunks of other
 * lengths, too. */
#include "support/command.h"
#include "support/expect.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

TestSuite(switches, .init = command_folder_make, .fini = command_folder_remove);

enum { N_REQUESTS = 5, N_TOKENS = 30 };

static const uint32_t LENGTHS[N_REQUESTS] = {9, 40, 41, 300, 900};

static uint64_t expect_split(const char *const *flags)
{
    return expect_split_is_single(flags, LENGTHS, N_REQUESTS, N_TOKENS);
}

Test(switches, stored_scores)
{
    (void)expect_split((const char *const[]){"--attention-path", "unfused", NULL});
    (void)expect_split(
        (const char *const[]){"--attention-path", "short", "--max-context-tokens", "1024", NULL});
}

Test(switches, generated_tokens_in_parts_and_heads_alone)
{
    (void)expect_split(
        (const char *const[]){"--multi-block", "on", "--grouped-query", "off", NULL});
}

/* The steps of the context worker are a block long, those of the one process are of many. */
static void expect_split_in_steps(const char *math)
{
    const char *flags[] = {"--attention-math", math, "--kv-block-tokens", "64", NULL};
    static const char *const SHORT[] = {"--prefill-chunk-tokens", "64", "--prefill-batch-tokens",
                                        "64", NULL};
    static const char *const ALL_CROSS[] = {"--local-prefill-max-tokens", "0", NULL};
    struct work work;
    struct cluster cluster;
    work_create(&work, LENGTHS, N_REQUESTS, N_TOKENS, flags);
    cluster_start(&cluster, &(struct cluster_options){.n_contexts = 1,
                                                      .n_generations = 1,
                                                      .both = flags,
                                                      .context = SHORT,
                                                      .generation = ALL_CROSS});
    cr_expect_gt(expect_all_same(&work, &cluster, 60000), 0, "%s: nothing crossed", math);
    cluster_stop(&cluster);
    work_destroy(&work);
}

Test(switches, rounded_prompts_in_steps_of_any_length)
{
    expect_split_in_steps("fp8");
    expect_split_in_steps("int8");
    expect_split_in_steps("int8-pv-fp8");
}

static const char WINDOWED[] = KVFERRY_SOURCE_DIR "/tests/golden/models/gemma3_t4";

Test(switches, int8_prompts_take_blocks_of_whole_tiles)
{
    static const char *const ROLES[] = {"ctx-worker", "gen-worker"};
    for (int i = 0; i < 2; i++) {
        for (int is_dry = 0; is_dry < 2; is_dry++) {
            RUN(ROLES[i], KVFERRY_DEMO_MODEL, "--attention-math", "int8",
                is_dry ? "--dry-run" : NULL);
            cr_expect_eq(last_command.exit_status, EXIT_FAILURE);
            cr_expect(strstr(last_command.err,
                             "attention_math is int8, which rounds K of 64 tokens together, with "
                             "kv_block_tokens 16: expected 64 or 128"),
                      "%s", last_command.err);
        }
        RUN(ROLES[i], WINDOWED, "--attention-math", "int8", "--kv-block-tokens", "64", "--dry-run");
        cr_expect_eq(last_command.exit_status, EXIT_FAILURE);
        cr_expect(strstr(last_command.err, "the window of a layer is 9 of up to 128 tokens"), "%s",
                  last_command.err);
    }
    RUN("gen-worker", KVFERRY_DEMO_MODEL, "--attention-math", "int4");
    cr_expect_eq(last_command.exit_status, 2);
    cr_expect(strstr(last_command.err, "compute|bf16|fp16|fp8|int8|int8-pv-fp8"), "%s",
              last_command.err);
}
