/* Layers with a window keep and send the K and V of the window alone, and change no token: a split cluster has the tokens of one
 * process, in chunks, from the prefix cache and after pauses. */
#include "support/command.h"
#include "support/expect.h"

#include <criterion/criterion.h>
#include <string.h>

enum { N_REQUESTS = 6, N_TOKENS = 60 };

#define MODEL KVFERRY_DEMO_MODEL

TestSuite(windows, .init = command_folder_make, .fini = command_folder_remove);

static const uint32_t LENGTHS[N_REQUESTS] = {9, 63, 64, 65, 300, 900};

static uint64_t expect_split(const char *const *flags)
{
    return expect_split_is_single(flags, LENGTHS, N_REQUESTS, N_TOKENS);
}

Test(windows, what_no_token_sees_does_not_cross)
{
    const uint64_t of_all = expect_split((const char *const[]){NULL});
    const uint64_t of_some = expect_split(
        (const char *const[]){"--attention-window", "64,0", "--force-window", NULL});
    const uint64_t of_none = expect_split(
        (const char *const[]){"--attention-window", "64", "--force-window", NULL});
    cr_expect_lt(of_some, of_all * 3 / 4);
    cr_expect_lt(of_none, of_all / 3);
}

Test(windows, small_chunks_and_blocks)
{
    (void)expect_split((const char *const[]){
        "--attention-window", "40,100,0", "--force-window", "--kv-block-tokens", "8",
        "--prefill-chunk-tokens", "24", "--prefill-batch-tokens", "24", "--kv-digest", NULL});
    (void)expect_split((const char *const[]){"--attention-window", "1,33", "--force-window",
                                             "--kv-block-tokens", "32", "--prefill-chunk-tokens",
                                             "64", "--kv-dtype", "f16", "--kv-scrub", NULL});
}

Test(windows, pauses_change_no_token)
{
    (void)expect_split((const char *const[]){"--attention-window", "64,0", "--force-window",
                                             "--kv-blocks", "190", "--prefill-chunk-tokens", "64",
                                             "--prefill-batch-tokens", "64", "--kv-scrub", NULL});
}

/* Without pages it takes more, and has the same tokens. */
Test(windows, a_contiguous_cache_has_the_same_tokens)
{
    (void)expect_split((const char *const[]){"--kv-manager", "contiguous", "--attention-window",
                                             "64,0", "--force-window", NULL});
    (void)expect_split((const char *const[]){"--kv-manager", "contiguous", NULL});
}

Test(windows, other_windows_are_another_model)
{
    struct cluster cluster;
    cluster_start(&cluster, &(struct cluster_options){
                                .n_contexts = 1,
                                .n_generations = 1,
                                .n_misfits = 1,
                                .context = (const char *const[]){"--attention-window", "64,0",
                                                                 "--force-window", NULL},
                                .generation = (const char *const[]){"--attention-window", "64",
                                                                    "--force-window", NULL}});
    RUN("ps", "--control", address_of(cluster.router.control));
    EXPECT_OK();
    cr_expect(strstr(last_command.out, "the router does not use it: its model is ") ||
                  strstr(last_command.out, "KV layout: model_digest is "),
              "%s", last_command.out);
    cluster_stop(&cluster);
}

Test(windows, a_window_that_the_model_was_not_made_with_is_refused)
{
    RUN("gen-worker", MODEL, "--attention-window", "64");
    cr_expect_eq(last_command.exit_status, 1);
    cr_expect(strstr(last_command.err, "attention_window gives layer 0 a window of 64 tokens; the "
                                       "model was made with 0 (0: all)"),
              "%s", last_command.err);
    RUN("check-model", MODEL, "--attention-window", "64,0", "--force-window");
    EXPECT_OK();
    cr_expect(strstr(last_command.out, "3 of 5 layers see 64 tokens: KV of 2048 tokens takes"),
              "%s", last_command.out);
    RUN("check-model", MODEL, "--attention-window", "0");
    EXPECT_OK();
    static const char *const BAD[] = {"x", "64,", ",64", "-1", "64 ", "1e3", "1073741825", "0x40"};
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        RUN("check-model", MODEL, "--attention-window", BAD[i], "--force-window");
        cr_expect_eq(last_command.exit_status, 1);
        cr_expect(strstr(last_command.err, "attention_window is \""), "%s", last_command.err);
    }
    RUN("check-model", MODEL, "--attention-window", "1,2,3,4,5,6", "--force-window");
    cr_expect(strstr(last_command.err, "more numbers than the model's 5 layers"), "%s",
              last_command.err);
}
