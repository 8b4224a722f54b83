/* scorer: a prompt's log-probabilities are those of Transformers' logits, the same bits for any chunks, blocks, threads and batch, and
 * whoever is beside a scored prompt has the bits it has alone. */
#include "base/random.h"
#include "kernels/kernels.h"
#include "model/sampling/scorer.h"
#include "tests/device/fault_device.h"
#include "tests/model/support/golden.h"
#include "tests/model/support/overflow.h"
#include "tests/model/support/runner.h"
#include "tests/model/support/tiny_models.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TOLERANCE 1e-4 /* as of logits in forward_golden_test.c */

enum { N_TOP = 5, PROMPT_MAX = 300 };

static struct scorer *new_scorer(const struct runner *runner)
{
    struct scorer *scorer;
    cr_assert_eq(scorer_create(runner->forward, model_host_kernels(runner->model), &scorer),
                 STATUS_OK);
    return scorer;
}

static void random_ids(uint32_t *ids, uint32_t n, uint32_t vocabulary)
{
    struct random random;
    random_init(&random, n);
    for (uint32_t i = 0; i < n; i++)
        ids[i] = (uint32_t)random_below(&random, vocabulary);
}

/* All scores of a chunk, from told on; returns what is told then. */
static uint32_t take(struct scorer *scorer, const struct scored_chunk *chunk, uint32_t told,
                     struct token_logprobs *out)
{
    struct prompt_scores scores;
    struct draw fault;
    while (told < scored_chunk_end(chunk)) {
        cr_assert_eq(scorer_run(scorer, chunk, told, &scores, &fault), STATUS_OK);
        cr_assert_eq(scores.first, told);
        cr_assert(scores.n >= 1 && told + scores.n <= scored_chunk_end(chunk));
        memcpy(out + told, scores.logprobs, scores.n * sizeof *out);
        told += scores.n;
    }
    return told;
}

/* A prompt alone; chunk_tokens 0: all at once. */
static void score_prompt(struct runner *runner, struct scorer *scorer, const uint32_t *ids,
                         uint32_t n, uint32_t chunk_tokens, struct token_logprobs *out)
{
    struct runner_sequence sequence;
    float *logits = calloc(runner->vocabulary, sizeof *logits);
    uint32_t told = 0;
    runner_begin(runner, &sequence, n);
    sequence.prompt_len = n;
    memset(out, 0, n * sizeof *out);
    while (sequence.n_past < n) {
        const uint32_t n_left = n - sequence.n_past;
        struct scored_chunk chunk = {
            .n_past = sequence.n_past, .tokens = ids, .n_prompt = n, .n_top = N_TOP};
        chunk.n_query = chunk_tokens && chunk_tokens < n_left ? chunk_tokens : n_left;
        struct forward_sequence next = runner_next(&sequence, ids + sequence.n_past, chunk.n_query,
                                                   chunk.n_query == n_left);
        next.keeps_rows = true;
        cr_assert_eq(forward_run(runner->forward, &next, 1, 1, logits), STATUS_OK);
        told = take(scorer, &chunk, told, out);
    }
    cr_assert_eq(told, n);
    runner_end(runner, &sequence);
    free(logits);
}

/* ---- Transformers ---- */

static double log_softmax(const float *logits, uint32_t n, uint32_t token)
{
    double largest = -INFINITY, sum = 0;
    for (uint32_t i = 0; i < n; i++)
        largest = fmax(largest, (double)logits[i]);
    for (uint32_t i = 0; i < n; i++)
        sum += exp((double)logits[i] - largest);
    return (double)logits[token] - largest - log(sum);
}

