/* beam_search: the replies and scores of Transformers' beam search, by a model that is a table; ties; rules that leave few tokens. */
#include "kernels/kernels.h"
#include "model/sampling/beam_search.h"
#include "model/sampling/sampler.h"
#include "tests/model/support/golden.h"
#include "tests/runner/one_thread.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FOLDER     KVFERRY_SOURCE_DIR "/tests/golden/beams"
#define TOKENS_MAX 64u
#define STRIDE     11u /* make.py */

TestSuite(beam_search, .description = ONE_THREAD);

struct play {
    struct sampler *sampler;
    const float *table; /* [vocabulary][vocabulary] */
    uint32_t vocabulary;
    struct sampling_params sampling;
    uint32_t prompt[8], n_prompt;
    uint32_t tokens[BEAMS_MAX][TOKENS_MAX]; /* of the running beams, behind the prompt */
    struct ranked_row rows[BEAMS_MAX];
};

static void rank(struct play *play, const struct beam_search *search, uint32_t i)
{
    const uint32_t n_tokens = play->n_prompt + beam_search_n_tokens(search);
    uint32_t tokens[TOKENS_MAX + 8];
    memcpy(tokens, play->prompt, play->n_prompt * sizeof *tokens);
    memcpy(tokens + play->n_prompt, play->tokens[i], (n_tokens - play->n_prompt) * sizeof *tokens);
    const uint32_t row = (tokens[n_tokens - 1] + STRIDE * n_tokens) % play->vocabulary;
    const struct draw draw = {.params = &play->sampling,
                              .tokens = tokens,
                              .n_prompt = play->n_prompt,
                              .n_tokens = n_tokens};
    (void)sampler_rank_row(play->sampler, &draw, play->table + (size_t)row * play->vocabulary,
                           beam_search_n_ranked(search), &play->rows[i]);
}

static void run(struct play *play, struct beam_search *search)
{
    while (!beam_search_is_over(search)) {
        const struct ranked_row *rows[BEAMS_MAX];
        uint32_t before[BEAMS_MAX][TOKENS_MAX];
        const uint32_t n_tokens = beam_search_n_tokens(search);
        for (uint32_t i = 0; i < beam_search_n_running(search); i++) {
            rank(play, search, i);
            rows[i] = &play->rows[i];
        }
        memcpy(before, play->tokens, sizeof before);
        beam_search_step(search, rows);
        const struct beam *running = beam_search_running(search);
        for (uint32_t i = 0; i < beam_search_n_running(search); i++) {
            cr_assert_lt(running[i].parent, BEAMS_MAX);
            memcpy(play->tokens[i], before[running[i].parent], n_tokens * sizeof(uint32_t));
            play->tokens[i][n_tokens] = running[i].token_id;
        }
    }
}

/* ---- goldens ---- */

static struct beam_params params_of(const json_t *entry)
{
    const json_t *early = json_object_get(entry, "early_stopping");
    return (struct beam_params){
        .n_beams = (uint32_t)json_integer_value(json_object_get(entry, "n_beams")),
        .length_penalty = (float)json_number_value(json_object_get(entry, "length_penalty")),
        .early_stopping = json_is_string(early) ? EARLY_STOPPING_NEVER
                          : json_is_true(early) ? EARLY_STOPPING_TRUE
                                                : EARLY_STOPPING_FALSE};
}

static void compare(const struct beam_search *search, const json_t *replies, size_t at)
{
    cr_assert_eq(beam_search_n_results(search), json_array_size(replies), "case %zu", at);
    for (uint32_t i = 0; i < beam_search_n_results(search); i++) {
        const json_t *reply = json_array_get(replies, i);
        const struct beam_result result = beam_search_result(search, i);
        uint32_t n, tokens[TOKENS_MAX];
        uint32_t *wanted = golden_ids(json_array_get(reply, 1), &n);
        beam_search_tokens(search, i, tokens);
        cr_assert_eq(result.n_tokens, n, "case %zu, reply %u: %u tokens, wanted %u", at, i,
                     result.n_tokens, n);
        cr_assert_arr_eq(tokens, wanted, n * sizeof *wanted, "case %zu, reply %u", at, i);
        const double score = json_number_value(json_array_get(reply, 0));
        cr_assert_float_eq(result.score, score, 2e-6 * (10 + fabs(score)),
                           "case %zu, reply %u: %g, wanted %g", at, i, (double)result.score, score);
        free(wanted);
    }
}

