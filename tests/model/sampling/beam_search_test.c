/* beam_search: the replies and scores of Transformers' beam search, by a model that is a table; ties; rules that leave few tokens. */
#include "kernels/kernels.h"
#include "model/sampling/sampler.h"
#include "tests/model/support/beam_golden.h"
#include "tests/model/support/beam_play.h"
#include "tests/model/support/golden.h"
#include "tests/runner/one_thread.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define STRIDE 11u /* make.py */

TestSuite(beam_search, .description = ONE_THREAD);

struct model {
    struct sampler *sampler;
    const float *table; /* [vocabulary][vocabulary] */
    uint32_t vocabulary;
    struct sampling_params sampling;
    uint32_t prompt[8], n_prompt;
};

static void rank(void *arg, const uint32_t *reply, uint32_t n_reply, uint32_t n_ranked,
                 struct ranked_row *row_out)
{
    const struct model *model = arg;
    const uint32_t n_tokens = model->n_prompt + n_reply;
    uint32_t tokens[BEAM_PLAY_TOKENS_MAX + 8];
    memcpy(tokens, model->prompt, model->n_prompt * sizeof *tokens);
    memcpy(tokens + model->n_prompt, reply, n_reply * sizeof *tokens);
    const uint32_t row = (tokens[n_tokens - 1] + STRIDE * n_tokens) % model->vocabulary;
    const struct draw draw = {.params = &model->sampling,
                              .tokens = tokens,
                              .n_prompt = model->n_prompt,
                              .n_tokens = n_tokens};
    (void)sampler_rank_row(model->sampler, &draw, model->table + (size_t)row * model->vocabulary,
                           n_ranked, row_out);
}

/* ---- goldens ---- */

static void play_case(struct model *model, const json_t *entry, const float *tables, size_t at)
{
    static const uint32_t ENDS[] = {0, 1, 2, 3};
    uint32_t *prompt = golden_ids(json_object_get(entry, "prompt"), &model->n_prompt);
    struct beam_search *search;
    memcpy(model->prompt, prompt, model->n_prompt * sizeof *prompt);
    free(prompt);
    model->table = tables + (size_t)json_integer_value(json_object_get(entry, "table")) *
                                model->vocabulary * model->vocabulary;
    const uint32_t n_ends = (uint32_t)json_integer_value(json_object_get(entry, "ends"));
    model->sampling = SAMPLING_GREEDY;
    model->sampling.max_tokens = (uint32_t)json_integer_value(json_object_get(entry, "max_tokens"));
    model->sampling.min_tokens = (uint32_t)json_integer_value(json_object_get(entry, "min_tokens"));
    model->sampling.no_repeat_ngram_size = (uint32_t)json_integer_value(
        json_object_get(entry, "no_repeat_ngram_size"));
    model->sampling.repetition_penalty = (float)json_number_value(
        json_object_get(entry, "repetition_penalty"));
    sampler_set_ends(model->sampler, ENDS, n_ends);
    const struct beam_search_options options = {.params = beam_golden_params(entry),
                                                .max_tokens = model->sampling.max_tokens,
                                                .end_ids = ENDS,
                                                .n_ends = n_ends};
    cr_assert_eq(beam_search_create(&options, &search), STATUS_OK);
    struct beam_play play = {.rank = rank, .arg = model};
    for (int again = 0; again < 2; again++) {
        beam_play_run(&play, search);
        beam_golden_compare(search, entry, 2e-5, 2e-6, "a table", at);
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
    json_t *golden = golden_json(GOLDEN_BEAMS, "beams.json");
    const uint32_t n = (uint32_t)json_integer_value(json_object_get(golden, "vocabulary"));
    const size_t n_tables = (size_t)json_integer_value(json_object_get(golden, "tables"));
    const json_t *cases = json_object_get(golden, "cases"), *entry;
    float *tables = golden_floats(GOLDEN_BEAMS, "beams.f32", n_tables * n * n);
    struct model model = {.sampler = new_sampler(n), .vocabulary = n};
    size_t at;
    json_array_foreach((json_t *)cases, at, entry)
    {
        play_case(&model, entry, tables, at);
    }
    cr_assert_gt(at, 700);
    sampler_destroy(model.sampler);
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
