/* forward on a device with kernels of its own: the logits of Transformers within what BF16 keeps, their greedy tokens, and
 * bits that depend on a sequence's own tokens alone. */
#include "tests/model/support/golden.h"
#include "tests/simt/model/rig.h"
#include "tests/simt/model/rows.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_SHORT = 9 };

struct golden_model {
    char name[32];
};

/* Position by position, each fed the golden's own token. Returns how many greedy tokens could be judged. */
static uint32_t check_positions(struct rig *rig, const uint32_t *ids, uint32_t n,
                                const float *expected, double tolerance, double *largest)
{
    const uint32_t vocabulary = rig->runner.vocabulary;
    struct runner_sequence sequence;
    uint32_t n_judged = 0;
    runner_begin(&rig->runner, &sequence, n);
    for (uint32_t i = 0; i < n; i++) {
        const float *row = expected + (size_t)i * vocabulary;
        runner_decode(&rig->runner, &sequence, ids[i], rig->logits);
        const double unit = rows_largest(row, vocabulary);
        double error = golden_error(rig->logits, row, vocabulary) / unit;
        *largest = error > *largest ? error : *largest;
        if (rows_margin(row, vocabulary) <= 2 * tolerance * unit)
            continue;
        cr_expect_eq(rows_best(rig->logits, vocabulary), rows_best(row, vocabulary), "position %u",
                     i);
        n_judged++;
    }
    runner_end(&rig->runner, &sequence);
    return n_judged;
}

/* Activations of BF16 move some elements of a cache of 8 bits by a step. */
static double tolerance_of(enum cache_dtype dtype)
{
    return dtype == CACHE_E4M3   ? 4 * ROWS_TINY_TOLERANCE
           : dtype == CACHE_INT8 ? 2 * ROWS_TINY_TOLERANCE
                                 : ROWS_TINY_TOLERANCE;
}

static void check_model(const char *name, enum cache_dtype dtype, const struct simt_options *simt)
{
    struct rig rig;
    char folder[512];
    snprintf(folder, sizeof folder, "%s/%s", GOLDEN_MODELS, name);
    rig_open(&rig, name, (struct runner_options){.cache_dtype = dtype, .in_groups = true}, simt);
    json_t *golden = golden_json(folder, "golden.json");
    const json_t *prompts = json_object_get(golden, "prompts");
    const uint32_t vocabulary = rig.runner.vocabulary;
    size_t n_all = 0, at = 0;
    for (size_t i = 0; i < json_array_size(prompts); i++)
        n_all += json_array_size(json_array_get(prompts, i));
    float *expected = golden_floats(folder, "golden.f32", n_all * vocabulary);
    double largest = 0;
    uint32_t n_judged = 0;
    for (size_t i = 0; i < json_array_size(prompts); i++) {
        uint32_t n;
        uint32_t *ids = golden_ids(json_array_get(prompts, i), &n);
        const float *rows = expected + at * vocabulary;
        struct runner_sequence whole;
        runner_begin(&rig.runner, &whole, n);
        runner_prefill(&rig.runner, &whole, ids, n, 0, rig.logits);
        runner_end(&rig.runner, &whole);
        const float *last = rows + (size_t)(n - 1) * vocabulary;
        double error = golden_error(rig.logits, last, vocabulary) / rows_largest(last, vocabulary);
        largest = error > largest ? error : largest;
        n_judged += check_positions(&rig, ids, n < N_SHORT ? n : N_SHORT, rows, tolerance_of(dtype),
                                    &largest);
        at += n;
        free(ids);
    }
    printf("%-22s largest error %.1e, %u greedy tokens\n", name, largest, n_judged);
    cr_expect_leq(largest, tolerance_of(dtype), "%s: %g", name, largest);
    cr_expect_gt(n_judged, 0);
    free(expected);
    json_decref(golden);
    rig_close(&rig);
}

ParameterizedTestParameters(simt_forward, logits_are_those_of_transformers_within_bf16)
{
    static struct golden_model models[] = {
        {"llama_t4"},          {"llama_t5_bias"},        {"llama_t4_linear"},
        {"llama_t5_dynamic"},  {"llama_t4_llama3"},      {"qwen3_t4_yarn_mscale"},
        {"mistral_t4_window"}, {"mistral_t5"},           {"qwen2_t4"},
        {"qwen2_t4_window"},   {"qwen2_t5_layer_types"}, {"qwen3_t4"},
        {"qwen3_t5_bias"},
    };
    return cr_make_param_array(struct golden_model, models, sizeof models / sizeof *models);
}

