/* forward: a recurrent state is all that its layers know of a sequence: a copy continues with the same bits, nobody else's changes
 * it, and it is the same however the tokens were divided into chunks. */
#include "base/random.h"
#include "model/config/kv_layers.h"
#include "tests/model/support/runner.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_PROMPT = 48, N_MORE = 21, VOCABULARY = 96, BLOCK = 16, N_SEQUENCES = 5, N_STEPS = 7 };

static const char *const MODELS[] = {"qwen3_5_t5", "qwen3_5_t5_text", "qwen3_5_moe_t5",
                                     "qwen3_next_t4"};
enum { N_MODELS = sizeof MODELS / sizeof *MODELS };

static void open(struct runner *runner, const char *name, struct runner_options options)
{
    char folder[512];
    snprintf(folder, sizeof folder, "%s/%s", GOLDEN_MODELS, name);
    options.block_tokens = options.block_tokens ? options.block_tokens : BLOCK;
    options.tokens_max = 256;
    options.n_blocks = 64;
    runner_open(runner, folder, options);
}

static void random_ids(uint32_t *ids, uint32_t n, uint64_t seed)
{
    struct random random;
    random_init(&random, seed);
    for (uint32_t i = 0; i < n; i++)
        ids[i] = (uint32_t)random_below(&random, VOCABULARY);
}

/* Both sequences know the same, bit for bit. */
static bool are_alike(const struct runner_sequence *a, const struct runner_sequence *b)
{
    const size_t bytes = runner_state_bytes(a->runner);
    uint8_t *both = malloc(2 * bytes);
    cr_assert(both);
    runner_read_state(a, both);
    runner_read_state(b, both + bytes);
    const bool is_alike = memcmp(both, both + bytes, bytes) == 0;
    free(both);
    return is_alike;
}

/* Decodes n tokens; rows_out: [n][VOCABULARY]. */
static void decode(struct runner *runner, struct runner_sequence *sequence, const uint32_t *ids,
                   uint32_t n, float *rows_out)
{
    for (uint32_t i = 0; i < n; i++)
        runner_decode(runner, sequence, ids[i], rows_out + (size_t)i * VOCABULARY);
}

Test(forward_state, is_float32_of_its_layers_alone)
{
    struct runner runner;
    open(&runner, "qwen3_5_t5", (struct runner_options){0});
    const struct model_config *config = model_get_config(runner.model);
    /* q, k of 2 heads of 24, v of 4 heads of 16; a convolution of 3 rows; 3 of 4 layers */
    const size_t channels = 2 * 2 * 24 + 4 * 16, matrices = 4 * 24 * 16;
    cr_assert_eq(kv_layers_count(config), 1);
    cr_expect_eq(state_layout_bytes(config), 3 * (2 * channels + matrices) * sizeof(float));
    cr_expect_eq(forward_block_bytes(config, BLOCK, CACHE_F32),
                 2 * (size_t)config->n_kv_heads * config->head_dim * BLOCK * sizeof(float));
    runner_close(&runner);
    runner_open(&runner, DEMO_MODEL, (struct runner_options){.tokens_max = 64});
    cr_expect_eq(runner_state_bytes(&runner), 0);
    runner_close(&runner);
}

