/* forward: a sequence's logits are the same bits however it is chunked, blocked, batched, threaded. */
#include "base/random.h"
#include "kernels/kernels.h"
#include "model/forward/forward_parts.h"
#include "tests/model/support/golden.h"
#include "tests/model/support/runner.h"
#include "tests/model/support/tiny_models.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_DECODED = 5, PROMPT_MAX = 300, ROWS = N_DECODED + 1 };

static void random_ids(uint32_t *ids, uint32_t n, uint32_t vocabulary, uint64_t seed)
{
    struct random random;
    random_init(&random, seed);
    for (uint32_t i = 0; i < n; i++)
        ids[i] = (uint32_t)random_below(&random, vocabulary);
}

/* rows_out: [ROWS][vocabulary], of the prompt's end and of each decoded token; freed by the caller. */
static float *run(const char *folder, struct runner_options options, uint32_t chunk_blocks,
                  uint32_t n_prompt)
{
    struct runner runner;
    struct runner_sequence sequence;
    uint32_t ids[PROMPT_MAX + N_DECODED];
    options.tokens_max = PROMPT_MAX + N_DECODED;
    runner_open(&runner, folder, options);
    random_ids(ids, n_prompt + N_DECODED, runner.vocabulary, n_prompt);
    float *rows = calloc((size_t)ROWS * runner.vocabulary, sizeof *rows);
    runner_begin(&runner, &sequence, n_prompt + N_DECODED);
    runner_prefill(&runner, &sequence, ids, n_prompt, chunk_blocks * runner.options.block_tokens,
                   rows);
    for (uint32_t i = 0; i < N_DECODED; i++)
        runner_decode(&runner, &sequence, ids[n_prompt + i],
                      rows + (size_t)(i + 1) * runner.vocabulary);
    runner_end(&runner, &sequence);
    runner_close(&runner);
    return rows;
}

static void expect_equal_bits(const char *folder, struct runner_options options,
                              uint32_t chunk_blocks, uint32_t n_prompt, uint32_t vocabulary,
                              const float *expected)
{
    float *rows = run(folder, options, chunk_blocks, n_prompt);
    cr_assert_eq(memcmp(rows, expected, ROWS * vocabulary * sizeof *rows), 0,
                 "%s: prompt %u, block %u, chunk of %u blocks, %u threads, cache dtype %d", folder,
                 n_prompt, options.block_tokens, chunk_blocks, options.n_threads,
                 (int)options.cache_dtype);
    free(rows);
}

static void check_all(const char *folder, uint32_t vocabulary, enum cache_dtype dtype,
                      uint32_t n_prompt)
{
    static const uint32_t BLOCKS[] = {8, 16, 32, 64, 128}, CHUNKS[] = {0, 1, 2, 8};
    struct runner_options options = {.block_tokens = 16, .cache_dtype = dtype};
    float *expected = run(folder, options, 0, n_prompt);
    for (size_t b = 0; b < sizeof BLOCKS / sizeof *BLOCKS; b++) {
        for (size_t c = 0; c < sizeof CHUNKS / sizeof *CHUNKS; c++) {
            options.block_tokens = BLOCKS[b];
            options.n_threads = (uint32_t)(b + c) % 3; /* none, 1, 2 */
            expect_equal_bits(folder, options, CHUNKS[c], n_prompt, vocabulary, expected);
        }
    }
    free(expected);
}

Test(forward_bits, demo_model_with_every_cache_dtype)
{
    check_all(DEMO_MODEL, 2048, CACHE_F32, 300);
    check_all(DEMO_MODEL, 2048, CACHE_BF16, 129);
    check_all(DEMO_MODEL, 2048, CACHE_F16, 64);
    check_all(DEMO_MODEL, 2048, CACHE_INT8, 129);
    check_all(DEMO_MODEL, 2048, CACHE_E4M3, 64);
}

