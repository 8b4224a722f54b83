/* A model whose layers have recurrent state (Qwen3.5): a split cluster has the tokens of one process, and the state crosses with the K and
 * V, with every type of cache, small and large blocks, from snapshots of earlier prompts, after pauses, without pages, and from a disk. */
#include "support/command.h"
#include "support/expect.h"
#include "support/recurrent_model.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { N_REQUESTS = 6, N_TOKENS = 40, LIMIT_MS = 120000 };

#define TEXT KVFERRY_SOURCE_DIR "/cli/demo_prompt.txt"

TestSuite(recurrent, .init = command_folder_make, .fini = command_folder_remove);

static const uint32_t LENGTHS[N_REQUESTS] = {9, 40, 48, 300, 511, 900};
static const uint32_t PROMPT_TOKENS = 9 + 40 + 48 + 300 + 511 + 900;

/* What both workers and the single process have. */
static void start(struct cluster *cluster, const char *model, const char *const *both,
                  const char *const *context)
{
    cluster_start(cluster, &(struct cluster_options){.model = model,
                                                     .n_contexts = 1,
                                                     .n_generations = 1,
                                                     .both = both,
                                                     .context = context,
                                                     .generation = (const char *const[]){
                                                         "--local-prefill-max-tokens", "0", NULL}});
}

static void work_of(struct work *work, const char *model, const char *const *both)
{
    work_create_of(work,
                   &(struct cluster_options){.model = model, .n_generations = 1, .both = both},
                   LENGTHS, N_REQUESTS, N_TOKENS);
}

static uint64_t expect_tokens(const char *model, const char *const *both,
                              const char *const *context)
{
    return expect_split_of(
        &(struct split){
            .limit_ms = LIMIT_MS, .model = model, .single = both, .both = both, .context = context},
        LENGTHS, N_REQUESTS, N_TOKENS);
}

/* Whole blocks cross: at least what there is, at most a block more for each prompt, and the padding of states: less than a half. */
static void expect_bytes(uint64_t bytes, uint32_t element_bytes, uint32_t block_tokens)
{
    const uint64_t token = RECURRENT_MODEL_TOKEN_BYTES(element_bytes);
    const uint64_t states = (uint64_t)N_REQUESTS * RECURRENT_MODEL_STATE_BYTES;
    cr_expect_geq(bytes, PROMPT_TOKENS * token + states);
    cr_expect_leq(bytes, (PROMPT_TOKENS + 2 * N_REQUESTS * block_tokens) * token + states * 3 / 2);
}

Test(recurrent, a_split_cluster_has_the_tokens_of_one_process_and_the_state_crosses)
{
    static const struct {
        const char *dtype, *block_tokens;
        uint32_t element_bytes, tokens;
    } CASES[] = {{"f32", "16", 4, 16}, {"bf16", "8", 2, 8}, {"f16", "128", 2, 128}};
    const char *model = recurrent_model_make();
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const char *flags[] = {"--kv-dtype",          CASES[i].dtype, "--kv-block-tokens",
                               CASES[i].block_tokens, "--kv-digest",  NULL};
        expect_bytes(expect_tokens(model, flags,
                                   (const char *const[]){"--prefill-chunk-tokens", "128", NULL}),
                     CASES[i].element_bytes, CASES[i].tokens);
    }
}

Test(recurrent, caches_of_8_bits_have_the_scales_of_calibrate)
{
    static const char *const TYPES[] = {"int8", "e4m3"};
    const char *model = recurrent_model_make();
    char scales[300];
    snprintf(scales, sizeof scales, "%s", in_folder("scales"));
    RUN("calibrate", model, "--text", TEXT, "--out", scales);
    EXPECT_OK();
    for (int i = 0; i < 2; i++)
        expect_bytes(expect_tokens(model,
                                   (const char *const[]){"--kv-dtype", TYPES[i], "--kv-scales",
                                                         scales, "--kv-digest", NULL},
                                   NULL),
                     1, 16);
}

#define CACHED "kvferry_prefix_hit_tokens_total"

