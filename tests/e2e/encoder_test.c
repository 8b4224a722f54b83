/* Models with an encoder have the replies of Transformers' generate. Of a T5 the context worker computes the text, its cross blocks
 * cross, and the generation worker has the tokens of one process, with every type of cache, small and large blocks, equal texts again,
 * little room, pauses, without pages, and from a disk. */
#include "support/command.h"
#include "support/encoder_model.h"
#include "support/expect.h"
#include "support/model_copy.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_REQUESTS = 6, N_TOKENS = 40, LIMIT_MS = 120000 };

TestSuite(encoder, .init = command_folder_make, .fini = command_folder_remove);

static const uint32_t LENGTHS[N_REQUESTS] = {9, 40, 48, 300, 511, 900};
static const uint32_t PROMPT_TOKENS = 9 + 40 + 48 + 300 + 511 + 900;

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

static uint64_t expect_tokens(const char *model, const char *const *both)
{
    return expect_split_of(
        &(struct split){.limit_ms = LIMIT_MS, .model = model, .single = both, .both = both},
        LENGTHS, N_REQUESTS, N_TOKENS);
}

/* Of each text its cross blocks, and a block with the token that begins the reply. */
static void expect_bytes(uint64_t bytes, uint32_t element_bytes, uint32_t block_tokens)
{
    uint64_t n_blocks = 0;
    for (int i = 0; i < N_REQUESTS; i++)
        n_blocks += (LENGTHS[i] + block_tokens - 1) / block_tokens + 1;
    cr_expect_eq(bytes, n_blocks * block_tokens * ENCODER_MODEL_TOKEN_BYTES(element_bytes));
}

Test(encoder, a_split_cluster_has_the_tokens_of_one_process_and_cross_blocks_cross)
{
    static const struct {
        const char *dtype, *block_tokens;
        uint32_t element_bytes, tokens;
    } CASES[] = {{"f32", "16", 4, 16}, {"bf16", "8", 2, 8}, {"f16", "128", 2, 128}};
    const char *model = encoder_model_make();
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const char *flags[] = {"--kv-dtype",
                               CASES[i].dtype,
                               "--kv-block-tokens",
                               CASES[i].block_tokens,
                               "--kv-digest",
                               "--prefill-chunk-tokens",
                               "128",
                               NULL};
        expect_bytes(expect_tokens(model, flags), CASES[i].element_bytes, CASES[i].tokens);
    }
}

/* calibrate counts the K and V of texts and of replies; INT8 is refused without. */
Test(encoder, a_split_cluster_has_the_tokens_of_one_process_with_calibrated_8_bit_caches)
{
    static const char *const DTYPES[] = {"int8", "e4m3"};
    const char *model = encoder_model_make();
    RUN("gen-worker", model, "--kv-dtype", "int8", "--dry-run");
    cr_expect_eq(last_command.exit_status, 1);
    EXPECT_IN(last_command.err, "calibrate");
    RUN("calibrate", model, "--text", KVFERRY_SOURCE_DIR "/README.md", "--window-tokens", "700",
        "--tokens-max", "2000");
    EXPECT_OK();
    for (size_t i = 0; i < 2; i++)
        expect_bytes(expect_tokens(model, (const char *const[]){"--kv-dtype", DTYPES[i], NULL}), 1,
                     16);
}

#define CACHED "kvferry_prefix_hit_tokens_total"

/* The second time each text is there, whole. */
Test(encoder, equal_texts_are_found_again)
{
    const char *model = encoder_model_make();
    struct work work;
    struct cluster cluster;
    work_of(&work, model, NULL);
    start(&cluster, model, NULL, NULL);
    expect_round(&work, &cluster);
    cr_expect_eq(child_metric(&cluster.contexts[0], CACHED, ""), 0);
    expect_round(&work, &cluster);
    const double found = child_metric(&cluster.contexts[0], CACHED, "") +
                         child_metric(&cluster.generations[0], CACHED, "");
    cr_expect_geq(found, PROMPT_TOKENS, "%g of %u", found, PROMPT_TOKENS);
    cluster_stop(&cluster);
    work_destroy(&work);
}

Test(encoder, little_room_and_a_cache_without_pages_change_no_token)
{
    const char *model = encoder_model_make();
    cr_expect_gt(
        expect_tokens(model, (const char *const[]){"--kv-blocks", "80", "--kv-scrub", NULL}), 0);
    cr_expect_gt(expect_tokens(model, (const char *const[]){"--kv-manager", "contiguous", NULL}),
                 0);
}