Test(forward_bits, tiny_models_with_windows_and_norms)
{
    static const uint32_t LENGTHS[] = {1, 15, 16, 17, 100};
    for (size_t i = 0; i < sizeof LENGTHS / sizeof *LENGTHS; i++) {
        check_all(GOLDEN_MODELS "/mistral_t4_window", 96, CACHE_F32, LENGTHS[i]);
        check_all(GOLDEN_MODELS "/qwen3_t5_bias", 96, CACHE_BF16, LENGTHS[i]);
    }
}

/* Every family: learned positions, ALiBi, parallel branches, two rotations and windows by layer must not mind either. */
Test(forward_bits, every_tiny_model_in_chunks)
{
    static const uint32_t BLOCKS[] = {8, 64}, CHUNKS[] = {1, 3};
    for (size_t m = 0; m < TINY_MODELS; m++) {
        char folder[512];
        struct runner_options options = {.block_tokens = 16};
        snprintf(folder, sizeof folder, "%s/%s", GOLDEN_MODELS, tiny_models[m]);
        float *expected = run(folder, options, 0, 70);
        for (uint32_t i = 0; i < 2; i++) {
            options.block_tokens = BLOCKS[i];
            options.n_threads = 1 + i;
            options.in_groups = i == 0;
            expect_equal_bits(folder, options, CHUNKS[i], 70, 96, expected);
        }
        free(expected);
    }
}

/* Blocks that a window has passed are given back and hold NaN: nothing of them is read. */
Test(forward_bits, windows_give_their_blocks_back)
{
    static const char *const MODELS[] = {
        "gemma3_t4",  "gemma2_t5", "gpt_oss_t5",       "mistral_t4_window", "olmo3_t4",
        "cohere2_t4", "gemma4_t5", "gemma4_t5_k_is_v", "gemma4_t5_text",    "gemma4_t5_moe_apart"};
    static const enum cache_dtype DTYPES[] = {CACHE_F32, CACHE_BF16, CACHE_F16, CACHE_INT8,
                                              CACHE_E4M3};
    for (size_t m = 0; m < sizeof MODELS / sizeof *MODELS; m++)
        for (size_t d = 0; d < sizeof DTYPES / sizeof *DTYPES; d++) {
            char folder[512];
            struct runner_options options = {.block_tokens = 16, .cache_dtype = DTYPES[d]};
            snprintf(folder, sizeof folder, "%s/%s", GOLDEN_MODELS, MODELS[m]);
            float *expected = run(folder, options, 0, 100);
            options.in_groups = true;
            for (uint32_t block_tokens = 8; block_tokens <= 64; block_tokens *= 2)
                for (uint32_t chunk = 0; chunk <= 2; chunk++) {
                    options.block_tokens = block_tokens;
                    options.n_threads = chunk;
                    expect_equal_bits(folder, options, chunk, 100, 96, expected);
                }
            free(expected);
        }
}

/* ---- phases ---- */

/* Logits behind the last token: a prompt and then single tokens, or all in chunks but for the last token. */
static void behind_last(const char *folder, struct runner_options options, uint32_t n_prompt,
                        uint32_t n_chunked, float *logits_out)
{
    struct runner runner;
    struct runner_sequence sequence;
    uint32_t ids[PROMPT_MAX];
    options.tokens_max = PROMPT_MAX;
    runner_open(&runner, folder, options);
    random_ids(ids, PROMPT_MAX, runner.vocabulary, n_chunked);
    runner_begin(&runner, &sequence, n_chunked + 1);
    runner_prefill(&runner, &sequence, ids, n_prompt, 0, logits_out);
    if (options.context_math == CONTEXT_MATH_COMPUTE)
        cr_assert(forward_phases_agree(runner.forward));
    else
        cr_assert_not(forward_phases_agree(runner.forward));
    while (sequence.n_past <= n_chunked)
        runner_decode(&runner, &sequence, ids[sequence.n_past], logits_out);
    runner_end(&runner, &sequence);
    runner_close(&runner);
}

