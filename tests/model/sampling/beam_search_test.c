/* beam_search: the replies and scores of Transformers' beam search, by a model that is a table, also with stop strings; ties; rules that
 * leave few tokens. */
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
    const json_t *texts; /* of each token, in hexadecimal; NULL: unknown */
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

static size_t text_of(const void *arg, uint32_t token_id, char text_out[BEAM_TOKEN_BYTES_MAX])
{
    const struct model *model = arg;
    const char *hex = json_string_value(json_array_get(model->texts, token_id));
    const size_t n = strlen(hex) / 2;
    for (size_t i = 0; i < n; i++)
        text_out[i] = (char)strtoul((const char[]){hex[2 * i], hex[2 * i + 1], '\0'}, NULL, 16);
    return n;
}

static struct stop_texts stops_of(const json_t *entry)
{
    const json_t *list = json_object_get(entry, "stops");
    struct stop_texts stops = {.n = (uint32_t)json_array_size(list)};
    for (uint32_t i = 0; i < stops.n; i++) {
        stops.texts[i] = json_string_value(json_array_get(list, i));
        stops.bytes[i] = (uint32_t)strlen(stops.texts[i]);
    }
    return stops;
}

static void play_case(struct model *model, const json_t *entry, const float *tables, size_t at)
{
    static const uint32_t ENDS[] = {0, 1, 2, 3};
    const struct stop_texts stops = stops_of(entry);
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
                                                .n_ends = n_ends,
                                                .stops = &stops};
    cr_assert_eq(beam_search_create(&options, &search), STATUS_OK);
    beam_search_set_texts(search, &(struct beam_texts){.text = text_of, .arg = model});
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

/* The cases of a file; returns how many. */
static size_t play_file(const char *name)
{
    enum { N_TABLES = 3, N = 80 };
    json_t *golden = golden_json(GOLDEN_BEAMS, name);
    const json_t *cases = json_object_get(golden, "cases"), *entry;
    float *tables = golden_floats(GOLDEN_BEAMS, "beams.f32", (size_t)N_TABLES * N * N);
    struct model model = {
        .sampler = new_sampler(N), .vocabulary = N, .texts = json_object_get(golden, "texts")};
    size_t at;
    json_array_foreach((json_t *)cases, at, entry)
    {
        play_case(&model, entry, tables, at);
    }
    sampler_destroy(model.sampler);
    free(tables);
    json_decref(golden);
    return at;
}

Test(beam_search, finds_the_replies_of_transformers)
{
    cr_assert_gt(play_file("beams.json"), 700);
}

Test(beam_search, with_stop_strings_finds_the_replies_of_transformers)
{
    cr_assert_gt(play_file("stops.json"), 100);
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

/* ---- stop strings ---- */

/* A token's text is the character of that number. */
static size_t character_of(const void *arg, uint32_t token_id, char text_out[BEAM_TOKEN_BYTES_MAX])
{
    text_out[0] = ((const char *)arg)[token_id];
    return 1;
}

static struct beam_search *new_stopped(uint32_t min_tokens)
{
    static const char alphabet[] = "-ABCD";
    static const struct stop_texts stops = {.n = 2, .bytes = {2, 1}, .texts = {"AB", "D"}};
    struct beam_search *search;
    const struct beam_search_options options = {.params = {.n_beams = 2, .length_penalty = 0},
                                                .max_tokens = 4,
                                                .stops = &stops,
                                                .min_tokens = min_tokens};
    cr_assert_eq(beam_search_create(&options, &search), STATUS_OK);
    beam_search_set_texts(search, &(struct beam_texts){.text = character_of, .arg = alphabet});
    return search;
}

Test(beam_search, ends_a_beam_with_the_token_that_completes_a_stop_string)
{
    const struct ranked_row first = {.n = 2, .ids = {1, 3}, .logprobs = {-1, -2}};  /* A, C */
    const struct ranked_row second = {.n = 2, .ids = {2, 4}, .logprobs = {-1, -5}}; /* B, D */
    const struct ranked_row *const rows[] = {&first}, *const more[] = {&second, &second};
    struct beam_search *search = new_stopped(0);
    uint32_t tokens[4];
    for (int again = 0; again < 2; again++) {
        beam_search_step(search, rows);
        cr_assert_eq(beam_search_n_running(search), 2);
        beam_search_step(search, more);
        cr_assert_eq(beam_search_n_running(search), 1,
                     "CB; the others end, AD and CD behind the best two");
        cr_assert_eq(beam_search_n_results(search), 1);
        cr_assert(beam_search_result(search, 0).is_end);
        cr_assert_eq(beam_search_result(search, 0).stop, 0);
        cr_assert_eq(beam_search_result(search, 0).score, -2);
        beam_search_tokens(search, 0, tokens);
        cr_assert(tokens[0] == 1 && tokens[1] == 2);
        beam_search_restart(search);
    }
    beam_search_destroy(search);
}

/* What the router does with the text of other replies. */
Test(beam_search, looks_for_stop_strings_behind_the_first_min_tokens)
{
    const struct ranked_row a = {.n = 2, .ids = {1, 4}, .logprobs = {-1, -2}};
    const struct ranked_row b = {.n = 2, .ids = {2, 4}, .logprobs = {-1, -2}};
    const struct ranked_row *const rows[] = {&a, &a}, *const more[] = {&b, &b};
    struct beam_search *search = new_stopped(1);
    beam_search_step(search, rows); /* A, D */
    cr_assert_eq(beam_search_n_results(search), 0);
    beam_search_step(search, more); /* AB, AD, DB, DD */
    cr_assert_eq(beam_search_n_running(search), 2, "the A of AB was not looked at");
    cr_assert_eq(beam_search_running(search)[0].token_id, 2);
    cr_assert_eq(beam_search_n_results(search), 1);
    cr_assert_eq(beam_search_result(search, 0).stop, 1);
    cr_assert_eq(beam_search_result(search, 0).n_tokens, 2);
    beam_search_destroy(search);
}