/* Replies of several generation workers' sequences are computed again from their texts. */
Test(encoder, pauses_change_no_token)
{
    static const char *const GENERATION[] = {
        "--kv-blocks", "80", "--capacity-policy", "max-utilization", "--local-prefill-max-tokens",
        "0",           NULL};
    const char *model = encoder_model_make();
    struct work work;
    struct cluster cluster;
    work_of(&work, model, NULL);
    cluster_start(&cluster, &(struct cluster_options){.model = model,
                                                      .n_contexts = 1,
                                                      .n_generations = 1,
                                                      .generation = GENERATION});
    cr_expect_gt(expect_all_same(&work, &cluster, LIMIT_MS), 0);
    cluster_stop(&cluster);
    work_destroy(&work);
}

Test(encoder, texts_come_back_from_a_disk)
{
    static const char *const FLAGS[] = {"--kv-blocks", "75", NULL};
    const char *model = encoder_model_make();
    char disk[300];
    struct work work;
    struct cluster cluster;
    snprintf(disk, sizeof disk, "%s", in_folder("disk"));
    const char *const context[] = {"--kv-disk", disk, "--kv-disk-size", "200M", NULL};
    work_of(&work, model, NULL);
    start(&cluster, model, FLAGS, context);
    expect_round(&work, &cluster);
    expect_round(&work, &cluster);
    cr_expect_gt(child_metric(&cluster.contexts[0], "kvferry_kv_tier_restored_tokens_total", ""),
                 250);
    cluster_stop(&cluster);
    work_destroy(&work);
}

/* ---- generate of Transformers ---- */

enum { N_GOLDEN = 2, N_GREEDY = 40, SOURCE_MAX = 70 };

struct golden {
    uint32_t n_source[N_GOLDEN], source[N_GOLDEN][SOURCE_MAX], reply[N_GOLDEN][N_GREEDY];
};

static uint32_t read_ids(const json_t *json, uint32_t *ids_out, size_t n_max)
{
    const size_t n = json_array_size(json);
    cr_assert(n > 0 && n <= n_max);
    for (size_t i = 0; i < n; i++)
        ids_out[i] = (uint32_t)json_integer_value(json_array_get(json, i));
    return (uint32_t)n;
}

static void read_golden(const char *folder, struct golden *golden_out)
{
    char path[300];
    json_error_t error;
    snprintf(path, sizeof path, "%s/golden.json", folder);
    json_t *json = json_load_file(path, 0, &error);
    cr_assert_not_null(json, "%s: %s", path, error.text);
    for (size_t i = 0; i < N_GOLDEN; i++) {
        const json_t *pair = json_array_get(json_object_get(json, "pairs"), i);
        golden_out->n_source[i] = read_ids(json_object_get(pair, "source"), golden_out->source[i],
                                           SOURCE_MAX);
        cr_assert_eq(read_ids(json_array_get(json_object_get(json, "greedy"), i),
                              golden_out->reply[i], N_GREEDY),
                     N_GREEDY);
    }
    json_decref(json);
}

/* The model with the tokenizer of the demo model, which the router reads; requests have token ids. */
static void take_model(const char *folder)
{
    char path[300];
    model_copy_take(folder, "config.json");
    model_copy_take(folder, "model.safetensors");
    (void)unlink(in_folder("model/generation_config.json"));
    snprintf(path, sizeof path, "%s/generation_config.json", folder);
    if (access(path, F_OK) == 0)
        model_copy_take(folder, "generation_config.json");
}

/* n_contexts 0: one process. */
static void start_f32(struct cluster *cluster, const char *model, uint32_t n_contexts)
{
    static const char *const FLAGS[] = {"--kv-dtype", "f32", NULL};
    static const char *const GENERATION[] = {"--local-prefill-max-tokens", "0", NULL};
    cluster_start(cluster, &(struct cluster_options){.model = model,
                                                     .n_contexts = n_contexts,
                                                     .n_generations = 1,
                                                     .both = FLAGS,
                                                     .generation = GENERATION});
}

static void expect_greedy(const char *name, const struct golden *golden,
                          const struct cluster *cluster, uint32_t n_contexts)
{
    struct client *client = client_create(cluster->router.grpc);
    struct generation *generation = malloc(sizeof *generation);
    for (size_t i = 0; i < N_GOLDEN; i++) {
        *generation = (struct generation){.tokens = golden->source[i],
                                          .n_tokens = golden->n_source[i],
                                          .max_tokens = N_GREEDY,
                                          .ignore_eos = true};
        client_run(client, generation);
        cr_assert_eq(generation->n_generated, N_GREEDY);
        cr_expect_eq(generation->kv_bytes_received > 0, n_contexts > 0);
        for (uint32_t t = 0; t < N_GREEDY; t++)
            cr_assert_eq(generation->generated[t], golden->reply[i][t],
                         "%s, %u context workers, text %zu, token %u is %u, Transformers has %u",
                         name, n_contexts, i, t, generation->generated[t], golden->reply[i][t]);
    }
    free(generation);
    client_destroy(client);
}

static void start_copy(struct cluster *cluster, uint32_t n_contexts)
{
    char model[300];
    snprintf(model, sizeof model, "%s", in_folder("model"));
    start_f32(cluster, model, n_contexts);
}

