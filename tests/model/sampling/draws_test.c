/* draws and what a device found: a row's candidates and sums give the token and the log-probabilities of the row itself, bit for
 * bit, for any settings, and where they do not reach, the row goes on behind them. */
#include "base/random.h"
#include "kernels/cuda/sampling_parameters.h"
#include "kernels/kernels.h"
#include "model/sampling/candidates.h"
#include "model/sampling/draws.h"
#include "tests/device/fault_device.h"
#include "tests/model/support/runner.h"
#include "tests/model/support/settings.h"
#include "tests/runner/one_thread.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

TestSuite(draws, .description = ONE_THREAD);

enum { ROW_MAX = 3000, N_TOKENS = 60, N_ROWS = 3000 };

static const struct kernels *host_kernels(void)
{
    const struct kernels *kernels;
    cr_assert_eq(kernels_select(NULL, &kernels, NULL), STATUS_OK);
    return kernels;
}

/* ---- as a device would hand it back, with the host's sums ---- */

static const float *ranked; /* of by_rank */

static int by_rank(const void *a, const void *b)
{
    const uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    if (isnan(ranked[i]) != isnan(ranked[j]))
        return isnan(ranked[i]) ? 1 : -1;
    if (ranked[i] != ranked[j] && !isnan(ranked[i]))
        return ranked[i] > ranked[j] ? -1 : 1;
    return i < j ? -1 : 1;
}

static uint32_t *ranks_of(const float *logits, uint32_t n)
{
    static uint32_t ids[ROW_MAX];
    for (uint32_t i = 0; i < n; i++)
        ids[i] = i;
    ranked = logits;
    qsort(ids, n, sizeof *ids, by_rank);
    return ids;
}

static void penalise(float *logits, const struct sampling_penalty *list, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        float *logit = &logits[list[i].id];
        *logit = *logit > 0 ? *logit / list[i].factor : *logit * list[i].factor;
        *logit -= list[i].subtract;
    }
}

static void find(const float *raw, uint32_t n, const struct draw *draw, struct sampler *sampler,
                 struct sampling_result *found)
{
    static float logits[ROW_MAX];
    const struct sampling_penalty *list;
    const uint32_t n_listed = sampler_list_penalties(sampler, draw, &list);
    memcpy(logits, raw, n * sizeof *logits);
    penalise(logits, list, n_listed);
    const uint32_t *ids = ranks_of(logits, n);
    *found = (struct sampling_result){.log_sum_exp = host_kernels()->log_sum_exp(raw, n),
                                      .largest = logits[ids[0]],
                                      .n = n < SAMPLING_BEST ? n : SAMPLING_BEST};
    const struct logit_row row = {logits, n, found->largest, draw->params->temperature};
    if (row.temperature > 0 && isfinite(row.largest))
        found->sum = (float)logit_row_sum(&row, host_kernels());
    for (uint32_t i = 0; i < found->n; i++) {
        found->ids[i] = ids[i];
        found->logits[i] = logits[ids[i]];
        found->raw[i] = raw[ids[i]];
    }
    ids = ranks_of(raw, n);
    found->n_top = n < draw->params->n_logprobs ? n : draw->params->n_logprobs;
    for (uint32_t i = 0; i < found->n_top; i++) {
        found->top_ids[i] = ids[i];
        found->top_logits[i] = raw[ids[i]];
    }
}

/* ---- rows ---- */

static void fill_row(struct random *random, float *logits, uint32_t n)
{
    static const float SCALES[] = {0.01f, 0.5f, 2, 8};
    const float scale = SCALES[random_below(random, 4)];
    const bool has_equals = random_below(random, 3) == 0, is_odd = random_below(random, 4) == 0;
    for (uint32_t i = 0; i < n; i++) {
        logits[i] = scale *
                    (float)(random_unit(random) + random_unit(random) + random_unit(random) - 1.5);
        if (has_equals)
            logits[i] = roundf(logits[i] * 4) / 4;
        if (is_odd && random_below(random, 9) == 0)
            logits[i] = random_below(random, 2) ? NAN : -INFINITY;
    }
    if (random_below(random, 60) == 0)
        logits[random_below(random, n)] = INFINITY;
    if (random_below(random, 100) == 0)
        for (uint32_t i = 0; i < n; i++)
            logits[i] = NAN;
}

static bool same_floats(const float *a, const float *b, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0 && !(isnan(a[i]) && isnan(b[i])))
            return false;
    return true;
}

