#include "expect.h"

#include "base/clock.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Past its deadline a request may live this much longer. */
#define GRACE_NS       NS_PER_S
#define SPLIT_LIMIT_MS 60000u

enum { GENERATION_FLAGS_MAX = 12 };

void work_request(const struct work *work, uint32_t i, struct generation *generation_out)
{
    *generation_out = (struct generation){
        .tokens = work->prompts[i],
        .n_tokens = work->single[i].n_tokens,
        .max_tokens = work->single[i].max_tokens,
        .temperature = work->single[i].temperature,
        .seed = work->single[i].seed,
        .ignore_eos = true,
    };
}

struct generation *work_start(const struct work *work, struct client *client, const char *salt)
{
    struct generation *generations = calloc(work->n, sizeof *generations);
    cr_assert_not_null(generations);
    for (uint32_t i = 0; i < work->n; i++) {
        work_request(work, i, &generations[i]);
        generations[i].salt = salt;
        client_start(client, &generations[i]);
        generations[i].salt = NULL; /* it was sent, and need not live on */
    }
    return generations;
}

void work_create(struct work *work, const uint32_t *lengths, uint32_t n, uint32_t max_tokens,
                 const char *const *flags)
{
    work_create_on(work, NULL, lengths, n, max_tokens, flags);
}

void work_create_on(struct work *work, const char *binary, const uint32_t *lengths, uint32_t n,
                    uint32_t max_tokens, const char *const *flags)
{
    work_create_of(work,
                   &(struct cluster_options){
                       .n_generations = 1, .generation = flags, .first_generation_binary = binary},
                   lengths, n, max_tokens);
}

void work_create_of(struct work *work, const struct cluster_options *single,
                    const uint32_t *lengths, uint32_t n, uint32_t max_tokens)
{
    work->n = n;
    work->prompts = calloc(n, sizeof *work->prompts);
    work->single = calloc(n, sizeof *work->single);
    cr_assert(work->prompts && work->single);

    struct cluster cluster;
    cr_assert(single->n_generations == 1 && single->n_contexts == 0);
    cluster_start(&cluster, single);
    struct client *client = client_create(cluster.router.grpc);
    for (uint32_t i = 0; i < n; i++) {
        prompt_tokens(1000 + i, work->prompts[i], lengths[i]);
        work->single[i].n_tokens = lengths[i];
        work->single[i].max_tokens = max_tokens;
        work->single[i].temperature = i % 2 ? 0.8f : 0.0f;
        work->single[i].seed = 77 + i;
        work_request(work, i, &work->single[i]);
        client_run(client, &work->single[i]);
        cr_assert_eq(work->single[i].n_generated, max_tokens);
        cr_assert_eq(work->single[i].kv_bytes_received, 0);
    }
    client_destroy(client);
    cluster_stop(&cluster);
}

void work_destroy(struct work *work)
{
    free(work->prompts);
    free(work->single);
}

static void expect_prefix(const struct work *work, uint32_t i, const struct generation *generation)
{
    const struct generation *single = &work->single[i];
    cr_assert_leq(generation->n_generated, single->n_generated, "request %u: too many tokens", i);
    for (uint32_t t = 0; t < generation->n_generated; t++)
        cr_assert_eq(generation->generated[t], single->generated[t],
                     "request %u (%u prompt tokens): token %u is %u, alone %u", i, single->n_tokens,
                     t, generation->generated[t], single->generated[t]);
}

void expect_same(const struct work *work, uint32_t i, const struct generation *generation)
{
    cr_assert_eq(generation->n_ends, 1, "request %u ended %u times", i, generation->n_ends);
    cr_assert_eq(generation->error.status, STATUS_OK, "request %u: %s: %s", i,
                 status_name(generation->error.status), generation->error.message);
    expect_prefix(work, i, generation);
    cr_assert_eq(generation->n_generated, work->single[i].n_generated, "request %u: short", i);
}

static bool is_typed(enum status status)
{
    switch (status) {
    case STATUS_NO_BLOCKS:
    case STATUS_QUEUE_FULL:
    case STATUS_LOADING:
    case STATUS_DRAINING:
    case STATUS_NO_CONTEXT_WORKER:
    case STATUS_NO_GENERATION_WORKER:
    case STATUS_TRANSFER_FAILED:
    case STATUS_PEER_LOST:
    case STATUS_DEVICE_LOST:
    case STATUS_STALE_PEER:
    case STATUS_TIMED_OUT:
    case STATUS_CANCELLED:
        return true;
    default:
        return false;
    }
}