/* Whether generated tokens may be computed again as if they were of the prompt. */
static bool phases_agree(const char *folder, enum cache_dtype dtype, enum context_math math,
                         uint32_t n_prompt)
{
    enum { N_GENERATED = 40, WIDTH_MAX = 2048 };
    static float alone[WIDTH_MAX], chunked[WIDTH_MAX];
    const struct runner_options options = {
        .block_tokens = 16, .cache_dtype = dtype, .context_math = math, .n_threads = 2};
    memset(alone, 0, sizeof alone);
    memset(chunked, 0, sizeof chunked);
    behind_last(folder, options, n_prompt, n_prompt + N_GENERATED, alone);
    behind_last(folder, options, n_prompt + N_GENERATED, n_prompt + N_GENERATED, chunked);
    return memcmp(alone, chunked, sizeof alone) == 0;
}

Test(forward_bits, a_token_has_the_same_bits_in_a_chunk_as_alone)
{
    static const enum cache_dtype DTYPES[] = {CACHE_F32, CACHE_BF16, CACHE_F16, CACHE_INT8,
                                              CACHE_E4M3};
    static const uint32_t LENGTHS[] = {1, 16, 37};
    for (size_t d = 0; d < sizeof DTYPES / sizeof *DTYPES; d++) {
        for (size_t i = 0; i < sizeof LENGTHS / sizeof *LENGTHS; i++) {
            cr_assert(phases_agree(DEMO_MODEL, DTYPES[d], CONTEXT_MATH_COMPUTE, LENGTHS[i]),
                      "dtype %d, prompt %u", (int)DTYPES[d], LENGTHS[i]);
            cr_assert(phases_agree(GOLDEN_MODELS "/llama_t5_dynamic", DTYPES[d],
                                   CONTEXT_MATH_COMPUTE, LENGTHS[i]));
            cr_assert(phases_agree(GOLDEN_MODELS "/mistral_t4_window", DTYPES[d],
                                   CONTEXT_MATH_COMPUTE, LENGTHS[i]));
        }
    }
}

Test(forward_bits, a_token_of_any_tiny_model_has_the_same_bits_in_a_chunk_as_alone)
{
    for (size_t m = 0; m < TINY_MODELS; m++) {
        char folder[512];
        snprintf(folder, sizeof folder, "%s/%s", GOLDEN_MODELS, tiny_models[m]);
        cr_assert(phases_agree(folder, CACHE_BF16, CONTEXT_MATH_COMPUTE, 37), "%s", tiny_models[m]);
    }
}

/* Why the prompts of such context workers are not computed again here. */
Test(forward_bits, but_not_where_chunks_have_a_math_of_their_own)
{
    cr_assert_not(phases_agree(DEMO_MODEL, CACHE_BF16, CONTEXT_MATH_BF16, 37));
    cr_assert_not(phases_agree(DEMO_MODEL, CACHE_F16, CONTEXT_MATH_FP16, 37));
}

/* ---- switches of attention ---- */

/* Stored scores are added in another order, the same for chunks, blocks and threads; the other switches change no bit. */
Test(forward_bits, switches_of_attention_change_no_bit_but_those_of_stored_scores)
{
    static const struct attention_switches SAME[] = {{.path = PATH_FLASH},
                                                     {.multi_block = CHOICE_ON},
                                                     {.multi_block = CHOICE_OFF},
                                                     {.grouped = CHOICE_ON},
                                                     {.grouped = CHOICE_OFF}};
    struct runner_options options = {
        .n_threads = 2}; /* a narrower cache would make differences larger */
    const size_t bytes = ROWS * 2048 * sizeof(float);
    float *expected = run(DEMO_MODEL, options, 0, 300);
    for (size_t i = 0; i < sizeof SAME / sizeof *SAME; i++) {
        options.attention = SAME[i];
        expect_equal_bits(DEMO_MODEL, options, 2, 300, 2048, expected);
    }
    options.attention = (struct attention_switches){.path = PATH_UNFUSED};
    float *whole = run(DEMO_MODEL, options, 0, 300);
    cr_assert_neq(memcmp(whole, expected, bytes), 0);
    cr_assert_leq(golden_error(whole, expected, ROWS * 2048), 1e-3);
    for (uint32_t n_threads = 0; n_threads < 3; n_threads++) {
        options.n_threads = n_threads;
        options.attention.path = n_threads == 1 ? PATH_SHORT : PATH_UNFUSED;
        options.tokens_max = 1024;
        options.block_tokens = 8u << n_threads;
        expect_equal_bits(DEMO_MODEL, options, n_threads + 1, 300, 2048, whole);
    }
    free(whole);
    free(expected);
}

