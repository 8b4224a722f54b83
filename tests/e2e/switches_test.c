/* Whatever chooses how attention is computed, a split cluster has the tokens of one process with the same choice. */
#include "support/expect.h"

#include <criterion/criterion.h>

enum { N_REQUESTS = 5, N_TOKENS = 30, LIMIT_MS = 60000 };

static const uint32_t LENGTHS[N_REQUESTS] = {9, 40, 41, 300, 900};

static void expect_split_is_single(const char *const *flags)
{
    struct work work;
    struct cluster cluster;
    work_create(&work, LENGTHS, N_REQUESTS, N_TOKENS, flags);
    cluster_start(&cluster,
                  &(struct cluster_options){.n_contexts = 1,
                                            .n_generations = 1,
                                            .both = flags,
                                            .generation = (const char *const[]){
                                                "--local-prefill-max-tokens", "0", NULL}});
    cr_expect_gt(expect_all_same(&work, &cluster, LIMIT_MS), 0);
    cluster_stop(&cluster);
    work_destroy(&work);
}

Test(switches, stored_scores)
{
    expect_split_is_single((const char *const[]){"--attention-path", "unfused", NULL});
    expect_split_is_single(
        (const char *const[]){"--attention-path", "short", "--max-context-tokens", "1024", NULL});
}

Test(switches, generated_tokens_in_parts_and_heads_alone)
{
    expect_split_is_single(
        (const char *const[]){"--multi-block", "on", "--grouped-query", "off", NULL});
}