static double check_score(const struct token_logprobs *score, const float *logits, uint32_t n,
                          uint32_t token)
{
    double error = fabs((double)score->logprob - log_softmax(logits, n, token));
    cr_assert_eq(score->n_top, N_TOP);
    for (uint32_t i = 0; i < N_TOP; i++) {
        error = fmax(error, fabs((double)score->top_logprobs[i] -
                                 log_softmax(logits, n, score->top_ids[i])));
        uint32_t n_before = 0;
        for (uint32_t id = 0; id < n; id++)
            n_before += logits[id] > logits[score->top_ids[i]] + (float)TOLERANCE;
        cr_assert_leq(n_before, i, "%u is no likeliest token", score->top_ids[i]);
    }
    return error;
}

static void check_golden(const char *name)
{
    static struct token_logprobs scores[PROMPT_MAX];
    struct runner runner;
    char folder[512];
    snprintf(folder, sizeof folder, "%s/%s", GOLDEN_MODELS, name);
    runner_open(&runner, folder, (struct runner_options){.block_tokens = 8, .tokens_max = 80});
    struct scorer *scorer = new_scorer(&runner);
    json_t *golden = golden_json(folder, "golden.json"),
           *prompts = json_object_get(golden, "prompts");
    size_t n_all = 0, at = 0, i;
    json_t *prompt;
    json_array_foreach(prompts, i, prompt) n_all += json_array_size(prompt);
    float *expected = golden_floats(folder, "golden.f32", n_all * runner.vocabulary);
    double largest = 0;
    json_array_foreach(prompts, i, prompt)
    {
        uint32_t n;
        uint32_t *ids = golden_ids(prompt, &n);
        score_prompt(&runner, scorer, ids, n, 0, scores);
        cr_assert(scores[0].logprob == 0 && scores[0].n_top == 0, "nothing comes before it");
        for (uint32_t t = 1; t < n; t++)
            largest = fmax(largest,
                           check_score(&scores[t], expected + (at + t - 1) * runner.vocabulary,
                                       runner.vocabulary, ids[t]));
        at += n;
        free(ids);
    }
    printf("%-22s largest error %.1e\n", name, largest);
    cr_assert(largest > 0 && largest <= tiny_tolerance(name), "%s: %g", name, largest);
    free(expected);
    json_decref(golden);
    scorer_destroy(scorer);
    runner_close(&runner);
}

Test(scorer, has_the_log_probabilities_of_transformers)
{
    for (size_t i = 0; i < TINY_MODELS; i++)
        check_golden(tiny_models[i]);
}

/* ---- bits ---- */

static void score_with(const char *folder, struct runner_options options, uint32_t chunk_blocks,
                       uint32_t n, struct token_logprobs *out)
{
    struct runner runner;
    uint32_t ids[PROMPT_MAX];
    options.tokens_max = PROMPT_MAX;
    runner_open(&runner, folder, options);
    random_ids(ids, n, runner.vocabulary);
    struct scorer *scorer = new_scorer(&runner);
    score_prompt(&runner, scorer, ids, n, chunk_blocks * runner.options.block_tokens, out);
    scorer_destroy(scorer);
    runner_close(&runner);
}

Test(scorer, has_the_same_bits_for_any_chunks_blocks_and_threads)
{
    static const uint32_t BLOCKS[] = {8, 16, 64}, CHUNKS[] = {0, 1, 2, 7},
                          LENGTHS[] = {1, 2, 17, 290};
    static struct token_logprobs expected[PROMPT_MAX], scores[PROMPT_MAX];
    for (size_t l = 0; l < sizeof LENGTHS / sizeof *LENGTHS; l++) {
        struct runner_options options = {.block_tokens = 16, .cache_dtype = CACHE_BF16};
        score_with(DEMO_MODEL, options, 0, LENGTHS[l], expected);
        for (size_t b = 0; b < sizeof BLOCKS / sizeof *BLOCKS; b++) {
            for (size_t c = 0; c < sizeof CHUNKS / sizeof *CHUNKS; c++) {
                options.block_tokens = BLOCKS[b];
                options.n_threads = (uint32_t)(b + c) % 3;
                options.sequences_max = (uint32_t)(1 + 13 * c); /* rows at a time, too */
                score_with(DEMO_MODEL, options, CHUNKS[c], LENGTHS[l], scores);
                cr_assert_arr_eq(scores, expected, LENGTHS[l] * sizeof *scores,
                                 "%u tokens, block %u, chunks of %u blocks", LENGTHS[l], BLOCKS[b],
                                 CHUNKS[c]);
            }
        }
    }
}