/* ---- batch mates ---- */

enum { N_MATES = 6, N_ROUNDS = 64 };

/* A prompt fed in chunks of its own size, then decoded; its mates are elsewhere in their lives. */
struct mate {
    struct runner_sequence sequence;
    uint32_t ids[PROMPT_MAX];
    uint32_t n_prompt, chunk, n_ids;
    float *rows; /* [rows wanted so far][vocabulary] */
    uint32_t n_rows;
};

static uint32_t next_step(const struct mate *mate)
{
    uint32_t past = mate->sequence.n_past;
    if (past >= mate->n_prompt)
        return past < mate->n_ids ? 1 : 0;
    return mate->n_prompt - past < mate->chunk ? mate->n_prompt - past : mate->chunk;
}

/* Contexts first. Returns the size of the batch; whose_out: the mate at each place. */
static uint32_t fill_batch(struct mate *mates, uint32_t round, struct forward_sequence *batch,
                           struct mate **whose_out, uint32_t *n_contexts_out)
{
    uint32_t n = 0;
    bool is_in[N_MATES] = {false};
    for (int phase = 0; phase < 2; phase++) {
        for (uint32_t i = 0; i < N_MATES; i++) {
            uint32_t m = (i + round) % N_MATES; /* places change from round to round */
            struct mate *mate = &mates[m];
            uint32_t past = mate->sequence.n_past, step = next_step(mate);
            bool rests = (i + 2 * round) % 5 == 4;
            if (is_in[m] || step == 0 || rests || (past < mate->n_prompt) != (phase == 0))
                continue;
            is_in[m] = true;
            whose_out[n] = mate;
            batch[n++] = runner_next(&mate->sequence, mate->ids + past, step,
                                     past + step >= mate->n_prompt);
        }
        if (phase == 0)
            *n_contexts_out = n;
    }
    return n;
}

static void keep_logits(struct mate **whose, const struct forward_sequence *batch, uint32_t n,
                        const float *logits, uint32_t vocabulary)
{
    for (uint32_t i = 0; i < n; i++) {
        if (!batch[i].wants_logits)
            continue;
        memcpy(whose[i]->rows + (size_t)whose[i]->n_rows++ * vocabulary, logits,
               vocabulary * sizeof *logits);
        logits += vocabulary;
    }
}

static void check_alone(struct runner *runner, const struct mate *mate)
{
    struct runner_sequence sequence;
    float *logits = calloc(runner->vocabulary, sizeof *logits);
    runner_begin(runner, &sequence, mate->n_ids);
    runner_prefill(runner, &sequence, mate->ids, mate->n_prompt, 0, logits);
    for (uint32_t row = 0; row < mate->n_rows; row++) {
        if (row > 0)
            runner_decode(runner, &sequence, mate->ids[mate->n_prompt + row - 1], logits);
        cr_assert_eq(memcmp(logits, mate->rows + (size_t)row * runner->vocabulary,
                            runner->vocabulary * sizeof *logits),
                     0, "prompt of %u tokens, row %u", mate->n_prompt, row);
    }
    runner_end(runner, &sequence);
    free(logits);
}