/* A snapshot at a block border, and behind it two texts: each as if it had been computed from the beginning. */
Test(forward_state, a_copy_continues_as_the_original_would)
{
    for (size_t m = 0; m < N_MODELS; m++) {
        struct runner runner;
        struct runner_sequence original, copy, whole;
        uint32_t ids[2][N_PROMPT + N_MORE];
        static float rows[N_MORE * VOCABULARY], expected[N_MORE * VOCABULARY];
        open(&runner, MODELS[m], (struct runner_options){.n_threads = 2});
        random_ids(ids[0], N_PROMPT + N_MORE, 3);
        random_ids(ids[1], N_PROMPT + N_MORE, 4);
        memcpy(ids[1], ids[0], N_PROMPT * sizeof ids[0][0]);
        runner_begin(&runner, &original, N_PROMPT + N_MORE);
        runner_prefill(&runner, &original, ids[0], N_PROMPT, 0, rows);
        runner_copy(&runner, &original, &copy);
        decode(&runner, &original, ids[0] + N_PROMPT, N_MORE, rows);
        for (uint32_t way = 0; way < 2; way++) {
            runner_begin(&runner, &whole, N_PROMPT + N_MORE);
            runner_prefill(&runner, &whole, ids[way], N_PROMPT, 0, expected);
            decode(&runner, &whole, ids[way] + N_PROMPT, N_MORE, expected);
            if (way == 1)
                decode(&runner, &copy, ids[1] + N_PROMPT, N_MORE, rows);
            cr_expect_eq(memcmp(rows, expected, sizeof rows), 0, "%s, text %u", MODELS[m], way);
            const struct runner_sequence *const same = way == 0 ? &original : &copy;
            cr_expect(are_alike(same, &whole), "%s, text %u", MODELS[m], way);
            runner_end(&runner, &whole);
        }
        runner_end(&runner, &copy);
        runner_end(&runner, &original);
        runner_close(&runner);
    }
}

Test(forward_state, has_the_same_bits_after_any_chunks_blocks_and_threads)
{
    static const struct {
        uint32_t block_tokens, chunk, n_threads;
    } WAYS[] = {{8, 8, 0}, {8, 24, 2}, {16, 16, 1}, {32, 32, 2}, {64, 0, 0}};
    for (size_t m = 0; m < N_MODELS; m++) {
        uint8_t *expected = NULL;
        for (size_t w = 0; w < sizeof WAYS / sizeof *WAYS; w++) {
            struct runner runner;
            struct runner_sequence sequence;
            uint32_t ids[N_PROMPT + N_MORE];
            float logits[VOCABULARY];
            open(&runner, MODELS[m],
                 (struct runner_options){.block_tokens = WAYS[w].block_tokens,
                                         .n_threads = WAYS[w].n_threads});
            random_ids(ids, N_PROMPT + N_MORE, 5);
            runner_begin(&runner, &sequence, N_PROMPT + N_MORE);
            runner_prefill(&runner, &sequence, ids, N_PROMPT + N_MORE, WAYS[w].chunk, logits);
            const size_t bytes = runner_state_bytes(&runner);
            uint8_t *state = malloc(bytes);
            cr_assert(state);
            runner_read_state(&sequence, state);
            cr_expect(!expected || memcmp(expected, state, bytes) == 0, "%s, way %zu", MODELS[m],
                      w);
            free(expected);
            expected = state;
            runner_end(&runner, &sequence);
            runner_close(&runner);
        }
        free(expected);
    }
}

/* Prompts of other lengths in one batch, then all decode together, in another order each time. */
Test(forward_state, does_not_depend_on_company)
{
    for (size_t m = 0; m < N_MODELS; m++) {
        struct runner runner;
        struct runner_sequence sequences[N_SEQUENCES], alone;
        struct forward_sequence batch[N_SEQUENCES];
        static uint32_t ids[N_SEQUENCES][N_PROMPT + N_MORE];
        static float logits[N_SEQUENCES * VOCABULARY], expected[VOCABULARY];
        open(&runner, MODELS[m], (struct runner_options){.n_threads = 2});
        for (uint32_t s = 0; s < N_SEQUENCES; s++) {
            random_ids(ids[s], N_PROMPT + N_MORE, 10 + s);
            runner_begin(&runner, &sequences[s], N_PROMPT);
            sequences[s].prompt_len = 1 + 7 * s;
            batch[s] = runner_next(&sequences[s], ids[s], 1 + 7 * s, true);
        }
        cr_assert_eq(forward_run(runner.forward, batch, N_SEQUENCES, N_SEQUENCES, logits),
                     STATUS_OK);
        for (uint32_t step = 0; step < N_STEPS; step++) {
            for (uint32_t i = 0; i < N_SEQUENCES; i++) {
                const uint32_t s = (i + step) % N_SEQUENCES;
                batch[i] = runner_next(&sequences[s], &ids[s][sequences[s].n_past], 1, true);
            }
            cr_assert_eq(forward_run(runner.forward, batch, N_SEQUENCES, 0, logits), STATUS_OK);
        }
        for (uint32_t s = 0; s < N_SEQUENCES; s++) {
            /* in the last step */
            const uint32_t place = (s + N_STEPS * N_SEQUENCES - (N_STEPS - 1)) % N_SEQUENCES;
            runner_begin(&runner, &alone, N_PROMPT);
            runner_prefill(&runner, &alone, ids[s], sequences[s].n_past, 0, expected);
            cr_expect_eq(memcmp(expected, logits + (size_t)place * VOCABULARY, sizeof expected), 0,
                         "%s, sequence %u", MODELS[m], s);
            cr_expect(are_alike(&alone, &sequences[s]), "%s, sequence %u", MODELS[m], s);
            runner_end(&runner, &alone);
            runner_end(&runner, &sequences[s]);
        }
        runner_close(&runner);
    }
}