/* ---- a batch ---- */

enum { N_SCORED = 100, N_MATE = 60, N_CHUNK = 48 };

struct batch {
    struct runner runner;
    struct runner_sequence scored, mate, decoding;
    uint32_t ids[3][PROMPT_MAX];
    float *logits; /* [3][vocabulary] */
};

static void open_batch(struct batch *batch)
{
    runner_open(&batch->runner, DEMO_MODEL,
                (struct runner_options){.tokens_max = 512, .n_blocks = 64, .n_threads = 2});
    batch->logits = calloc((size_t)3 * batch->runner.vocabulary, sizeof *batch->logits);
    for (uint32_t i = 0; i < 3; i++)
        random_ids(batch->ids[i], N_SCORED - i, batch->runner.vocabulary);
    runner_begin(&batch->runner, &batch->scored, N_SCORED);
    runner_begin(&batch->runner, &batch->mate, N_MATE);
    runner_begin(&batch->runner, &batch->decoding, N_CHUNK + 2);
    batch->scored.prompt_len = N_SCORED;
    batch->mate.prompt_len = N_MATE;
    runner_prefill(&batch->runner, &batch->decoding, batch->ids[2], N_CHUNK, 0, batch->logits);
}

static void close_batch(struct batch *batch)
{
    runner_end(&batch->runner, &batch->scored);
    runner_end(&batch->runner, &batch->mate);
    runner_end(&batch->runner, &batch->decoding);
    free(batch->logits);
    runner_close(&batch->runner);
}

/* The mate's whole prompt, a chunk of the scored one, and a token of one that decodes, in one step. */
static void step_batch(struct batch *batch, bool keeps_rows)
{
    struct forward_sequence sequences[3] = {
        runner_next(&batch->mate, batch->ids[1], N_MATE, true),
        runner_next(&batch->scored, batch->ids[0] + batch->scored.n_past, N_CHUNK, false),
        runner_next(&batch->decoding, batch->ids[2] + N_CHUNK, 1, true),
    };
    sequences[1].keeps_rows = keeps_rows;
    cr_assert_eq(forward_run(batch->runner.forward, sequences, 3, 2, batch->logits), STATUS_OK);
}

Test(scorer, leaves_the_bits_of_others_as_they_are)
{
    struct batch plain, kept;
    open_batch(&plain);
    open_batch(&kept);
    step_batch(&plain, false);
    step_batch(&kept, true);
    cr_assert_arr_eq(plain.logits, kept.logits,
                     (size_t)2 * plain.runner.vocabulary * sizeof *plain.logits);
    close_batch(&plain);
    close_batch(&kept);
}

Test(scorer, has_the_same_bits_in_company)
{
    static struct token_logprobs alone[N_SCORED], scores[N_SCORED];
    struct batch batch;
    open_batch(&batch);
    struct scorer *scorer = new_scorer(&batch.runner);
    score_prompt(&batch.runner, scorer, batch.ids[0], N_SCORED, 0, alone);
    step_batch(&batch, true);
    const struct scored_chunk chunk = {.first_row = N_MATE,
                                       .n_query = N_CHUNK,
                                       .tokens = batch.ids[0],
                                       .n_prompt = N_SCORED,
                                       .n_top = N_TOP};
    memset(scores, 0, sizeof scores);
    cr_assert_eq(take(scorer, &chunk, 0, scores), N_CHUNK + 1);
    cr_assert_arr_eq(scores, alone, (N_CHUNK + 1) * sizeof *scores);
    scorer_destroy(scorer);
    close_batch(&batch);
}