static void check_mates(const char *folder, const uint32_t prompts[N_MATES])
{
    static struct mate mates[N_MATES];
    struct runner runner;
    runner_open(&runner, folder,
                (struct runner_options){.n_threads = 2, .n_blocks = 80, .tokens_max = 512});
    float *logits = calloc((size_t)N_MATES * runner.vocabulary, sizeof *logits);
    for (uint32_t i = 0; i < N_MATES; i++) {
        struct mate *mate = &mates[i];
        *mate = (struct mate){
            .n_prompt = prompts[i], .chunk = 16u << i % 3, .n_ids = prompts[i] + 8};
        random_ids(mate->ids, mate->n_ids, runner.vocabulary, 100 + i);
        mate->rows = calloc((size_t)16 * runner.vocabulary, sizeof *mate->rows);
        runner_begin(&runner, &mate->sequence, mate->n_ids);
        mate->sequence.prompt_len = mate->n_prompt;
    }
    for (uint32_t round = 0; round < N_ROUNDS; round++) {
        struct forward_sequence batch[N_MATES];
        struct mate *whose[N_MATES];
        uint32_t n_contexts = 0, n = fill_batch(mates, round, batch, whose, &n_contexts);
        if (n == 0)
            continue;
        cr_assert_eq(forward_run(runner.forward, batch, n, n_contexts, logits), STATUS_OK);
        keep_logits(whose, batch, n, logits, runner.vocabulary);
    }
    for (uint32_t i = 0; i < N_MATES; i++) {
        cr_assert_eq(mates[i].n_rows, 9, "mate %u has %u rows", i, mates[i].n_rows);
        check_alone(&runner, &mates[i]);
        runner_end(&runner, &mates[i].sequence);
        free(mates[i].rows);
    }
    free(logits);
    runner_close(&runner);
}

Test(forward_bits, batch_mates_change_nothing)
{
    static const uint32_t PROMPTS[N_MATES] = {1, 7, 32, 33, 90, 200};
    check_mates(DEMO_MODEL, PROMPTS);
}

Test(forward_bits, batch_mates_change_nothing_under_a_window)
{
    static const uint32_t PROMPTS[N_MATES] = {1, 7, 32, 33, 90, 110};
    check_mates(GOLDEN_MODELS "/qwen2_t5_layer_types", PROMPTS);
}

Test(forward_bits, batch_mates_change_nothing_in_any_tiny_model)
{
    static const uint32_t PROMPTS[N_MATES] = {1, 7, 32, 33, 50, 90};
    for (size_t m = 0; m < TINY_MODELS; m++) {
        char folder[512];
        snprintf(folder, sizeof folder, "%s/%s", GOLDEN_MODELS, tiny_models[m]);
        check_mates(folder, PROMPTS);
    }
}

/* ---- misuse ---- */

static void prefill_part(uint32_t n_query, uint32_t prompt_len)
{
    struct runner runner;
    struct runner_sequence sequence;
    uint32_t ids[PROMPT_MAX];
    runner_open(&runner, DEMO_MODEL, (struct runner_options){.block_tokens = 16});
    float *logits = calloc(runner.vocabulary, sizeof *logits);
    random_ids(ids, n_query, runner.vocabulary, 1);
    runner_begin(&runner, &sequence, prompt_len);
    sequence.prompt_len = prompt_len;
    struct forward_sequence part = runner_next(&sequence, ids, n_query, true);
    cr_assert_eq(forward_run(runner.forward, &part, 1, 1, logits), STATUS_OK);
    free(logits);
    runner_end(&runner, &sequence);
    runner_close(&runner);
}

Test(forward_misuse, a_chunk_before_the_last_is_whole_blocks)
{
    prefill_part(32, 40);
}

Test(forward_misuse, a_chunk_before_the_last_with_part_of_a_block_asserts, .signal = SIGABRT)
{
    prefill_part(33, 40);
}

Test(forward_misuse, more_tokens_than_the_prompt_has_assert, .signal = SIGABRT)
{
    prefill_part(33, 32);
}

/* ---- creation ---- */