static void play_case(struct play *play, const json_t *entry, const float *tables, size_t at)
{
    static const uint32_t ENDS[] = {0, 1, 2, 3};
    uint32_t *prompt = golden_ids(json_object_get(entry, "prompt"), &play->n_prompt);
    struct beam_search *search;
    memcpy(play->prompt, prompt, play->n_prompt * sizeof *prompt);
    free(prompt);
    play->table = tables + (size_t)json_integer_value(json_object_get(entry, "table")) *
                               play->vocabulary * play->vocabulary;
    const uint32_t n_ends = (uint32_t)json_integer_value(json_object_get(entry, "ends"));
    play->sampling = SAMPLING_GREEDY;
    play->sampling.max_tokens = (uint32_t)json_integer_value(json_object_get(entry, "max_tokens"));
    play->sampling.min_tokens = (uint32_t)json_integer_value(json_object_get(entry, "min_tokens"));
    play->sampling.no_repeat_ngram_size = (uint32_t)json_integer_value(
        json_object_get(entry, "no_repeat_ngram_size"));
    play->sampling.repetition_penalty = (float)json_number_value(
        json_object_get(entry, "repetition_penalty"));
    sampler_set_ends(play->sampler, ENDS, n_ends);
    const struct beam_search_options options = {.params = params_of(entry),
                                                .max_tokens = play->sampling.max_tokens,
                                                .end_ids = ENDS,
                                                .n_ends = n_ends};
    cr_assert_eq(beam_search_create(&options, &search), STATUS_OK);
    for (int again = 0; again < 2; again++) {
        run(play, search);
        compare(search, json_object_get(entry, "replies"), at);
        beam_search_restart(search);
    }
    beam_search_destroy(search);
}

static struct sampler *new_sampler(uint32_t vocabulary)
{
    struct sampler *sampler;
    const struct kernels *kernels;
    cr_assert_eq(kernels_select(NULL, &kernels, NULL), STATUS_OK);
    cr_assert_eq(sampler_create(vocabulary, kernels, &sampler), STATUS_OK);
    return sampler;
}

Test(beam_search, finds_the_replies_of_transformers)
{
    json_t *golden = golden_json(FOLDER, "beams.json");
    const uint32_t n = (uint32_t)json_integer_value(json_object_get(golden, "vocabulary"));
    const size_t n_tables = (size_t)json_integer_value(json_object_get(golden, "tables"));
    const json_t *cases = json_object_get(golden, "cases"), *entry;
    float *tables = golden_floats(FOLDER, "beams.f32", n_tables * n * n);
    struct play play = {.sampler = new_sampler(n), .vocabulary = n};
    size_t at;
    json_array_foreach((json_t *)cases, at, entry)
    {
        play_case(&play, entry, tables, at);
    }
    cr_assert_gt(at, 700);
    sampler_destroy(play.sampler);
    free(tables);
    json_decref(golden);
}

/* ---- rows by hand ---- */

static struct beam_search *new_search(uint32_t n_beams, uint32_t max_tokens, uint32_t end_id)
{
    struct beam_search *search;
    const struct beam_search_options options = {.params = {.n_beams = n_beams, .length_penalty = 1},
                                                .max_tokens = max_tokens,
                                                .end_ids = &end_id,
                                                .n_ends = 1};
    cr_assert_eq(beam_search_create(&options, &search), STATUS_OK);
    return search;
}

Test(beam_search, of_equal_scores_takes_the_earlier_beam_and_the_lower_token)
{
    const struct ranked_row row = {.n = 4, .ids = {2, 5, 7, 9}, .logprobs = {-1, -1, -1, -1}};
    const struct ranked_row *const rows[] = {&row, &row};
    struct beam_search *search = new_search(2, 3, 0);
    beam_search_step(search, rows);
    cr_assert_eq(beam_search_running(search)[0].token_id, 2);
    cr_assert_eq(beam_search_running(search)[1].token_id, 5);
    beam_search_step(search, rows);
    for (uint32_t i = 0; i < 2; i++) {
        cr_assert_eq(beam_search_running(search)[i].parent, 0);
        cr_assert_eq(beam_search_running(search)[i].token_id, i == 0 ? 2 : 5);
    }
    beam_search_destroy(search);
}

Test(beam_search, runs_on_with_fewer_beams_where_rules_leave_few_tokens)
{
    const struct ranked_row one = {.n = 1, .ids = {3}, .logprobs = {-0.5F}};
    const struct ranked_row end = {.n = 1, .ids = {0}, .logprobs = {-0.25F}};
    const struct ranked_row *const rows[] = {&one}, *const ends[] = {&end};
    struct beam_search *search = new_search(4, 9, 0);
    uint32_t tokens[9];
    beam_search_step(search, rows);
    cr_assert_eq(beam_search_n_running(search), 1);
    cr_assert(!beam_search_is_over(search));
    beam_search_step(search, ends);
    cr_assert(beam_search_is_over(search), "nothing runs");
    cr_assert_eq(beam_search_n_results(search), 1);
    beam_search_tokens(search, 0, tokens);
    cr_assert(tokens[0] == 3 && tokens[1] == 0);
    cr_assert_float_eq(beam_search_result(search, 0).score, -0.375F, 1e-7);
    cr_assert(beam_search_result(search, 0).is_end);
    beam_search_destroy(search);
}
