/* Replies with sinks: the logits of a program that was written from the paper, and the same bits in any blocks and chunks. */
#include "kvcache/block_table.h"
#include "tests/model/support/broken_folder.h"
#include "tests/model/support/golden.h"
#include "tests/model/support/runner.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GOLDENS   KVFERRY_SOURCE_DIR "/tests/golden/sinks"
#define TOLERANCE 1e-4

static const char *const NAMES[] = {"llama", "qwen3", "smollm3"};
enum { N_NAMES = sizeof NAMES / sizeof *NAMES };

struct golden {
    struct broken_folder folder; /* with a longer context than the tiny model's own */
    struct sink_window sinks;
    uint32_t *prompt, *reply;
    uint32_t n_prompt, n_reply, vocabulary;
    float *logits; /* [1 + n_reply][vocabulary] */
};

static void open_golden(const char *name, struct golden *golden)
{
    char file[64];
    snprintf(file, sizeof file, "%s.json", name);
    json_t *facts = golden_json(GOLDENS, file);
    char original[512];
    snprintf(original, sizeof original, "%s/%s", GOLDEN_MODELS,
             json_string_value(json_object_get(facts, "folder")));
    broken_folder_make(&golden->folder, original, CONFIG_SET, "{\"max_position_embeddings\": 512}");
    golden->sinks.window = (uint32_t)json_integer_value(json_object_get(facts, "window"));
    golden->sinks.sinks = (uint32_t)json_integer_value(json_object_get(facts, "sinks"));
    golden->prompt = golden_ids(json_object_get(facts, "prompt"), &golden->n_prompt);
    golden->reply = golden_ids(json_object_get(facts, "reply"), &golden->n_reply);
    snprintf(file, sizeof file, "%s.f32", name);
    golden->vocabulary = 96;
    golden->logits = golden_floats(GOLDENS, file,
                                   (size_t)(1 + golden->n_reply) * golden->vocabulary);
    json_decref(facts);
}

static void close_golden(struct golden *golden)
{
    broken_folder_remove(&golden->folder);
    free(golden->prompt);
    free(golden->reply);
    free(golden->logits);
}

/* How a sequence is computed. */
struct way {
    uint32_t block_tokens, chunk_tokens;
    bool drops;
    uint32_t wider; /* the window of the model; the sequence has its own. 0: they are the same */
    const char *cpu_kernels;
};

static void step(struct runner *runner, const struct block_table *table, bool is_wider,
                 uint32_t n_past, const uint32_t *ids, uint32_t n, uint32_t prompt_len,
                 float *logits_out)
{
    const bool is_context = n_past < prompt_len;
    const struct forward_sequence sequence = {
        .token_ids = ids,
        .n_query = n,
        .n_past = block_table_places(table, n_past),
        .prompt_len = prompt_len,
        .window = is_wider && !is_context ? table->sinks.window : 0,
        .blocks = table->blocks,
        .n_blocks = table->spans_max,
        .wants_logits = n_past + n >= prompt_len};
    cr_assert_eq(forward_run(runner->forward, &sequence, 1, is_context, logits_out), STATUS_OK);
}

/* logits_out [1 + n_reply][vocabulary] */
static void compute(const struct golden *golden, const struct way *way, float *logits_out)
{
    struct runner runner;
    struct block_table table;
    const uint32_t n_tokens = golden->n_prompt + golden->n_reply, n_prompt = golden->n_prompt;
    runner_open(&runner, golden->folder.path,
                (struct runner_options){
                    .block_tokens = way->block_tokens,
                    .tokens_max = 320,
                    .sinks = {way->wider ? way->wider : golden->sinks.window, golden->sinks.sinks},
                    .cpu_kernels = way->cpu_kernels,
                    .attention_kernels = way->cpu_kernels});
    cr_assert_eq(runner.vocabulary, golden->vocabulary);
    const struct geometry geometry = {.block_tokens = way->block_tokens, .sinks = golden->sinks};
    cr_assert_eq(block_table_init(&table, runner.pool, NULL, &geometry,
                                  cache_spans(way->block_tokens, n_tokens)),
                 STATUS_OK);
    for (uint32_t at = 0; at < n_prompt;) {
        const uint32_t n = n_prompt - at < way->chunk_tokens ? n_prompt - at : way->chunk_tokens;
        const struct block_need need = {at, at + n, n_prompt, false};
        cr_assert_eq(block_table_prepare(&table, &need), STATUS_OK);
        step(&runner, &table, way->wider > 0, at, golden->prompt + at, n, n_prompt, logits_out);
        at += n;
    }
    for (uint32_t i = 0; i < golden->n_reply; i++) {
        const uint32_t at = n_prompt + i;
        const struct block_need need = {at, at + 1, at + 1, way->drops};
        cr_assert_eq(block_table_prepare(&table, &need), STATUS_OK);
        if (way->drops)
            cr_assert_leq(table.n_blocks, sink_window_spans_max(&golden->sinks, way->block_tokens));
        step(&runner, &table, way->wider > 0, at, golden->reply + i, 1, n_prompt,
             logits_out + (size_t)(1 + i) * golden->vocabulary);
    }
    cr_assert_eq(table.n_dropped > 0, way->drops);
    block_table_finish(&table);
    runner_close(&runner);
}