static void expect_equal(const struct draw *draw, uint32_t token,
                         const struct token_logprobs *logprobs, const char *what, uint32_t at)
{
    cr_assert_eq(draw->token_id, token, "%s, row %u: %u, not %u", what, at, draw->token_id, token);
    if (draw->params->n_logprobs == 0)
        return;
    cr_assert_eq(draw->logprobs->n_top, logprobs->n_top, "%s, row %u", what, at);
    cr_assert_arr_eq(draw->logprobs->top_ids, logprobs->top_ids,
                     logprobs->n_top * sizeof(uint32_t));
    cr_assert(same_floats(draw->logprobs->top_logprobs, logprobs->top_logprobs, logprobs->n_top) &&
                  same_floats(&draw->logprobs->logprob, &logprobs->logprob, 1),
              "%s, row %u: log-probabilities", what, at);
}

Test(draws, what_was_found_gives_the_token_and_the_bits_of_the_row)
{
    static const uint32_t VOCABULARIES[] = {1, 7, 255, 256, 257, 600, ROW_MAX};
    static float logits[ROW_MAX];
    uint32_t tokens[N_TOKENS], n_behind = 0, n_found = 0;
    struct sampling_result found;
    struct random random;
    random_init(&random, 12);
    for (uint32_t v = 0; v < 7; v++) {
        const uint32_t vocabulary = VOCABULARIES[v];
        struct sampler *sampler;
        cr_assert_eq(sampler_create(vocabulary, host_kernels(), &sampler), STATUS_OK);
        for (uint32_t i = 0; i < N_ROWS / 7; i++) {
            struct sampling_params params = settings_random(&random, vocabulary);
            const uint32_t n_tokens = (uint32_t)random_below(&random, N_TOKENS + 1);
            fill_row(&random, logits, vocabulary);
            for (uint32_t t = 0; t < n_tokens; t++)
                tokens[t] = (uint32_t)random_below(&random, vocabulary < 40 ? vocabulary : 40);
            struct token_logprobs logprobs, of_draw;
            struct draw draw = {.params = &params,
                                .logprobs = &of_draw,
                                .tokens = tokens,
                                .n_prompt = n_tokens / 2,
                                .n_tokens = n_tokens};
            uint32_t token = sampler_draw(sampler, &params, logits, tokens, n_tokens / 2, n_tokens,
                                          &logprobs);
            if (token == SAMPLER_NO_TOKEN) /* the row says so: it has no largest logit */
                continue;
            find(logits, vocabulary, &draw, sampler, &found);
            if (sampler_draw_found(sampler, &draw, &found)) {
                expect_equal(&draw, token, &logprobs, "found", i);
                n_found++;
            } else {
                n_behind++;
            }
            sampler_draw_behind(sampler, &draw, &found, logits);
            expect_equal(&draw, token, &logprobs, "behind", i);
        }
        sampler_destroy(sampler);
    }
    cr_assert_gt(n_found, N_ROWS / 2, "%u", n_found);
    cr_assert_gt(n_behind, N_ROWS / 20, "%u", n_behind);
}

/* ---- penalties ---- */

Test(draws, a_penalty_is_listed_once_for_each_token_it_changes)
{
    static const uint32_t TOKENS[] = {5, 3, 5, 9, 3, 7, 3}; /* the first four are the prompt */
    struct sampling_params params = SAMPLING_GREEDY;
    const struct draw draw = {.params = &params, .tokens = TOKENS, .n_prompt = 4, .n_tokens = 7};
    const struct sampling_penalty *list;
    struct sampler *sampler;
    cr_assert_eq(sampler_create(10, host_kernels(), &sampler), STATUS_OK);
    cr_expect_eq(sampler_list_penalties(sampler, &draw, &list), 0);
    params.frequency_penalty = 0.5f;
    params.presence_penalty = 1;
    for (uint32_t round = 0; round < 2; round++) { /* nothing of the first is left */
        cr_assert_eq(sampler_list_penalties(sampler, &draw, &list), 2);
        cr_expect(list[0].id == 3 && list[0].factor == 1 && list[0].subtract == 2);
        cr_expect(list[1].id == 7 && list[1].factor == 1 && list[1].subtract == 1.5f);
    }
    params.repetition_penalty = 1.5f;
    cr_assert_eq(sampler_list_penalties(sampler, &draw, &list), 4);
    for (uint32_t i = 0; i < 4; i++) {
        static const float SUBTRACTS[10] = {[3] = 2, [7] = 1.5f};
        cr_expect(list[i].factor == 1.5f && list[i].subtract == SUBTRACTS[list[i].id]);
    }
    sampler_destroy(sampler);
}

/* ---- steps ---- */

enum { STEPS = 4, PROMPT = 20 };