/* The second time most of a prompt is there: up to its last whole span, where a chunk was made to end. */
Test(recurrent, prompts_go_on_from_snapshots)
{
    static const char *const FLAGS[] = {"--snapshot-tokens", "64", "--prefill-chunk-tokens", "128",
                                        NULL};
    const char *model = recurrent_model_make();
    struct work work;
    struct cluster cluster;
    work_of(&work, model, FLAGS);
    start(&cluster, model, FLAGS, NULL);
    expect_round(&work, &cluster);
    const double before = child_metric(&cluster.contexts[0], CACHED, "");
    expect_round(&work, &cluster);
    const double found = child_metric(&cluster.contexts[0], CACHED, "") - before +
                         child_metric(&cluster.generations[0], CACHED, "");
    cr_expect_gt(found, 0.85 * PROMPT_TOKENS, "%g of %u", found, PROMPT_TOKENS);
    cluster_stop(&cluster);
    work_destroy(&work);
}

/* Eight prompts that have n_common of 700 tokens in common, one after the other. Returns the tokens that the last one found. */
static double run_prompts(const char *model, uint32_t n_contexts, uint32_t n_common)
{
    enum { N_PROMPT = 700 };
    static const char *const FLAGS[] = {"--prefill-chunk-tokens", "1024", NULL};
    static uint32_t tokens[N_PROMPT], common[N_PROMPT];
    struct cluster cluster;
    double found = 0, before = 0;
    cluster_start(&cluster,
                  &(struct cluster_options){
                      .model = model, .n_contexts = n_contexts, .n_generations = 1, .both = FLAGS});
    struct client *client = client_create(cluster.router.grpc);
    prompt_tokens(3000, common, N_PROMPT);
    for (uint32_t i = 0; i < 8; i++) {
        struct generation generation = {
            .tokens = tokens, .n_tokens = N_PROMPT, .max_tokens = 4, .ignore_eos = true};
        prompt_tokens(2000 + i, tokens, N_PROMPT);
        memcpy(tokens, common, n_common * sizeof *tokens);
        client_run(client, &generation);
        cluster_wait_quiet(&cluster);
        const double now = (n_contexts ? child_metric(&cluster.contexts[0], CACHED, "") : 0) +
                           child_metric(&cluster.generations[0], CACHED, "");
        found = now - before;
        before = now;
    }
    client_destroy(client);
    cluster_stop(&cluster);
    return found;
}

/* The second one is cut where it parts from the first. */
Test(recurrent, a_common_beginning_is_found_on_either_worker)
{
    const char *model = recurrent_model_make();
    for (uint32_t n_contexts = 0; n_contexts < 2; n_contexts++) {
        cr_expect_geq(run_prompts(model, n_contexts, 600), 592, "%u", n_contexts);
        cr_expect_geq(run_prompts(model, n_contexts, 700), 688, "%u", n_contexts);
    }
}

Test(recurrent, pauses_and_a_cache_without_pages_change_no_token)
{
    const char *model = recurrent_model_make();
    cr_expect_gt(
        expect_tokens(model,
                      (const char *const[]){"--kv-blocks", "130", "--prefill-chunk-tokens", "64",
                                            "--prefill-batch-tokens", "64", "--kv-scrub", NULL},
                      NULL),
        0);
    cr_expect_gt(
        expect_tokens(model, (const char *const[]){"--kv-manager", "contiguous", NULL}, NULL), 0);
}

/* Snapshots leave the pool and come back block by block. */
Test(recurrent, snapshots_come_back_from_a_disk)
{
    static const char *const FLAGS[] = {"--kv-blocks", "150", "--snapshot-tokens", "64", NULL};
    const char *model = recurrent_model_make();
    char disk[300];
    struct work work;
    struct cluster cluster;
    snprintf(disk, sizeof disk, "%s", in_folder("disk"));
    const char *const context[] = {"--kv-disk", disk, "--kv-disk-size", "200M", NULL};
    work_of(&work, model, FLAGS + 2);
    for (int start_number = 0; start_number < 2; start_number++) {
        start(&cluster, model, FLAGS, context);
        expect_round(&work, &cluster);
        expect_round(&work, &cluster);
        cr_expect_gt(
            child_metric(&cluster.contexts[0], "kvferry_kv_tier_restored_tokens_total", ""), 250,
            "start %d", start_number);
        cr_expect_eq(child_metric(&cluster.contexts[0], "kvferry_kv_tier_errors_total", ""), 0);
        cluster_stop(&cluster);
    }
    work_destroy(&work);
}