ParameterizedTest(struct golden_model *model, simt_forward,
                  logits_are_those_of_transformers_within_bf16)
{
    check_model(model->name, CACHE_BF16, &(struct simt_options){0});
}

Test(simt_forward, a_cache_of_8_bits_has_the_logits_of_transformers)
{
    const struct simt_options simt = {0};
    check_model("../kv/llama_e4m3", CACHE_E4M3, &simt);
    check_model("../kv/qwen3_int8", CACHE_INT8, &simt);
}

Test(simt_forward, in_any_order_of_threads_with_copies_early_or_late)
{
    for (uint32_t i = 0; i < 4; i++)
        check_model("qwen3_t5_bias", CACHE_BF16,
                    &(struct simt_options){.copies_late = i % 2, .seed = i / 2 ? 77 : 0});
}

enum { DEMO_PROMPT_MAX = 104 };

Test(simt_forward, demo_logits_are_those_of_transformers_within_bf16)
{
    struct runner runner;
    struct device *device = simt_device_open(&(struct simt_options){0});
    runner_open(&runner, DEMO_MODEL,
                (struct runner_options){
                    .device = device, .tokens_max = DEMO_PROMPT_MAX, .cache_dtype = CACHE_BF16});
    json_t *golden = golden_json(DEMO_MODEL "/golden", "logits.json"), *entry;
    float *logits = calloc(runner.vocabulary, sizeof *logits);
    uint32_t n_cases = 0;
    size_t c;
    json_array_foreach(json_object_get(golden, "cases"), c, entry)
    {
        uint32_t n;
        const char *file = json_string_value(json_object_get(entry, "file"));
        uint32_t *ids = golden_ids(json_object_get(entry, "prompt_ids"), &n);
        float *expected = golden_floats(DEMO_MODEL "/golden", file, runner.vocabulary);
        struct runner_sequence sequence;
        if (n <= DEMO_PROMPT_MAX) {
            runner_begin(&runner, &sequence, n);
            runner_prefill(&runner, &sequence, ids, n, 0, logits);
            runner_end(&runner, &sequence);
            double error = golden_error(logits, expected, runner.vocabulary) /
                           rows_largest(expected, runner.vocabulary);
            printf("%-22s largest error %.1e\n", file, error);
            cr_expect_leq(error, ROWS_TOLERANCE, "%s: %g", file, error);
            n_cases++;
        }
        free(expected);
        free(ids);
    }
    cr_expect_eq(n_cases, 2);
    free(logits);
    json_decref(golden);
    runner_close(&runner);
    device_close(device);
}

/* n_greedy steps behind the prompt. Returns of how many the golden's margin is above the tolerance. */
static uint32_t judge_greedy(struct runner *runner, const json_t *entry, const uint32_t *prompt,
                             uint32_t n, const uint32_t *ids, uint32_t n_greedy)
{
    const json_t *margins = json_object_get(entry, "margin");
    float *logits = calloc(runner->vocabulary, sizeof *logits);
    struct runner_sequence sequence;
    uint32_t n_judged = 0;
    runner_begin(runner, &sequence, n + n_greedy);
    runner_prefill(runner, &sequence, prompt, n, 0, logits);
    for (uint32_t i = 0; i < n_greedy; i++) {
        double unit = rows_largest(logits, runner->vocabulary);
        if (json_number_value(json_array_get(margins, i)) > 2 * ROWS_TOLERANCE * unit) {
            cr_expect_eq(rows_best(logits, runner->vocabulary), ids[i], "token %u", i);
            n_judged++;
        }
        runner_decode(runner, &sequence, ids[i], logits);
    }
    runner_end(runner, &sequence);
    free(logits);
    return n_judged;
}