static const struct {
    struct forward_options options;
    const char *word;
} BAD_OPTIONS[] = {
    {{.block_tokens = 4, .tokens_max = 8, .sequences_max = 8, .blocks_max = 4}, "block_tokens"},
    {{.block_tokens = 24, .tokens_max = 8, .sequences_max = 8, .blocks_max = 4}, "block_tokens"},
    {{.block_tokens = 256, .tokens_max = 8, .sequences_max = 8, .blocks_max = 4}, "block_tokens"},
    {{.block_tokens = 16,
      .tokens_max = 8,
      .sequences_max = 8,
      .blocks_max = 4,
      .cache_dtype = (enum cache_dtype)7},
     "cache_dtype"},
    {{.block_tokens = 16,
      .tokens_max = 8,
      .sequences_max = 8,
      .blocks_max = 4,
      .cache_dtype = CACHE_INT8},
     "kv_scales has 0 layers with cache_dtype I8"},
    {{.block_tokens = 128,
      .tokens_max = 8,
      .sequences_max = 8,
      .blocks_max = 9,
      .attention.path = PATH_SHORT},
     "attention_path is short, which takes contexts of up to 1024 tokens, not of 1152"},
    {{.block_tokens = 16,
      .tokens_max = 8,
      .sequences_max = 8,
      .blocks_max = 4,
      .context_math = (enum context_math)6},
     "context_math 6 is none"},
    {{.block_tokens = 32,
      .tokens_max = 8,
      .sequences_max = 8,
      .blocks_max = 4,
      .context_math = CONTEXT_MATH_INT8_PV_FP8},
     "attention_math is int8-pv-fp8, which rounds K of 64 tokens together, with kv_block_tokens "
     "32: expected 64 or 128"},
    {{.block_tokens = 16,
      .tokens_max = 8,
      .sequences_max = 8,
      .blocks_max = 4,
      .block_activations = (enum block_activations)2},
     "block_activations 2 is none"},
    {{.block_tokens = 16,
      .tokens_max = 8,
      .sequences_max = 8,
      .blocks_max = 4,
      .block_activations = BLOCK_ACTIVATIONS_INT8},
     "block_activations is int8, but the model has no weights in blocks"},
    {{.block_tokens = 16, .tokens_max = 0, .sequences_max = 8, .blocks_max = 4}, "tokens_max"},
    {{.block_tokens = 16, .tokens_max = 8, .sequences_max = 0, .blocks_max = 4}, "sequences_max"},
    {{.block_tokens = 16, .tokens_max = 8, .sequences_max = 8, .blocks_max = 0}, "blocks_max"},
};

Test(forward, refuses_options_by_name)
{
    struct model *model;
    struct forward *forward = NULL;
    struct error error;
    cr_assert_eq(model_load(DEMO_MODEL, NULL, &error, &model), STATUS_OK);
    for (size_t i = 0; i < sizeof BAD_OPTIONS / sizeof *BAD_OPTIONS; i++) {
        cr_assert_eq(forward_create(model, &BAD_OPTIONS[i].options, &error, &forward),
                     STATUS_INVALID_ARGUMENT, "case %zu", i);
        cr_assert(strstr(error.text, BAD_OPTIONS[i].word), "case %zu: %s", i, error.text);
    }
    cr_assert_null(forward);
    forward_destroy(NULL);
    model_destroy(model);
}

Test(forward, refuses_a_pool_of_other_blocks)
{
    static const struct forward_options OTHERS[] = {
        {.block_tokens = 32, .tokens_max = 8, .sequences_max = 8, .blocks_max = 4},
        {.block_tokens = 16,
         .cache_dtype = CACHE_BF16,
         .tokens_max = 8,
         .sequences_max = 8,
         .blocks_max = 4},
    };
    struct runner runner;
    struct error error;
    runner_open(&runner, DEMO_MODEL, (struct runner_options){.tokens_max = 64});
    size_t bytes = block_pool_block_bytes(runner.pool);
    cr_assert_eq(bytes, 5 * 2 * 2 * 16 * 32 * sizeof(float));
    for (size_t i = 0; i < sizeof OTHERS / sizeof *OTHERS; i++) {
        struct forward_options options = OTHERS[i];
        struct forward *forward;
        options.device = runner.device;
        cr_assert_eq(forward_create(runner.model, &options, &error, &forward), STATUS_OK);
        cr_expect_eq(forward_attach(forward, runner.pool, &error), STATUS_INVALID_ARGUMENT);
        cr_expect(strstr(error.text, "pool's blocks"), "%s", error.text);
        forward_destroy(forward);
    }
    runner_close(&runner);
}

