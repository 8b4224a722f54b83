/* Beam searches with models: the replies and scores of Transformers for five families and two with an encoder. Each beam is computed
 * whole in each step; tests/sim shows that workers have the same bits. */
#include "kernels/kernels.h"
#include "model/model.h"
#include "model/sampling/forced_tokens.h"
#include "model/sampling/sampler.h"
#include "tests/model/support/beam_golden.h"
#include "tests/model/support/beam_play.h"
#include "tests/model/support/golden.h"
#include "tests/model/support/runner.h"
#include "tests/runner/one_thread.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS_MAX = 64, IDS_MAX = 1024 };

TestSuite(beams, .description = ONE_THREAD);

struct request {
    struct runner *runner;
    struct sampler *sampler;
    const struct model_config *config;
    bool has_text;
    uint32_t *prompt, n_prompt;            /* with an encoder the text */
    uint32_t before[TOKENS_MAX], n_before; /* what a reply stands behind */
    struct sampling_params sampling;
};

static void rank(void *arg, const uint32_t *reply, uint32_t n_reply, uint32_t n_ranked,
                 struct ranked_row *row_out)
{
    const struct request *request = arg;
    uint32_t tokens[2 * TOKENS_MAX], mask[IDS_MAX / 32] = {0}, forced;
    float logits[IDS_MAX];
    struct runner_sequence sequence;
    const uint32_t n = request->n_before + n_reply;
    memcpy(tokens, request->before, request->n_before * sizeof *tokens);
    memcpy(tokens + request->n_before, reply, n_reply * sizeof *tokens);
    runner_begin(request->runner, &sequence, TOKENS_MAX);
    if (request->has_text)
        runner_encode(request->runner, &sequence, request->prompt, request->n_prompt);
    runner_prefill(request->runner, &sequence, tokens, n, 0, logits);
    runner_end(request->runner, &sequence);
    struct draw draw = {.params = &request->sampling,
                        .tokens = tokens,
                        .n_prompt = request->n_before,
                        .n_tokens = n};
    if (forced_token_find(&request->config->encoder, n_reply, request->sampling.max_tokens,
                          &forced)) {
        mask[forced / 32] = 1u << forced % 32;
        draw.mask = mask;
    }
    (void)sampler_rank_row(request->sampler, &draw, logits, n_ranked, row_out);
}

static void play_case(struct request *request, const json_t *entry, const char *folder, size_t at)
{
    struct beam_play play = {.rank = rank, .arg = request};
    struct beam_search *search;
    uint32_t n_ends, *ends = golden_ids(json_object_get(entry, "ends"), &n_ends);
    request->prompt = golden_ids(json_object_get(entry, "prompt"), &request->n_prompt);
    cr_assert_leq(request->n_prompt, TOKENS_MAX / 2);
    request->n_before = request->has_text ? 1 : request->n_prompt;
    memcpy(request->before,
           request->has_text ? &request->config->encoder.start_id : request->prompt,
           request->n_before * sizeof *request->before);
    request->sampling = SAMPLING_GREEDY;
    request->sampling.max_tokens = (uint32_t)json_integer_value(
        json_object_get(entry, "max_tokens"));
    const struct beam_search_options options = {.params = beam_golden_params(entry),
                                                .max_tokens = request->sampling.max_tokens,
                                                .end_ids = ends,
                                                .n_ends = n_ends};
    cr_assert_eq(beam_search_create(&options, &search), STATUS_OK);
    beam_play_run(&play, search);
    beam_golden_compare(search, entry, 1e-4, 1e-4, folder, at);
    beam_search_destroy(search);
    free(request->prompt);
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
    struct request request = {.runner = &runner,
                              .config = model_get_config(runner.model),
                              .has_text = json_is_true(json_object_get(golden, "has_text"))};
    cr_assert_eq(kernels_select(NULL, &kernels, NULL), STATUS_OK);
    cr_assert_eq(sampler_create(runner.vocabulary, kernels, &request.sampler), STATUS_OK);
    json_array_foreach((json_t *)cases, at, entry)
    {
        play_case(&request, entry, folder, at);
    }
    sampler_destroy(request.sampler);
    runner_close(&runner);
    return at;
}

Test(beams, models_have_the_replies_of_transformers)
{
    json_t *golden = golden_json(GOLDEN_BEAMS, "models.json");
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