/* Of the shorter prompts, fed with the golden's own tokens. */
Test(simt_forward, demo_greedy_tokens_are_those_of_transformers)
{
    enum { N_GREEDY = 8, PROMPT_MAX = 40 };
    struct runner runner;
    struct device *device = simt_device_open(&(struct simt_options){0});
    runner_open(&runner, DEMO_MODEL,
                (struct runner_options){
                    .device = device, .tokens_max = PROMPT_MAX, .cache_dtype = CACHE_BF16});
    json_t *golden = golden_json(DEMO_MODEL "/golden", "greedy.json"), *entry;
    uint32_t n_cases = 0, n_judged = 0;
    size_t c;
    json_array_foreach(json_object_get(golden, "cases"), c, entry)
    {
        uint32_t n, n_ids;
        uint32_t *prompt = golden_ids(json_object_get(entry, "prompt_ids"), &n);
        uint32_t *ids = golden_ids(json_object_get(entry, "ids"), &n_ids);
        if (n + N_GREEDY <= PROMPT_MAX && n_cases < 3) {
            n_judged += judge_greedy(&runner, entry, prompt, n, ids, N_GREEDY);
            n_cases++;
        }
        free(ids);
        free(prompt);
    }
    printf("demo: %u greedy tokens judged of %u prompts\n", n_judged, n_cases);
    cr_expect_gt(n_judged, 0);
    json_decref(golden);
    runner_close(&runner);
    device_close(device);
}

/* ---- bits ---- */

enum { PROMPT = 40, N_DECODED = 3 };

/* What a sequence comes to: logits of its last prompt token and of each decoded one, and its KV. */
struct outcome {
    float *logits; /* [1 + N_DECODED][vocabulary] */
    uint8_t *blocks;
    size_t blocks_bytes;
};

static void keep_blocks(const struct rig *rig, const struct runner_sequence *sequence,
                        struct outcome *outcome)
{
    const size_t bytes = block_pool_block_bytes(rig->runner.pool);
    outcome->blocks_bytes = sequence->n_blocks * bytes;
    outcome->blocks = malloc(outcome->blocks_bytes);
    for (uint32_t i = 0; i < sequence->n_blocks && !rig->runner.options.in_groups; i++)
        memcpy(outcome->blocks + i * bytes, block_pool_data(rig->runner.pool, sequence->blocks[i]),
               bytes);
}

/* The prompt in chunks, 0: whole; then tokens one by one. */
static struct outcome run(struct rig *rig, uint32_t chunk)
{
    const uint32_t vocabulary = rig->runner.vocabulary;
    struct outcome outcome = {.logits = calloc((1 + N_DECODED) * vocabulary, sizeof(float))};
    struct runner_sequence sequence;
    uint32_t ids[PROMPT + N_DECODED];
    for (uint32_t i = 0; i < PROMPT + N_DECODED; i++)
        ids[i] = token_of(rig, 0, i);
    memset(rig->runner.pool_memory.base, 0xff, rig->runner.pool_memory.bytes); /* slots behind */
    runner_begin(&rig->runner, &sequence, PROMPT + N_DECODED);
    runner_prefill(&rig->runner, &sequence, ids, PROMPT, chunk, outcome.logits);
    for (uint32_t i = 0; i < N_DECODED; i++)
        runner_decode(&rig->runner, &sequence, ids[PROMPT + i],
                      outcome.logits + (size_t)(1 + i) * vocabulary);
    keep_blocks(rig, &sequence, &outcome);
    runner_end(&rig->runner, &sequence);
    return outcome;
}

static void outcome_free(struct outcome *outcome)
{
    free(outcome->logits);
    free(outcome->blocks);
}

static void expect_equal(const struct rig *rig, const struct outcome *a, const struct outcome *b,
                         const char *what)
{
    size_t bytes = (size_t)(1 + N_DECODED) * rig->runner.vocabulary * sizeof(float);
    cr_expect_eq(memcmp(a->logits, b->logits, bytes), 0, "%s: logits", what);
    cr_expect_eq(a->blocks_bytes, b->blocks_bytes);
    cr_expect_eq(memcmp(a->blocks, b->blocks, a->blocks_bytes), 0, "%s: KV", what);
}

