/* scorer on a device with kernels of its own: the log-probabilities of Transformers within what BF16 keeps, the same bits for any
 * chunks. */
#include "model/sampling/scorer.h"
#include "tests/model/support/golden.h"
#include "tests/simt/model/rig.h"
#include "tests/simt/model/rows.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_TOP = 3 };

static void score(struct rig *rig, struct scorer *scorer, const uint32_t *ids, uint32_t n,
                  uint32_t chunk_tokens, struct token_logprobs *out)
{
    struct runner_sequence sequence;
    uint32_t told = 0;
    runner_begin(&rig->runner, &sequence, n);
    sequence.prompt_len = n;
    memset(out, 0, n * sizeof *out);
    while (sequence.n_past < n) {
        const uint32_t n_left = n - sequence.n_past;
        struct scored_chunk chunk = {
            .n_past = sequence.n_past, .tokens = ids, .n_prompt = n, .n_top = N_TOP};
        struct draw fault;
        chunk.n_query = chunk_tokens < n_left ? chunk_tokens : n_left;
        struct forward_sequence next = runner_next(&sequence, ids + sequence.n_past, chunk.n_query,
                                                   chunk.n_query == n_left);
        next.keeps_rows = true;
        cr_assert_eq(forward_run(rig->runner.forward, &next, 1, 1, rig->logits), STATUS_OK);
        while (told < scored_chunk_end(&chunk)) {
            struct prompt_scores scores;
            cr_assert_eq(scorer_run(scorer, &chunk, told, &scores, &fault), STATUS_OK);
            memcpy(out + told, scores.logprobs, scores.n * sizeof *out);
            told += scores.n;
        }
    }
    cr_assert_eq(told, n);
    runner_end(&rig->runner, &sequence);
}

static double log_softmax(const float *row, uint32_t n, uint32_t token)
{
    const double largest = rows_largest(row, n);
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += exp((double)row[i] - largest);
    return (double)row[token] - largest - log(sum);
}

static void check_prompt(struct rig *rig, struct scorer *scorer, const uint32_t *ids, uint32_t n,
                         const float *rows, double *largest)
{
    static struct token_logprobs whole[TOKENS_MAX], chunks[TOKENS_MAX];
    const uint32_t vocabulary = rig->runner.vocabulary;
    score(rig, scorer, ids, n, TOKENS_MAX, whole);
    score(rig, scorer, ids, n, BLOCK_TOKENS, chunks);
    cr_assert_arr_eq(whole, chunks, n * sizeof *whole);
    for (uint32_t t = 1; t < n; t++) {
        const float *row = rows + (size_t)(t - 1) * vocabulary;
        const double error = fabs((double)whole[t].logprob - log_softmax(row, vocabulary, ids[t])) /
                             rows_largest(row, vocabulary);
        *largest = fmax(*largest, error);
        cr_assert_eq(whole[t].n_top, N_TOP);
    }
}

static void check_model(const char *name)
{
    struct rig rig;
    struct scorer *scorer;
    char folder[512];
    double largest = 0;
    size_t n_all = 0, at = 0, i;
    json_t *prompt;
    snprintf(folder, sizeof folder, "%s/%s", GOLDEN_MODELS, name);
    rig_open(&rig, name, (struct runner_options){.cache_dtype = CACHE_BF16},
             &(struct simt_options){0});
    cr_assert_eq(scorer_create(rig.runner.forward, model_host_kernels(rig.runner.model), &scorer),
                 STATUS_OK);
    json_t *golden = golden_json(folder, "golden.json"),
           *prompts = json_object_get(golden, "prompts");
    json_array_foreach(prompts, i, prompt) n_all += json_array_size(prompt);
    float *expected = golden_floats(folder, "golden.f32", n_all * rig.runner.vocabulary);
    json_array_foreach(prompts, i, prompt)
    {
        uint32_t n, *ids = golden_ids(prompt, &n);
        check_prompt(&rig, scorer, ids, n, expected + at * rig.runner.vocabulary, &largest);
        at += n;
        free(ids);
    }
    printf("%-22s largest error %.1e\n", name, largest);
    cr_assert(largest > 0 && largest <= 2 * ROWS_TINY_TOLERANCE, "%s: %g", name, largest);
    free(expected);
    json_decref(golden);
    scorer_destroy(scorer);
    rig_close(&rig);
}

Test(simt_scorer, has_the_log_probabilities_of_transformers_within_bf16)
{
    for (uint32_t i = 0; i < N_OF_BITS; i++)
        check_model(OF_BITS[i]);
}
