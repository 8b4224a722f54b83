/* A prompt computed in one process and decoded in another gives the tokens of a single process, bit
 * for bit, whatever the block size, the chunk size and the driver; and the bytes that crossed are
 * what the geometry says. */

#include "proto/kvferry/v1/generation.pb-c.h"
#include "support/expect.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Around every edge of blocks of 8, 16, 32 and 64. A sanitizer makes processes some ten times slower; it
 * looks for other things than bits. */
#ifdef KVFERRY_SANITIZED
static const uint32_t LENGTHS[] = {1, 7, 8, 9, 16, 17, 31, 33, 64, 65, 127, 129, 513};
static const uint32_t CHUNK_BLOCKS[] = {2};
#else
static const uint32_t LENGTHS[] = {1,  7,  8,  9,   15,  16,  17,  31,  32,   33,
                                   63, 64, 65, 127, 128, 129, 511, 513, 1025, 1900};
static const uint32_t CHUNK_BLOCKS[] = {1, 8};
#endif
/* Every night, with SPLIT_ALL: a name that the product does not take for one of its own. */
static const uint32_t ALL_LENGTHS[] = {
    1,   2,   3,   5,   7,   8,   9,   15,  16,  17,  23,  24,   25,   31,   32,   33,   40,
    47,  48,  49,  63,  64,  65,  72,  95,  96,  97,  127, 128,  129,  160,  191,  192,  193,
    255, 256, 257, 300, 383, 384, 385, 511, 512, 513, 777, 1023, 1024, 1025, 1500, 1900,
};
static const uint32_t ALL_CHUNK_BLOCKS[] = {1, 2, 8};
#define COUNT_OF(array) (sizeof(array) / sizeof *(array))
#define N_TOKENS        12u

/* Demo model: 5 layers, K and V, 2 heads of 32, 2 bytes an element. */
#define TOKEN_KV_BYTES (5u * 2u * 2u * 32u * 2u)

static uint64_t crossing_bytes(uint32_t n_tokens, uint32_t block_tokens)
{
    return (uint64_t)((n_tokens + block_tokens - 1) / block_tokens) * block_tokens * TOKEN_KV_BYTES;
}

static void run_all(const struct work *work, struct cluster *cluster, uint32_t block_tokens,
                    const char *driver)
{
    struct client *client = client_create(cluster->router.grpc);
    struct generation *generations = work_start(work, client, NULL);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < work->n; i++) {
        cr_assert(client_wait(client, &generations[i], 120000), "request %u does not end", i);
        expect_same(work, i, &generations[i]);
        uint64_t expected = crossing_bytes(generations[i].n_tokens, block_tokens);
        cr_assert_eq(generations[i].kv_bytes_received, expected,
                     "request %u: %lu bytes crossed, the geometry says %lu", i,
                     (unsigned long)generations[i].kv_bytes_received, (unsigned long)expected);
        cr_assert_eq(generations[i].kv_tokens_recomputed, 0);
        cr_assert_str_eq(generations[i].transport, driver);
        bytes += expected;
    }
    cluster_wait_quiet(cluster);
    double counted = child_metric(&cluster->generations[0], "kvferry_kv_transfer_bytes_total", "");
    cr_assert_eq((uint64_t)counted, bytes, "metric says %.0f", counted);
    free(generations);
    client_destroy(client);
}

static void split_equals_single(const char *driver, uint32_t block_tokens, const char *weights)
{
    const bool has_all = getenv("SPLIT_ALL");
    const uint32_t *chunk_blocks = has_all ? ALL_CHUNK_BLOCKS : CHUNK_BLOCKS;
    const size_t n_chunks = has_all ? COUNT_OF(ALL_CHUNK_BLOCKS) : COUNT_OF(CHUNK_BLOCKS);
    struct work work;
    const char *single[] = {"--weights", weights, NULL};
    work_create(&work, has_all ? ALL_LENGTHS : LENGTHS,
                has_all ? COUNT_OF(ALL_LENGTHS) : COUNT_OF(LENGTHS), N_TOKENS, single);
    for (size_t c = 0; c < n_chunks; c++) {
        char block_text[16], chunk_text[16];
        snprintf(block_text, sizeof block_text, "%u", block_tokens);
        snprintf(chunk_text, sizeof chunk_text, "%u", block_tokens * chunk_blocks[c]);
        const char *both[] = {
            "--kv-block-tokens", block_text, "--kv-transport", driver, "--weights", weights, NULL};
        const char *context[] = {"--prefill-chunk-tokens", chunk_text, NULL};
        /* Every prompt crosses, also one of a single token; a prefix cache would save bytes. */
        const char *generation[] = {"--local-prefill-max-tokens", "0", "--no-prefix-cache", NULL};
        struct cluster cluster;
        cluster_start(&cluster, &(struct cluster_options){.n_contexts = 1,
                                                          .n_generations = 1,
                                                          .both = both,
                                                          .context = context,
                                                          .generation = generation});
        run_all(&work, &cluster, block_tokens, driver);
        cluster_stop(&cluster);
    }
    work_destroy(&work);
}

#define SPLIT_TEST(name, driver, block_tokens, weights)                                            \
    Test(split, name)                                                                              \
    {                                                                                              \
        split_equals_single(driver, block_tokens, weights);                                        \
    }