Test(simt_forward, bits_do_not_depend_on_chunks_processors_or_the_order_of_threads)
{
    for (size_t m = 0; m < N_OF_BITS; m++) {
        struct rig rig, other;
        struct runner_options options = {.cache_dtype = CACHE_BF16};
        rig_open(&rig, OF_BITS[m], options, &(struct simt_options){0});
        rig_open(&other, OF_BITS[m], options,
                 &(struct simt_options){.n_processors = 13, .copies_late = true, .seed = 5});
        struct outcome whole = run(&rig, 0), chunks = run(&rig, 16), again = run(&other, 8);
        expect_equal(&rig, &chunks, &whole, "chunks of 16");
        expect_equal(&rig, &again, &whole, "chunks of 8, thirteen processors");
        outcome_free(&again);
        outcome_free(&chunks);
        outcome_free(&whole);
        rig_close(&other);
        rig_close(&rig);
    }
}

/* What a window has passed holds NaN by then. */
Test(simt_forward, windows_give_their_blocks_back_and_change_no_bit)
{
    for (size_t m = 0; m < N_OF_BITS; m++) {
        struct rig rig, grouped;
        struct runner_options options = {.cache_dtype = CACHE_BF16};
        rig_open(&rig, OF_BITS[m], options, &(struct simt_options){0});
        options.in_groups = true;
        rig_open(&grouped, OF_BITS[m], options, &(struct simt_options){.n_processors = 5});
        struct outcome whole = run(&rig, 0), chunks = run(&grouped, 8);
        cr_expect_eq(memcmp(chunks.logits, whole.logits,
                            (size_t)(1 + N_DECODED) * rig.runner.vocabulary * sizeof(float)),
                     0, "%s", OF_BITS[m]);
        outcome_free(&chunks);
        outcome_free(&whole);
        rig_close(&grouped);
        rig_close(&rig);
    }
}

/* A prompt's KV, computed on one device and copied to another, is what that one goes on with. */
Test(simt_forward, split_has_the_bits_of_single)
{
    for (size_t m = 0; m < N_OF_BITS; m++) {
        struct rig context, generation;
        struct runner_options options = {.cache_dtype = CACHE_BF16};
        rig_open(&context, OF_BITS[m], options, &(struct simt_options){0});
        rig_open(&generation, OF_BITS[m], options, &(struct simt_options){.n_processors = 7});
        const uint32_t vocabulary = context.runner.vocabulary;
        const size_t block_bytes = block_pool_block_bytes(context.runner.pool);
        struct outcome single = run(&context, 0);
        struct runner_sequence from, to;
        uint32_t ids[PROMPT + N_DECODED];
        for (uint32_t i = 0; i < PROMPT + N_DECODED; i++)
            ids[i] = token_of(&context, 0, i);
        runner_begin(&generation.runner, &from, 1); /* so that block ids differ */
        runner_begin(&generation.runner, &to, PROMPT + N_DECODED);
        struct runner_sequence source;
        runner_begin(&context.runner, &source, PROMPT);
        runner_prefill(&context.runner, &source, ids, PROMPT, 16, context.logits);
        for (uint32_t i = 0; i < source.n_blocks; i++)
            memcpy(block_pool_data(generation.runner.pool, to.blocks[i]),
                   block_pool_data(context.runner.pool, source.blocks[i]), block_bytes);
        to.n_past = to.prompt_len = PROMPT;
        for (uint32_t i = 0; i < N_DECODED; i++) {
            runner_decode(&generation.runner, &to, ids[PROMPT + i], generation.logits);
            cr_expect_eq(memcmp(generation.logits, single.logits + (size_t)(1 + i) * vocabulary,
                                vocabulary * sizeof(float)),
                         0, "%s: token %u", OF_BITS[m], i);
        }
        runner_end(&context.runner, &source);
        runner_end(&generation.runner, &to);
        runner_end(&generation.runner, &from);
        outcome_free(&single);
        rig_close(&generation);
        rig_close(&context);
    }
}

