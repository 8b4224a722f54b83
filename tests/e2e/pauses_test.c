/* Long generations that do not fit together: some are paused, all get the tokens that a worker with room for
 * them gives, and nothing is owned afterwards. */

#include "support/expect.h"

#include <criterion/criterion.h>
#include <stdlib.h>

enum { N_REQUESTS = 6, N_TOKENS = 160, PROMPT = 60 };

/* 14 blocks each in the end, and a pool of 40. */
static const char *const SMALL[] = {"--kv-blocks",
                                    "40",
                                    "--capacity-policy",
                                    "max-utilization",
                                    "--capacity-headroom-blocks",
                                    "1",
                                    "--local-prefill-max-tokens",
                                    "8",
                                    NULL};

static double decodes(const struct cluster *cluster, const char *name)
{
    return child_metric(&cluster->generations[0], name, "");
}

static void all_at_once(const struct work *work, const struct cluster *cluster)
{
    struct client *client = client_create(cluster->router.grpc);
    struct generation *generations = work_start(work, client, NULL);
    for (uint32_t i = 0; i < work->n; i++) {
        cr_assert(client_wait(client, &generations[i], 120000), "request %u does not end", i);
        expect_same(work, i, &generations[i]);
    }
    free(generations);
    client_destroy(client);
}

static void run_paused(uint32_t n_contexts)
{
    struct work work;
    struct cluster cluster;
    uint32_t lengths[N_REQUESTS];
    for (uint32_t i = 0; i < N_REQUESTS; i++)
        lengths[i] = PROMPT + i;
    work_create(&work, lengths, N_REQUESTS, N_TOKENS, NULL);
    cluster_start(&cluster, &(struct cluster_options){
                                .n_contexts = n_contexts, .n_generations = 1, .generation = SMALL});
    all_at_once(&work, &cluster);
    cr_assert_gt(decodes(&cluster, "kvferry_decode_pauses_total"), 0);
    cr_assert_gt(decodes(&cluster, "kvferry_decode_tokens_again_total"), 0);
    cr_assert_eq(decodes(&cluster, "kvferry_decodes_paused"), 0);
    cluster_wait_quiet(&cluster);
    cr_assert_eq(decodes(&cluster, "kvferry_kv_blocks_unowned"), 0);
    cluster_stop(&cluster);
    work_destroy(&work);
}

Test(pauses, whose_prompts_are_computed_here)
{
    run_paused(0);
}

Test(pauses, whose_prompts_come_from_a_context_worker)
{
    run_paused(1);
}