/* Heads in tiles, with experts and without; heads side by side. Prompts of any of their 96 tokens. */
enum { N_FILES = 3, N_OF_FILE = 3, FILE_TOKENS = 24, FILE_PROMPT_MAX = 90 };

static void run_file(const char *path, uint32_t n_contexts,
                     uint32_t replies_out[N_OF_FILE][FILE_TOKENS])
{
    static const uint32_t OF_FILE[N_OF_FILE] = {9, 40, FILE_PROMPT_MAX};
    static const char *const FLAGS[] = {"--kv-dtype", "f32", NULL};
    uint32_t tokens[FILE_PROMPT_MAX];
    struct cluster cluster;
    cluster_start(&cluster,
                  &(struct cluster_options){.model = path,
                                            .n_contexts = n_contexts,
                                            .n_generations = 1,
                                            .both = FLAGS,
                                            .generation = (const char *const[]){
                                                "--local-prefill-max-tokens", "0", NULL}});
    struct client *client = client_create(cluster.router.grpc);
    for (uint32_t i = 0; i < N_OF_FILE; i++) {
        struct generation generation = {.tokens = tokens,
                                        .n_tokens = OF_FILE[i],
                                        .max_tokens = FILE_TOKENS,
                                        .ignore_eos = true};
        prompt_tokens(400 + i, tokens, OF_FILE[i]);
        for (uint32_t t = 0; t < OF_FILE[i]; t++)
            tokens[t] = 3 + tokens[t] % 93;
        client_run(client, &generation);
        cr_assert_eq(generation.n_generated, FILE_TOKENS, "%s", path);
        cr_expect_eq(generation.kv_bytes_received > 0, n_contexts > 0, "%s", path);
        memcpy(replies_out[i], generation.generated, sizeof replies_out[i]);
    }
    client_destroy(client);
    cluster_stop(&cluster);
}

Test(recurrent, gguf_files_have_the_tokens_of_one_process)
{
    static const char *const FILES[N_FILES] = {"qwen35", "qwen35moe", "qwen3next"};
    for (uint32_t i = 0; i < N_FILES; i++) {
        static uint32_t replies[2][N_OF_FILE][FILE_TOKENS];
        char path[256];
        snprintf(path, sizeof path, KVFERRY_SOURCE_DIR "/tests/golden/gguf/%s.gguf", FILES[i]);
        run_file(path, 0, replies[0]);
        run_file(path, 1, replies[1]);
        cr_expect_eq(memcmp(replies[0], replies[1], sizeof replies[0]), 0, "%s", FILES[i]);
    }
}

static void expect_no_start(const char *model, const char *flag, const char *value,
                            const char *other_flag, const char *other_value, const char *sentence)
{
    RUN("gen-worker", model, flag, value, other_flag, other_value, "--dry-run");
    cr_expect_eq(last_command.exit_status, 1);
    cr_expect(strstr(last_command.err, sentence), "%s", last_command.err);
}

Test(recurrent, what_cannot_be_kept_is_refused_by_name)
{
    const char *model = recurrent_model_make();
    expect_no_start(model, "--kv-block-tokens", "8", "--kv-dtype", "e4m3",
                    "kv_block_tokens is 8: a block of kv_dtype e4m3 has 2048 bytes, and a part of "
                    "a layer's recurrent state has 4096");
    expect_no_start(model, "--sink-tokens", "4", "--attention-window", "128",
                    "sink_tokens are 4 with 1 groups of layers and ");
    RUN("gen-worker", model, "--snapshot-tokens", "0");
    cr_expect_eq(last_command.exit_status, 2);
    EXPECT_IN(last_command.err, "--snapshot-tokens: 0 is not between 1 and 1048576");
    RUN("gen-worker", model, "--dry-run");
    EXPECT_OK();
}