/* Experts have their workspace besides. */
static void check_activations(const char *folder, uint32_t n_tokens)
{
    struct runner runner;
    runner_open(&runner, folder, (struct runner_options){.tokens_max = n_tokens, .n_blocks = 8});
    const struct model_config *config = model_get_config(runner.model);
    const size_t bytes = forward_activation_bytes(runner.model,
                                                  forward_get_options(runner.forward));
    const size_t of_experts = runner.forward->moe
                                  ? model_kernels(runner.model)
                                        ->moe->workspace_bytes(&config->experts,
                                                               runner.forward->mlp_rows_max)
                                  : 0;
    cr_expect_eq(device_bytes(runner.device, DEVICE_ACTIVATIONS) + of_experts, bytes, "%s", folder);
    cr_expect((of_experts > 0) == (config->experts.routing.n_experts > 0));
    cr_expect(bytes > n_tokens * (size_t)config->hidden * 8);
    runner_close(&runner);
}

Test(forward, activations_are_the_bytes_that_were_computed)
{
    static const uint32_t TOKENS[] = {1, 64, 700};
    for (size_t i = 0; i < sizeof TOKENS / sizeof *TOKENS; i++) {
        check_activations(DEMO_MODEL, TOKENS[i]);
        check_activations(GOLDEN_MODELS "/qwen3_moe_t4", TOKENS[i]);
        check_activations(GOLDEN_MODELS "/gemma4_t5_moe", TOKENS[i]);
    }
}

/* Whether products of a prompt write the workspace. */
static bool uses_workspace(const struct kernels *kernels, enum weight_format weights)
{
    struct runner runner;
    struct runner_sequence sequence;
    uint32_t ids[64];
    runner_open(&runner, DEMO_MODEL,
                (struct runner_options){
                    .cpu_kernels = kernels->name, .tokens_max = 64, .weights = weights});
    struct forward *forward = runner.forward;
    float *logits = malloc(runner.vocabulary * sizeof *logits);
    uint8_t *before = malloc(forward->workspace_bytes + 1);
    cr_assert(logits && before);
    cr_expect_eq(forward->workspace_bytes > 0, gemm_workspace_bytes(kernels, 64, 64) > 0);
    memset(before, 0xff, forward->workspace_bytes);
    if (forward->workspace_bytes > 0)
        memcpy(forward->workspace.data, before, forward->workspace_bytes);
    random_ids(ids, 64, runner.vocabulary, 1);
    runner_begin(&runner, &sequence, 64);
    runner_prefill(&runner, &sequence, ids, 64, 0, logits);
    const bool is_written = forward->workspace_bytes > 0 &&
                            memcmp(forward->workspace.data, before, forward->workspace_bytes) != 0;
    runner_end(&runner, &sequence);
    runner_close(&runner);
    free(before);
    free(logits);
    return is_written;
}

/* Without it products of a prompt have the same bits, and take longer: INT8 weights on every set that packs them, float32 with
 * AVX2 alone. */
Test(forward, products_of_a_prompt_use_the_workspace)
{
    const struct kernels *list[KERNELS_MAX];
    const uint32_t n = kernels_list(list, KERNELS_MAX);
    for (uint32_t k = 0; k < n; k++) {
        const bool is_avx2 = strncmp(list[k]->name, "avx2", 4) == 0;
        if (list[k]->gemm_pack)
            cr_expect(uses_workspace(list[k], WEIGHTS_INT8), "%s", list[k]->name);
        cr_expect_eq(uses_workspace(list[k], WEIGHTS_AUTO), is_avx2, "%s", list[k]->name);
    }
}
