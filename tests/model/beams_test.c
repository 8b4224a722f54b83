/* Beam searches with models: the replies and scores of Transformers for five families and two with an encoder. Each beam is computed
 * whole in each step; tests/sim shows that workers have the same bits. */
#include "kernels/kernels.h"
#include "model/model.h"
#include "model/sampling/beam_search.h"
#include "model/sampling/forced_tokens.h"
#include "model/sampling/sampler.h"
#include "tests/model/support/golden.h"
#include "tests/model/support/runner.h"
#include "tests/runner/one_thread.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS_MAX = 64, IDS_MAX = 1024 };

TestSuite(beams, .description = ONE_THREAD);

struct play {
    struct runner *runner;
    struct sampler *sampler;
    const struct model_config *config;
    bool has_text;
    uint32_t *prompt, n_prompt;            /* with an encoder the text */
    uint32_t before[TOKENS_MAX], n_before; /* what a reply stands behind */
    struct sampling_params sampling;
    uint32_t tokens[BEAMS_MAX][TOKENS_MAX];
    struct ranked_row rows[BEAMS_MAX];
};

static void rank(struct play *play, const struct beam_search *search, uint32_t beam)
{
    uint32_t tokens[2 * TOKENS_MAX], mask[IDS_MAX / 32] = {0}, forced;
    float logits[IDS_MAX];
    struct runner_sequence sequence;
    const uint32_t n_reply = beam_search_n_tokens(search), n = play->n_before + n_reply;
    memcpy(tokens, play->before, play->n_before * sizeof *tokens);
    memcpy(tokens + play->n_before, play->tokens[beam], n_reply * sizeof *tokens);
    runner_begin(play->runner, &sequence, TOKENS_MAX);
    if (play->has_text)
        runner_encode(play->runner, &sequence, play->prompt, play->n_prompt);
    runner_prefill(play->runner, &sequence, tokens, n, 0, logits);
    runner_end(play->runner, &sequence);
    struct draw draw = {
        .params = &play->sampling, .tokens = tokens, .n_prompt = play->n_before, .n_tokens = n};
    if (forced_token_find(&play->config->encoder, n_reply, play->sampling.max_tokens, &forced)) {
        mask[forced / 32] = 1u << forced % 32;
        draw.mask = mask;
    }
    (void)sampler_rank_row(play->sampler, &draw, logits, beam_search_n_ranked(search),
                           &play->rows[beam]);
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
            memcpy(play->tokens[i], before[running[i].parent], n_tokens * sizeof(uint32_t));
            play->tokens[i][n_tokens] = running[i].token_id;
        }
    }
}

static void compare(const struct beam_search *search, const json_t *replies, const char *folder,
                    size_t at)
{
    cr_assert_eq(beam_search_n_results(search), json_array_size(replies), "%s, case %zu", folder,
                 at);
    for (uint32_t i = 0; i < beam_search_n_results(search); i++) {
        const json_t *reply = json_array_get(replies, i);
        const double score = json_number_value(json_array_get(reply, 0));
        const struct beam_result result = beam_search_result(search, i);
        uint32_t n, tokens[TOKENS_MAX];
        uint32_t *wanted = golden_ids(json_array_get(reply, 1), &n);
        beam_search_tokens(search, i, tokens);
        cr_assert_eq(result.n_tokens, n, "%s, case %zu, reply %u", folder, at, i);
        cr_assert_arr_eq(tokens, wanted, n * sizeof *wanted, "%s, case %zu, reply %u", folder, at,
                         i);
        cr_assert_float_eq(result.score, score, 1e-4 * (1 + fabs(score)),
                           "%s, case %zu, reply %u: %g, wanted %g", folder, at, i,
                           (double)result.score, score);
        free(wanted);
    }
}

static void play_case(struct play *play, const json_t *entry, const char *folder, size_t at)
{
    const json_t *early = json_object_get(entry, "early_stopping");
    struct beam_search *search;
    uint32_t n_ends, *ends = golden_ids(json_object_get(entry, "ends"), &n_ends);
    play->prompt = golden_ids(json_object_get(entry, "prompt"), &play->n_prompt);
    cr_assert_leq(play->n_prompt, TOKENS_MAX / 2);
    play->n_before = play->has_text ? 1 : play->n_prompt;
    memcpy(play->before, play->has_text ? &play->config->encoder.start_id : play->prompt,
           play->n_before * sizeof *play->before);
    play->sampling = SAMPLING_GREEDY;
    play->sampling.max_tokens = (uint32_t)json_integer_value(json_object_get(entry, "max_tokens"));
    const struct beam_search_options options = {
        .params = {.n_beams = (uint32_t)json_integer_value(json_object_get(entry, "n_beams")),
                   .length_penalty = (float)json_number_value(
                       json_object_get(entry, "length_penalty")),
                   .early_stopping = json_is_string(early) ? EARLY_STOPPING_NEVER
                                     : json_is_true(early) ? EARLY_STOPPING_TRUE
                                                           : EARLY_STOPPING_FALSE},
        .max_tokens = play->sampling.max_tokens,
        .end_ids = ends,
        .n_ends = n_ends};
    cr_assert_eq(beam_search_create(&options, &search), STATUS_OK);
    run(play, search);
    compare(search, json_object_get(entry, "replies"), folder, at);
    beam_search_destroy(search);
    free(play->prompt);
    free(ends);
}

static size_t play_model(const json_t *golden)
{
    char path[512];
    struct runner runner;
    const struct kernels *kernels;
    const char *folder = json_string_value(json_object_get(golden, "folder"));
    const json_t *cases = json_object_get(golden, "cases"), *entry;
    size_t at;
    snprintf(path, sizeof path, "%s/tests/golden/%s", KVFERRY_SOURCE_DIR, folder);
    runner_open(&runner, path, (struct runner_options){0});
    cr_assert_leq(runner.vocabulary, IDS_MAX);
    struct play play = {.runner = &runner,
                        .config = model_get_config(runner.model),
                        .has_text = json_is_true(json_object_get(golden, "has_text"))};
    cr_assert_eq(kernels_select(NULL, &kernels, NULL), STATUS_OK);
    cr_assert_eq(sampler_create(runner.vocabulary, kernels, &play.sampler), STATUS_OK);
    json_array_foreach((json_t *)cases, at, entry)
    {
        play_case(&play, entry, folder, at);
    }
    sampler_destroy(play.sampler);
    runner_close(&runner);
    return at;
}

Test(beams, models_have_the_replies_of_transformers)
{
    json_t *golden = golden_json(KVFERRY_SOURCE_DIR "/tests/golden/beams", "models.json");
    const json_t *model;
    size_t i, n_cases = 0;
    json_array_foreach(golden, i, model)
    {
        const size_t n = play_model(model);
        cr_assert_geq(n, 2, "model %zu", i);
        n_cases += n;
    }
    cr_assert(i == 7 && n_cases >= 60, "%zu models, %zu cases", i, n_cases);
    json_decref(golden);
}