/* The first layer has no attention to touch memory with. */
Test(forward_state, a_pass_warms_up_without_any_state)
{
    for (size_t m = 0; m < N_MODELS; m++) {
        struct runner runner;
        struct error error = {""};
        struct forward *forward;
        open(&runner, MODELS[m], (struct runner_options){.n_threads = 1});
        cr_assert_eq(
            forward_create(runner.model, forward_get_options(runner.forward), &error, &forward),
            STATUS_OK, "%s", error.text);
        cr_expect_eq(forward_warm_up(forward), STATUS_OK);
        forward_destroy(forward);
        runner_close(&runner);
    }
}

/* The share of the squares of logits that rounding the weights changes. */
static double rounding_error(const char *name, enum weight_format weights)
{
    struct runner whole, rounded;
    struct runner_sequence sequence;
    uint32_t ids[N_PROMPT];
    float expected[VOCABULARY], logits[VOCABULARY];
    double error = 0, size = 0;
    random_ids(ids, N_PROMPT, 6);
    open(&whole, name, (struct runner_options){0});
    open(&rounded, name, (struct runner_options){.weights = weights});
    runner_begin(&whole, &sequence, N_PROMPT);
    runner_prefill(&whole, &sequence, ids, N_PROMPT, 0, expected);
    runner_end(&whole, &sequence);
    runner_begin(&rounded, &sequence, N_PROMPT);
    runner_prefill(&rounded, &sequence, ids, N_PROMPT, BLOCK, logits);
    runner_end(&rounded, &sequence);
    for (uint32_t i = 0; i < VOCABULARY; i++) {
        const double by = (double)logits[i] - (double)expected[i];
        error += by * by;
        size += (double)expected[i] * (double)expected[i];
    }
    runner_close(&whole);
    runner_close(&rounded);
    return error / size;
}

/* Rows of 32 elements and chaotic models: less than a fifth of the logits. */
Test(forward_state, weights_of_8_bits_are_computed)
{
    static const enum weight_format FORMATS[] = {WEIGHTS_INT8, WEIGHTS_Q8};
    for (size_t m = 0; m < N_MODELS; m++)
        for (size_t f = 0; f < sizeof FORMATS / sizeof *FORMATS; f++) {
            const double error = rounding_error(MODELS[m], FORMATS[f]);
            cr_expect(error > 0 && error < 0.04, "%s, format %d: %g", MODELS[m], (int)FORMATS[f],
                      error);
        }
}

Test(forward_state, a_sequence_without_one_is_a_programmers_error, .signal = SIGABRT)
{
    struct runner runner;
    struct runner_sequence sequence;
    const uint32_t id = 1;
    float logits[VOCABULARY];
    open(&runner, "qwen3_5_t5", (struct runner_options){0});
    runner_begin(&runner, &sequence, 1);
    struct forward_sequence next = runner_next(&sequence, &id, 1, true);
    next.state_blocks = NULL;
    (void)!forward_run(runner.forward, &next, 1, 0, logits);
}