/* A batch of sequences in both phases: each has the bits that it has alone. */
Test(simt_forward, batch_mates_change_no_bit)
{
    enum { N = 5 };
    struct rig rig;
    rig_open(&rig, "qwen3_t5_bias", (struct runner_options){.cache_dtype = CACHE_BF16},
             &(struct simt_options){0});
    const uint32_t vocabulary = rig.runner.vocabulary;
    float *alone = calloc((size_t)N * vocabulary, sizeof *alone);
    struct forward_sequence batch[N];
    struct runner_sequence sequences[2][N];
    uint32_t ids[N][16];
    for (uint32_t s = 0; s < N; s++)
        for (uint32_t i = 0; i < 16; i++)
            ids[s][i] = token_of(&rig, s, i);
    for (int round = 0; round < 2; round++)
        for (uint32_t s = 0; s < N; s++) { /* the first two are prompts, the others are decoded */
            runner_begin(&rig.runner, &sequences[round][s], 16);
            if (s >= 2)
                runner_prefill(&rig.runner, &sequences[round][s], ids[s], 4 + s, 0, rig.logits);
            else
                sequences[round][s].prompt_len = 5 + s;
        }
    for (uint32_t s = 0; s < N; s++) {
        uint32_t past = sequences[0][s].n_past, n = s < 2 ? 5 + s : 1;
        struct forward_sequence one = runner_next(&sequences[0][s], ids[s] + past, n, true);
        cr_assert_eq(
            forward_run(rig.runner.forward, &one, 1, s < 2, alone + (size_t)s * vocabulary),
            STATUS_OK);
        batch[s] = runner_next(&sequences[1][s], ids[s] + past, n, true);
    }
    cr_assert_eq(forward_run(rig.runner.forward, batch, N, 2, rig.logits), STATUS_OK);
    cr_expect_eq(memcmp(rig.logits, alone, (size_t)N * vocabulary * sizeof *alone), 0);
    for (int round = 0; round < 2; round++)
        for (uint32_t s = 0; s < N; s++)
            runner_end(&rig.runner, &sequences[round][s]);
    free(alone);
    rig_close(&rig);
}

/* ---- steps of few shapes ---- */

/* A step of n sequences from first on, one token each; every third one's logits are not wanted. Rows of logits. */
static uint32_t decode(struct rig *rig, struct runner_sequence *sequences, uint32_t first,
                       uint32_t n)
{
    struct forward_sequence batch[N_SEQUENCES];
    uint32_t ids[N_SEQUENCES], n_rows = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t s = (first + i) % N_SEQUENCES;
        bool is_wanted = (i + first) % 3 != 2 || n == 1;
        ids[i] = token_of(rig, s, sequences[s].n_past);
        batch[i] = runner_next(&sequences[s], &ids[i], 1, is_wanted);
        n_rows += is_wanted;
    }
    cr_assert_eq(forward_run(rig->runner.forward, batch, n, 0, rig->logits), STATUS_OK);
    return n_rows;
}

Test(simt_forward, steps_filled_up_to_a_bucket_have_the_bits_of_plain_ones)
{
    for (size_t m = 0; m < N_OF_BITS; m++) {
        struct rig plain, filled;
        struct runner_sequence sequences[2][N_SEQUENCES];
        struct runner_options options = {.cache_dtype = CACHE_BF16, .sequences_max = N_SEQUENCES};
        rig_open(&plain, OF_BITS[m], options, &(struct simt_options){0});
        rig_open(&filled, OF_BITS[m], options, &(struct simt_options){.wants_static_steps = true});
        prefill_all(&plain, sequences[0]);
        prefill_all(&filled, sequences[1]);
        for (uint32_t n = 1; n <= N_SEQUENCES; n++) {
            uint32_t n_rows = decode(&plain, sequences[0], n, n);
            cr_assert_eq(decode(&filled, sequences[1], n, n), n_rows);
            cr_expect_eq(memcmp(filled.logits, plain.logits,
                                (size_t)n_rows * plain.runner.vocabulary * sizeof(float)),
                         0, "%s: %u sequences: logits", OF_BITS[m], n);
        }
        cr_expect_eq(memcmp(filled.runner.pool_memory.base, plain.runner.pool_memory.base,
                            plain.runner.pool_memory.bytes),
                     0, "%s: cache", OF_BITS[m]);
        for (uint32_t s = 0; s < N_SEQUENCES; s++) {
            runner_end(&plain.runner, &sequences[0][s]);
            runner_end(&filled.runner, &sequences[1][s]);
        }
        rig_close(&filled);
        rig_close(&plain);
    }
}