Test(scorer, rows_are_those_of_wanted_tokens)
{
    enum { N = 20 };
    struct batch batch;
    open_batch(&batch);
    const uint32_t vocabulary = batch.runner.vocabulary;
    float *rows = calloc((size_t)N * vocabulary, sizeof *rows);
    struct forward_sequence next = runner_next(&batch.scored, batch.ids[0], N, false);
    batch.scored.prompt_len = next.prompt_len = N;
    next.keeps_rows = true;
    cr_assert_eq(forward_run(batch.runner.forward, &next, 1, 1, batch.logits), STATUS_OK);
    for (uint32_t at = 0; at < N; at += 4)
        cr_assert_eq(forward_rows(batch.runner.forward, at, 4, rows + (size_t)at * vocabulary),
                     STATUS_OK);
    for (uint32_t n = 1; n <= N; n++) {
        struct runner_sequence single;
        runner_begin(&batch.runner, &single, n);
        runner_prefill(&batch.runner, &single, batch.ids[0], n, 0, batch.logits);
        cr_assert_arr_eq(batch.logits, rows + (size_t)(n - 1) * vocabulary,
                         vocabulary * sizeof *rows, "row %u", n - 1);
        runner_end(&batch.runner, &single);
    }
    free(rows);
    close_batch(&batch);
}

/* ---- what can fail ---- */

Test(scorer, names_the_row_whose_logits_are_not_finite)
{
    enum { N = 40, AT = 23 };
    uint32_t ids[N];
    float *logits;
    struct overflow overflow;
    struct runner runner;
    struct runner_sequence sequence;
    struct prompt_scores scores;
    struct draw fault = {0};
    runner_open(&runner, DEMO_MODEL, (struct runner_options){.tokens_max = N});
    for (uint32_t i = 0; i < N; i++)
        ids[i] = i == AT ? 7 : 100 + i;
    overflow_plant(runner.model, 7, &overflow);
    struct scorer *scorer = new_scorer(&runner);
    logits = calloc(runner.vocabulary, sizeof *logits);
    runner_begin(&runner, &sequence, N);
    sequence.prompt_len = N;
    struct forward_sequence next = runner_next(&sequence, ids, N, false);
    next.keeps_rows = true;
    cr_assert_eq(forward_run(runner.forward, &next, 1, 1, logits), STATUS_OK);
    const struct scored_chunk chunk = {.n_query = N, .tokens = ids, .n_prompt = N, .n_top = N_TOP};
    cr_assert_eq(scorer_run(scorer, &chunk, 0, &scores, &fault), STATUS_LOGITS_NOT_FINITE);
    cr_assert_eq(fault.status, STATUS_LOGITS_NOT_FINITE);
    cr_assert_eq(fault.n_tokens, AT + 1, "the row of the token that overflows, not %u",
                 fault.n_tokens);
    cr_assert(!isfinite(fault.logit));
    runner_end(&runner, &sequence);
    free(logits);
    scorer_destroy(scorer);
    runner_close(&runner);
    overflow_finish(&overflow);
}

Test(scorer, has_the_hosts_bits_on_a_device_that_stages)
{
    enum { N = 40 };
    static struct token_logprobs expected[N], scores[N];
    struct runner_options options = {.cache_dtype = CACHE_BF16};
    score_with(DEMO_MODEL, options, 0, N, expected);
    for (uint64_t seed = 0; seed < 4; seed++) {
        options.device = fault_device_open(
            &(struct fault_options){.seed = seed, .steps_max = 2, .computes_at_once = true});
        score_with(DEMO_MODEL, options, (uint32_t)seed, N, scores);
        cr_assert_arr_eq(scores, expected, sizeof scores);
        device_close(options.device);
    }
}