static void expect_golden(const char *name, const struct golden *golden, uint32_t n_contexts)
{
    struct cluster cluster;
    start_copy(&cluster, n_contexts);
    expect_greedy(name, golden, &cluster, n_contexts);
    cluster_stop(&cluster);
}

#define BART KVFERRY_SOURCE_DIR "/tests/golden/encoders/bart"

/* As old files of published models ask for them; the replies are those without. */
static void ask_for_beams(void)
{
    json_error_t error;
    json_t *config = json_load_file(in_folder("model/config.json"), 0, &error);
    cr_assert_not_null(config, "%s", error.text);
    json_t *asked = json_pack("{s:i, s:f, s:i, s:i, s:b, s:{s:{s:i}}}", "num_beams", 4,
                              "length_penalty", 2.0, "encoder_no_repeat_ngram_size", 3,
                              "min_length", 56, "early_stopping", 1, "task_specific_params",
                              "summarization", "num_beams", 6);
    cr_assert_not_null(asked);
    json_object_update(config, asked);
    cr_assert_eq(json_dump_file(config, in_folder("model/config.json"), 0), 0);
    json_decref(asked);
    json_decref(config);
}

Test(encoder, a_model_whose_files_ask_for_beams_serves_and_says_so_once)
{
    static const char TOLD[] = "the model's files ask for what is not done";
    static const char *const KEYS[] = {"num_beams 4", "length_penalty 2.0",
                                       "encoder_no_repeat_ngram_size 3", "min_length 56",
                                       "early_stopping true"};
    struct golden golden;
    struct cluster cluster;
    model_copy_make();
    take_model(BART);
    ask_for_beams();
    read_golden(BART, &golden);
    start_copy(&cluster, 1);
    expect_greedy("bart", &golden, &cluster, 1);
    cr_expect_eq(child_log_count(&cluster.contexts[0], TOLD), 1);
    cr_expect_eq(child_log_count(&cluster.generations[0], TOLD), 1);
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++)
        cr_expect(child_log_has(&cluster.generations[0], KEYS[i]), "no %s", KEYS[i]);
    cr_expect_not(child_log_has(&cluster.generations[0], "num_beams 6"));
    cluster_stop(&cluster);
}

Test(encoder, replies_are_those_of_generate)
{
    static const char *const MODELS[] = {"t5_v1_0", "t5_v1_1",     "mt5",  "umt5",
                                         "bart",    "bart_scaled", "mbart"};
    model_copy_make();
    for (size_t i = 0; i < sizeof MODELS / sizeof *MODELS; i++) {
        struct golden golden;
        char folder[256];
        snprintf(folder, sizeof folder, "%s/tests/golden/encoders/%s", KVFERRY_SOURCE_DIR,
                 MODELS[i]);
        read_golden(folder, &golden);
        take_model(folder);
        expect_golden(MODELS[i], &golden, 0);
        expect_golden(MODELS[i], &golden, 1);
    }
}

/* The file alone, its tokenizer too, has the replies of the folder that it was made of. */
Test(encoder, replies_of_gguf_files_are_those_of_the_folder)
{
    static const char *const MODELS[] = {"t5_far", "t5_far_gated", "umt5_far"};
    for (size_t i = 0; i < sizeof MODELS / sizeof *MODELS; i++) {
        struct golden golden;
        struct cluster cluster;
        char folder[256], file[256];
        snprintf(folder, sizeof folder, KVFERRY_SOURCE_DIR "/tests/golden/encoders/%s", MODELS[i]);
        snprintf(file, sizeof file, KVFERRY_SOURCE_DIR "/tests/golden/gguf/%s.gguf", MODELS[i]);
        read_golden(folder, &golden);
        start_f32(&cluster, file, 1);
        expect_greedy(MODELS[i], &golden, &cluster, 1);
        cluster_stop(&cluster);
    }
}

/* ---- what is refused ---- */

static void expect_no_start(const char *model, const char *flag, const char *value,
                            const char *sentence)
{
    RUN("gen-worker", model, flag, value, "--dry-run");
    cr_expect_eq(last_command.exit_status, 1);
    cr_expect(strstr(last_command.err, sentence), "%s", last_command.err);
}

Test(encoder, what_does_not_fit_is_refused_by_name)
{
    const char *model = encoder_model_make();
    RUN("check-model", model);
    EXPECT_OK();
    EXPECT_IN(last_command.out, "\ngood\n");
    expect_no_start(model, "--max-context-tokens", "20000",
                    "max_context_tokens is 20000; the model supports 16384");
    RUN("gen-worker", model, "--dry-run");
    EXPECT_OK();
    RUN("check-model", KVFERRY_SOURCE_DIR "/tests/golden/gguf/t5_blocks.gguf");
    EXPECT_OK();
    EXPECT_IN(last_command.out, "\ngood\n");
}
