/* Many requests at once, some cancelled, some with too little time: each ends exactly once with the
 * right tokens or one typed status, and nothing is owned afterwards. */

#include "base/random.h"
#include "support/expect.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#define N_REQUESTS 64u
#define N_TOKENS   24u
#ifdef KVFERRY_SANITIZED /* some ten times slower, and what is looked for is not in the arithmetic */
#define LONG_PROMPT  400u
#define SHORT_PROMPT 60u
#else
#define LONG_PROMPT  1900u
#define SHORT_PROMPT 300u
#endif

static void mixed_work(struct work *work)
{
    uint32_t lengths[N_REQUESTS];
    struct random random;
    random_init(&random, 5);
    for (uint32_t i = 0; i < N_REQUESTS; i++)
        lengths[i] = i % 8 == 0 ? LONG_PROMPT - (uint32_t)random_below(&random, LONG_PROMPT / 2)
                                : 1 + (uint32_t)random_below(&random, SHORT_PROMPT);
    work_create(work, lengths, N_REQUESTS, N_TOKENS, NULL);
}

static void start_two_by_two(struct cluster *cluster)
{
    static const char *const generation[] = {"--local-prefill-max-tokens", "8", NULL};
    cluster_start(cluster, &(struct cluster_options){
                               .n_contexts = 2, .n_generations = 2, .generation = generation});
}

struct footprint {
    uint32_t descriptors;
    uint64_t resident_bytes;
};

static struct footprint footprint_of(const struct child *child)
{
    return (struct footprint){child_descriptors(child), child_resident_bytes(child)};
}

/* What a worker opens at its first hand-over with a peer and keeps, so that it may come after the
 * warm-up, once: two connections (gRPC's for the calls, UCX's for the blocks), and for the first peer
 * UCX's timer. Measured in a generation worker: three with the first context worker, two with the
 * second, none with any later request. */
#define PEERS_OF_A_WORKER  2u
#define DESCRIPTORS_A_PEER 2u
#define DESCRIPTORS_OF_UCX 1u
#define DESCRIPTORS_LATER  (PEERS_OF_A_WORKER * DESCRIPTORS_A_PEER + DESCRIPTORS_OF_UCX)

/* Memory pools may have warmed up: bounded, not equal. */
static void expect_back(const struct child *child, struct footprint before)
{
    struct footprint now = footprint_of(child);
    cr_assert_leq(now.descriptors, before.descriptors + DESCRIPTORS_LATER,
                  "%s: %u descriptors, before %u", child->name, now.descriptors,
                  before.descriptors);
    cr_assert_leq(now.resident_bytes, before.resident_bytes + (16u << 20),
                  "%s: %lu resident bytes, before %lu", child->name,
                  (unsigned long)now.resident_bytes, (unsigned long)before.resident_bytes);
}

/* All requests at once; every third may be cancelled, every third has little time. */
static uint32_t storm(const struct work *work, struct cluster *cluster, bool disturbs)
{
    struct client *client = client_create(cluster->router.grpc);
    struct generation *generations = calloc(work->n, sizeof *generations);
    cr_assert_not_null(generations);
    struct random random;
    random_init(&random, 9);
    for (uint32_t i = 0; i < work->n; i++) {
        work_request(work, i, &generations[i]);
        if (disturbs && i % 3 == 0)
            generations[i].cancel_after_messages = 1 +
                                                   (uint32_t)random_below(&random, N_TOKENS / 2);
        if (disturbs && i % 3 == 1)
            generations[i].deadline_ms = 20 + (uint32_t)random_below(&random, 1500);
        client_start(client, &generations[i]);
        if (disturbs && i % 9 == 3)
            client_cancel(&generations[i]); /* before anything came back */
    }
    uint32_t n_done = 0;
    for (uint32_t i = 0; i < work->n; i++) {
        cr_assert(client_wait(client, &generations[i], 90000), "request %u does not end", i);
        if (!disturbs)
            expect_same(work, i, &generations[i]);
        n_done += expect_same_or_typed(work, i, &generations[i]);
    }
    free(generations);
    client_destroy(client);
    cluster_wait_quiet(cluster);
    return n_done;
}

Test(load, sixty_four_at_once_get_their_own_tokens)
{
    struct work work;
    mixed_work(&work);
    struct cluster cluster;
    start_two_by_two(&cluster);
    cr_assert_eq(storm(&work, &cluster, false), N_REQUESTS);
    double received = 0;
    for (uint32_t g = 0; g < 2; g++)
        received += child_metric(&cluster.generations[g], "kvferry_kv_transfer_bytes_total", "");
    cr_assert_gt(received, 0);
    cluster_stop(&cluster);
    work_destroy(&work);
}

Test(load, cancels_and_deadlines_leave_nothing_behind)
{
    struct work work;
    mixed_work(&work);
    struct cluster cluster;
    start_two_by_two(&cluster);
    (void)storm(&work, &cluster, true); /* connects everything, warms the pools */

    struct footprint before[4] = {
        footprint_of(&cluster.contexts[0]), footprint_of(&cluster.contexts[1]),
        footprint_of(&cluster.generations[0]), footprint_of(&cluster.generations[1])};
    for (uint32_t round = 0; round < 3; round++)
        (void)storm(&work, &cluster, true);
    for (uint32_t i = 0; i < 2; i++) {
        expect_back(&cluster.contexts[i], before[i]);
        expect_back(&cluster.generations[i], before[2 + i]);
    }
    cr_assert_eq(storm(&work, &cluster, false), N_REQUESTS);
    cluster_stop(&cluster);
    work_destroy(&work);
}