/* A prompt in chunks of 16 beside one that is decoded; returns how much was drawn of both: [2 * STEPS]. */
static uint32_t run_steps(struct runner *runner, struct token_logprobs *logprobs,
                          struct draw *drawn_out)
{
    static struct sampling_params params[STEPS];
    struct runner_sequence prompt, decoded;
    uint32_t ids[PROMPT + STEPS], n_drawn = 0;
    struct draws *draws;
    struct random random;
    random_init(&random, 8);
    cr_assert_eq(draws_create(runner->forward, model_host_kernels(runner->model), &draws),
                 STATUS_OK);
    for (uint32_t i = 0; i < PROMPT + STEPS; i++)
        ids[i] = (i * 131 + 7) % runner->vocabulary;
    runner_begin(runner, &prompt, PROMPT);
    runner_begin(runner, &decoded, PROMPT);
    prompt.prompt_len = PROMPT;
    decoded.prompt_len = 1;
    for (uint32_t i = 0; i < STEPS; i++) {
        const bool has_chunk = i < 2;
        struct forward_sequence batch[2];
        struct draw *wanted = drawn_out + n_drawn;
        params[i] = settings_random(&random, runner->vocabulary);
        uint32_t n = 0, n_wanted = 0;
        if (has_chunk) {
            batch[n++] = runner_next(&prompt, ids + 16 * i, i == 0 ? 16 : PROMPT - 16, i == 1);
            if (i == 1)
                wanted[n_wanted++] = (struct draw){
                    .params = &params[i], .tokens = ids, .n_prompt = PROMPT, .n_tokens = PROMPT};
        }
        batch[n++] = runner_next(&decoded, ids + i, 1, true);
        wanted[n_wanted++] = (struct draw){
            .params = &params[i], .tokens = ids, .n_prompt = 1, .n_tokens = i + 1};
        for (uint32_t w = 0; w < n_wanted; w++)
            wanted[w].logprobs = &logprobs[n_drawn + w];
        cr_assert_eq(draws_run(draws, batch, n, has_chunk, wanted), STATUS_OK);
        n_drawn += n_wanted;
    }
    cr_expect_eq(draws_n_fetched(draws), 0, "none finds candidates");
    draws_destroy(draws);
    runner_end(runner, &prompt);
    runner_end(runner, &decoded);
    return n_drawn;
}

Test(draws, steps_have_the_tokens_of_the_host_on_a_device_whose_rows_are_fetched)
{
    struct draw host[2 * STEPS], fetched[2 * STEPS];
    struct token_logprobs logprobs[2][2 * STEPS];
    struct device *device = fault_device_open(
        &(struct fault_options){.seed = 3, .steps_max = 2, .computes_at_once = true});
    struct runner runners[2];
    runner_open(&runners[0], DEMO_MODEL, (struct runner_options){.tokens_max = 64});
    runner_open(&runners[1], DEMO_MODEL,
                (struct runner_options){.tokens_max = 64, .device = device});
    cr_expect_not(forward_finds(runners[0].forward));
    cr_expect_not(forward_finds(runners[1].forward));
    const uint32_t n = run_steps(&runners[0], logprobs[0], host);
    cr_assert_eq(n, STEPS + 1);
    cr_assert_eq(run_steps(&runners[1], logprobs[1], fetched), n);
    for (uint32_t i = 0; i < n; i++)
        expect_equal(&fetched[i], host[i].token_id, host[i].logprobs, "step", i);
    runner_close(&runners[1]);
    runner_close(&runners[0]);
    device_close(device);
}

/* ---- sentences ---- */

Test(draws, a_fault_is_said_as_its_status_is)
{
    const struct {
        enum status status;
        const char *mask_fault, *says;
    } CASES[] = {
        {STATUS_CONSTRAINT_UNMET, "too deep", "sampling.constraint, after 7 tokens: too deep"},
        {STATUS_LOGITS_NOT_FINITE, "too deep", "after 7 tokens the logit of token 3 is inf"},
        {STATUS_LOGITS_NOT_FINITE, NULL, "after 7 tokens the logit of token 3 is inf"},
        {STATUS_CONSTRAINT_UNMET, NULL,
         "sampling leaves no token to draw after 7 tokens: constraint"},
    };
    const uint32_t mask = 0;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const struct draw draw = {.n_tokens = 7,
                                  .token_id = 3,
                                  .logit = INFINITY,
                                  .mask = &mask,
                                  .mask_fault = CASES[i].mask_fault,
                                  .status = CASES[i].status};
        struct error error = {0};
        draw_say_fault(&draw, &error);
        cr_expect_not_null(strstr(error.text, CASES[i].says), "%s", error.text);
    }
}