Test(sinks, logits_are_those_of_the_paper_in_any_blocks_and_chunks)
{
    static const struct way WAYS[] = {
        {8, 128, true, 0, NULL},     {8, 8, true, 0, NULL},    {8, 24, true, 0, NULL},
        {16, 16, true, 0, NULL},     {16, 128, true, 0, NULL}, {32, 128, true, 0, NULL},
        {64, 64, true, 0, NULL},     {16, 16, true, 90, NULL}, {8, 128, true, 33, "scalar"},
        {8, 128, true, 0, "scalar"},
    };
    static const struct way REFERENCE = {16, 128, true, 50, "reference"};
    static const struct way KEEPS_ALL = {16, 128, false, 0, NULL};
    for (size_t i = 0; i < N_NAMES; i++) {
        struct golden golden;
        open_golden(NAMES[i], &golden);
        const size_t n = (size_t)(1 + golden.n_reply) * golden.vocabulary;
        float *first = calloc(n, sizeof *first), *logits = calloc(n, sizeof *logits);
        compute(&golden, &WAYS[0], first);
        const double error = golden_error(first, golden.logits, n);
        compute(&golden, &KEEPS_ALL, logits);
        const double of_all = golden_error(logits, golden.logits, n);
        compute(&golden, &REFERENCE, logits);
        cr_assert_leq(golden_error(logits, golden.logits, n), TOLERANCE, "%s", NAMES[i]);
        printf("%-8s largest error %.1e, with all blocks %.1e\n", NAMES[i], error, of_all);
        cr_assert_leq(error, TOLERANCE, "%s: %g", NAMES[i], error);
        cr_assert_leq(of_all, TOLERANCE, "%s: %g", NAMES[i], of_all);
        for (size_t w = 1; w < sizeof WAYS / sizeof *WAYS; w++) {
            compute(&golden, &WAYS[w], logits);
            cr_assert_eq(memcmp(first, logits, n * sizeof *logits), 0, "%s: way %zu has other bits",
                         NAMES[i], w);
        }
        free(first);
        free(logits);
        close_golden(&golden);
    }
}

static void expect_refusal(const char *folder, struct runner_options with, const char *says)
{
    struct model *model;
    struct device *device;
    struct error error = {""};
    struct forward *forward;
    cr_assert_eq(device_open("cpu", &device, &error), STATUS_OK);
    cr_assert_eq(model_load(folder, NULL, &error, &model), STATUS_OK, "%s", error.text);
    const struct forward_options options = {.block_tokens = 16,
                                            .tokens_max = 64,
                                            .sequences_max = 1,
                                            .blocks_max = 32,
                                            .context_math = with.context_math,
                                            .sinks = with.sinks,
                                            .device = device};
    const enum status status = forward_create(model, &options, &error, &forward);
    cr_expect(status == STATUS_UNSUPPORTED || status == STATUS_INVALID_ARGUMENT);
    cr_expect(strstr(error.text, says), "%s", error.text);
    model_destroy(model);
    device_close(device);
}

Test(sinks, models_that_cannot_have_them_are_refused)
{
    const struct sink_window sinks = {.window = 4, .sinks = 1};
    expect_refusal(
        GOLDEN_MODELS "/gpt2_t4", (struct runner_options){.sinks = sinks},
        "sink_tokens is 1, which needs rotary positions: this model has a table of them");
    expect_refusal(GOLDEN_MODELS "/bloom_t4", (struct runner_options){.sinks = sinks},
                   "this model has ALiBi");
    expect_refusal(GOLDEN_MODELS "/deepseek_v2_t4", (struct runner_options){.sinks = sinks},
                   "sink_tokens is 1, but this model caches latents");
    expect_refusal(GOLDEN_MODELS "/qwen3_5_t5", (struct runner_options){.sinks = sinks},
                   "sink_tokens is 1, but 3 of 4 layers of this model have recurrent state");
    expect_refusal(GOLDEN_MODELS "/gemma3_t4", (struct runner_options){.sinks = sinks},
                   "but layer 0 has its own window, 9 tokens");
    expect_refusal(GOLDEN_MODELS "/llama_t4",
                   (struct runner_options){.sinks = {.window = 100, .sinks = 4}},
                   "takes up to 224 in blocks of 16, and the context has 128");
    expect_refusal(GOLDEN_MODELS "/llama_t4",
                   (struct runner_options){.sinks = sinks, .context_math = CONTEXT_MATH_INT8},
                   "attention_math is int8");
}
