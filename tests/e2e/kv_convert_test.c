/* Workers with other blocks: with kv_convert KV of other block sizes gives the tokens of one process, and of other types a reply;
 * without it they are not paired, and say why. */
#include "support/command.h"
#include "support/expect.h"

#include <criterion/criterion.h>
#include <string.h>

enum { N_REQUESTS = 6, N_TOKENS = 30 };

TestSuite(kv_convert, .init = command_folder_make, .fini = command_folder_remove);

static const uint32_t LENGTHS[N_REQUESTS] = {9, 40, 41, 300, 511, 900};

static uint64_t expect_tokens(const char *const *context, const char *const *generation)
{
    struct work work;
    struct cluster cluster;
    work_create(&work, LENGTHS, N_REQUESTS, N_TOKENS, (const char *const[]){NULL});
    cluster_start(&cluster, &(struct cluster_options){.n_contexts = 1,
                                                      .n_generations = 1,
                                                      .context = context,
                                                      .generation = generation});
    const uint64_t bytes = expect_all_same(&work, &cluster, 120000);
    cr_expect_gt(bytes, 0);
    cluster_stop(&cluster);
    work_destroy(&work);
    return bytes;
}

Test(kv_convert, other_block_sizes_have_the_tokens_of_one_process)
{
    const uint64_t small = expect_tokens(
        (const char *const[]){"--kv-block-tokens", "8", "--kv-digest", NULL},
        (const char *const[]){"--kv-block-tokens", "64", "--kv-convert", "--kv-digest",
                              "--local-prefill-max-tokens", "0", NULL});
    const uint64_t large = expect_tokens(
        (const char *const[]){"--kv-block-tokens", "128", "--prefill-chunk-tokens", "128", NULL},
        (const char *const[]){"--kv-block-tokens", "16", "--kv-convert",
                              "--local-prefill-max-tokens", "0", NULL});
    cr_expect_gt(large, small, "whole blocks cross");
}

Test(kv_convert, other_transports_carry_other_blocks)
{
    static const char *const DRIVERS[] = {"tls", "unix", "shm-read"};
    for (size_t i = 0; i < sizeof DRIVERS / sizeof *DRIVERS; i++)
        (void)expect_tokens(
            (const char *const[]){"--kv-block-tokens", "32", "--kv-transport", DRIVERS[i], NULL},
            (const char *const[]){"--kv-block-tokens", "16", "--kv-convert", "--kv-transport",
                                  DRIVERS[i], "--local-prefill-max-tokens", "0", NULL});
}

/* The prompt is rounded elsewhere than in one process, so tokens may differ; nothing is computed again. */
Test(kv_convert, other_types_give_replies)
{
    static const char *const TYPES[][2] = {{"f32", "bf16"}, {"bf16", "f32"}, {"f16", "f32"}};
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++) {
        struct work work;
        struct cluster cluster;
        work_create(&work, LENGTHS, N_REQUESTS, N_TOKENS, (const char *const[]){NULL});
        cluster_start(
            &cluster,
            &(struct cluster_options){
                .n_contexts = 1,
                .n_generations = 1,
                .context = (const char *const[]){"--kv-dtype", TYPES[i][0], "--kv-digest", NULL},
                .generation = (const char *const[]){"--kv-dtype", TYPES[i][1], "--kv-convert",
                                                    "--kv-digest", "--kv-block-tokens", "32",
                                                    "--local-prefill-max-tokens", "0", NULL}});
        expect_replies(&work, &cluster);
        cluster_stop(&cluster);
        work_destroy(&work);
    }
}

Test(kv_convert, without_it_other_blocks_are_not_paired_and_what_cannot_be_converted_is_not)
{
    static const struct {
        const char *context[6], *generation[8];
        const char *says;
    } CASES[] = {
        {{"--kv-block-tokens", "32"},
         {"--kv-block-tokens", "16"},
         "block_tokens is 16 here and 32 there; with kv_convert it is accepted"},
        {{"--kv-dtype", "f32"},
         {"--kv-dtype", "bf16"},
         "dtype is bf16 here and f32 there; with kv_convert it is accepted"},
        {{"--kv-dtype", "e4m3"},
         {"--kv-dtype", "bf16", "--kv-convert"},
         "dtype is bf16 here and e4m3 there"},
        {{"--kv-block-tokens", "32", "--attention-window", "64,0", "--force-window"},
         {"--kv-block-tokens", "16", "--attention-window", "64,0", "--force-window",
          "--kv-convert"},
         "block_tokens is 16 here and 32 there, and layers have windows"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct cluster cluster;
        cluster_start(&cluster, &(struct cluster_options){.n_contexts = 1,
                                                          .n_generations = 1,
                                                          .n_misfits = 1,
                                                          .context = CASES[i].context,
                                                          .generation = CASES[i].generation});
        RUN("ps", "--control", address_of(cluster.router.control));
        EXPECT_OK();
        cr_expect(strstr(last_command.out, CASES[i].says), "%s", last_command.out);
        cluster_stop(&cluster);
    }
}