SPLIT_TEST(messages_of_blocks_of_8_equal_single, "am-tcp", 8, "auto")
SPLIT_TEST(reads_of_blocks_of_16_equal_single, "shm-read", 16, "auto")
SPLIT_TEST(unix_sockets_of_blocks_of_64_equal_single, "unix", 64, "auto")
SPLIT_TEST(tls_of_blocks_of_32_equal_single, "tls", 32, "auto")
SPLIT_TEST(int8_weights_by_group_equal_single, "am-tcp", 16, "int8-group32")
#ifndef KVFERRY_SANITIZED /* the same code: results in other sizes */
SPLIT_TEST(messages_of_blocks_of_16_equal_single, "am-tcp", 16, "auto")
SPLIT_TEST(messages_of_blocks_of_32_equal_single, "am-tcp", 32, "auto")
SPLIT_TEST(messages_of_blocks_of_64_equal_single, "am-tcp", 64, "auto")
SPLIT_TEST(reads_of_blocks_of_8_equal_single, "shm-read", 8, "auto")
SPLIT_TEST(reads_of_blocks_of_32_equal_single, "shm-read", 32, "auto")
SPLIT_TEST(reads_of_blocks_of_64_equal_single, "shm-read", 64, "auto")
SPLIT_TEST(unix_sockets_of_blocks_of_16_equal_single, "unix", 16, "auto")
SPLIT_TEST(tls_of_blocks_of_8_equal_single, "tls", 8, "auto")
SPLIT_TEST(int8_weights_equal_single, "am-tcp", 16, "int8")
#endif

enum { N_PROMPT = 100, BLOCK_TOKENS = 16 };

/* One of each, and everything crosses. */
static void start_pair(struct cluster *cluster)
{
    static const char *const both[] = {"--kv-block-tokens", "16", NULL};
    static const char *const generation[] = {"--local-prefill-max-tokens", "0", "--no-prefix-cache",
                                             NULL};
    cluster_start(cluster,
                  &(struct cluster_options){
                      .n_contexts = 1, .n_generations = 1, .both = both, .generation = generation});
}

/* The router ends such a stream itself, before the worker's last message. */
Test(split, a_reply_cut_at_a_stop_string_says_what_crossed)
{
    uint32_t prompt[N_PROMPT];
    prompt_tokens(1, prompt, N_PROMPT);
    struct cluster cluster;
    start_pair(&cluster);
    struct client *client = client_create(cluster.router.grpc);
    struct generation whole = {
        .tokens = prompt, .n_tokens = N_PROMPT, .max_tokens = 24, .ignore_eos = true};
    client_run(client, &whole);
    size_t n_text = strlen(whole.text_out);
    cr_assert_gt(n_text, 16);

    struct generation cut = {
        .tokens = prompt, .n_tokens = N_PROMPT, .max_tokens = 24, .ignore_eos = true};
    cut.stop = whole.text_out + n_text / 2;
    client_run(client, &cut);
    cr_assert_eq(cut.finish_reason, KVFERRY__V1__FINISH_REASON__FINISH_REASON_STOP);
    cr_assert_eq(strlen(cut.text_out), n_text / 2, "%s", cut.text_out);
    cr_assert_eq(cut.kv_bytes_received, crossing_bytes(N_PROMPT, BLOCK_TOKENS));
    cr_assert_eq(cut.kv_bytes_received, whole.kv_bytes_received);
    cr_assert_eq(cut.kv_tokens_received, N_PROMPT);
    cr_assert_eq(cut.kv_tokens_recomputed, 0);
    cr_assert_str_eq(cut.transport, whole.transport);
    cr_assert_str_eq(cut.context_worker, whole.context_worker);
    cluster_wait_quiet(&cluster);
    client_destroy(client);
    cluster_stop(&cluster);
}

/* It needs no KV; who computed its prompt, and how much of it was cached there, it says all the same. */
Test(split, a_reply_of_one_token_has_figures_and_a_context_workers_cache_hit_counts)
{
    static const uint32_t MAX_TOKENS[] = {1, 1, 3};
    uint32_t prompt[N_PROMPT];
    prompt_tokens(2, prompt, N_PROMPT);
    struct cluster cluster;
    start_pair(&cluster);
    struct client *client = client_create(cluster.router.grpc);
    for (uint32_t i = 0; i < sizeof MAX_TOKENS / sizeof *MAX_TOKENS; i++) {
        struct generation generation = {.tokens = prompt,
                                        .n_tokens = N_PROMPT,
                                        .max_tokens = MAX_TOKENS[i],
                                        .ignore_eos = true};
        client_run(client, &generation);
        cr_assert_eq(generation.usage_generated, MAX_TOKENS[i]);
        cr_assert_str_not_empty(generation.context_worker);
        cr_assert_gt(generation.prefill_us, 0);
        cr_assert_gt(generation.first_token_us, 0);
        cr_assert_eq(generation.kv_tokens_recomputed, 0);
        cr_assert_eq(generation.cached_tokens, i == 0 ? 0 : N_PROMPT / BLOCK_TOKENS * BLOCK_TOKENS);
        cr_assert_eq(generation.kv_tokens_received, MAX_TOKENS[i] == 1 ? 0 : N_PROMPT);
    }
    cluster_wait_quiet(&cluster);
    client_destroy(client);
    cluster_stop(&cluster);
}