bool expect_same_or_typed(const struct work *work, uint32_t i, const struct generation *generation)
{
    cr_assert_eq(generation->n_ends, 1, "request %u ended %u times", i, generation->n_ends);
    uint64_t limit_ns = (generation->deadline_ms ? generation->deadline_ms : 60000) * NS_PER_MS;
    cr_assert_leq(generation->ended_ns - generation->started_ns, limit_ns + GRACE_NS,
                  "request %u outlived its deadline", i);
    if (generation->error.status == STATUS_OK) {
        expect_same(work, i, generation);
        return true;
    }
    expect_prefix(work, i, generation);
    cr_assert(is_typed(generation->error.status), "request %u: %s: %s", i,
              status_name(generation->error.status), generation->error.message);
    return false;
}

void expect_round(const struct work *work, struct cluster *cluster)
{
    struct client *client = client_create(cluster->router.grpc);
    struct generation *generation = malloc(sizeof *generation);
    for (uint32_t i = 0; i < work->n; i++) {
        work_request(work, i, generation);
        client_start(client, generation);
        cr_assert(client_wait(client, generation, SPLIT_LIMIT_MS));
        expect_same(work, i, generation);
    }
    free(generation);
    client_destroy(client);
    cluster_wait_quiet(cluster);
}

uint64_t expect_all_same(const struct work *work, struct cluster *cluster, uint32_t limit_ms)
{
    struct client *client = client_create(cluster->router.grpc);
    struct generation *generations = work_start(work, client, NULL);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < work->n; i++) {
        cr_assert(client_wait(client, &generations[i], limit_ms), "request %u hangs", i);
        expect_same(work, i, &generations[i]);
        bytes += generations[i].kv_bytes_received;
    }
    cluster_wait_quiet(cluster);
    free(generations);
    client_destroy(client);
    return bytes;
}

static void run_crossing(const struct work *work, uint32_t i, struct client *client,
                         struct generation *generation_out)
{
    work_request(work, i, generation_out);
    client_run(client, generation_out);
    cr_expect_eq(generation_out->error.status, STATUS_OK, "%s", generation_out->error.message);
    cr_expect_gt(generation_out->kv_bytes_received, 0);
    cr_expect_eq(generation_out->kv_tokens_recomputed, 0);
}

void expect_greedy_same(const struct work *work, struct cluster *cluster)
{
    struct client *client = client_create(cluster->router.grpc);
    for (uint32_t i = 0; i < work->n; i += 2) { /* as work_create makes them */
        struct generation generation;
        run_crossing(work, i, client, &generation);
        expect_same(work, i, &generation);
    }
    client_destroy(client);
    cluster_wait_quiet(cluster);
}

void expect_replies(const struct work *work, struct cluster *cluster)
{
    struct client *client = client_create(cluster->router.grpc);
    for (uint32_t i = 0; i < work->n; i++) {
        struct generation generation;
        run_crossing(work, i, client, &generation);
    }
    client_destroy(client);
    cluster_wait_quiet(cluster);
}

uint64_t expect_split_of(const struct split *split, const uint32_t *lengths, uint32_t n,
                         uint32_t max_tokens)
{
    const char *generation[GENERATION_FLAGS_MAX + 3] = {"--local-prefill-max-tokens", "0"};
    struct work work;
    struct cluster cluster;
    for (uint32_t i = 0; split->generation && split->generation[i]; i++) {
        cr_assert_lt(i, GENERATION_FLAGS_MAX);
        generation[2 + i] = split->generation[i];
    }
    work_create_of(
        &work,
        &(struct cluster_options){.model = split->model, .n_generations = 1, .both = split->single},
        lengths, n, max_tokens);
    cluster_start(&cluster, &(struct cluster_options){.model = split->model,
                                                      .n_contexts = 1,
                                                      .n_generations = 1,
                                                      .both = split->both,
                                                      .context = split->context,
                                                      .generation = generation});
    const uint64_t bytes = expect_all_same(&work, &cluster, split->limit_ms);
    cr_expect_gt(bytes, 0);
    cluster_stop(&cluster);
    work_destroy(&work);
    return bytes;
}

uint64_t expect_split_is_single(const char *const *flags, const uint32_t *lengths, uint32_t n,
                                uint32_t max_tokens)
{
    return expect_split_of(
        &(struct split){.single = flags, .both = flags, .limit_ms = SPLIT_LIMIT_MS}, lengths, n,
        max_tokens);
}
