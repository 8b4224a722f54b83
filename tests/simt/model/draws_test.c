/* draws on a device that finds candidates: tokens and log-probabilities are those of the whole row, whatever was asked, in mixed
 * steps, in launched ones and in replays; rows stay where they are but for the few that are wanted. */
#include "kernels/cuda/sampling_parameters.h"
#include "model/forward/forward_parts.h"
#include "model/sampling/draws.h"
#include "tests/model/support/settings.h"
#include "tests/simt/model/rig.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 12, HISTORY = 30, N_BIASES = 12, N_ALLOWED = 20, MASK_WORDS = 64 };

/* A rig with sequences, and what their draws are asked for. */
struct drawing {
    struct rig rig;
    struct draws *draws;
    struct sampler *sampler; /* the host's, on whole rows */
    struct runner_sequence sequences[N_SEQUENCES];
    struct random random;
    struct sampling_params params[N_SEQUENCES];
    struct token_rules rules[N_SEQUENCES];
    uint32_t bias_ids[N_SEQUENCES][N_BIASES], allowed[N_SEQUENCES][N_ALLOWED];
    float biases[N_SEQUENCES][N_BIASES];
    uint32_t history[N_SEQUENCES][HISTORY];
    struct draw wanted[N_SEQUENCES];
    struct token_logprobs logprobs[N_SEQUENCES];
    uint32_t n_rows; /* drawn */
};

static const uint32_t ENDS[2] = {3, 5};

static void drawing_open(struct drawing *drawing, const char *model,
                         const struct simt_options *simt)
{
    *drawing = (struct drawing){.n_rows = 0};
    struct runner *runner = &drawing->rig.runner;
    rig_open(&drawing->rig, model,
             (struct runner_options){.cache_dtype = CACHE_BF16, .sequences_max = N_SEQUENCES},
             simt);
    const struct kernels *kernels = model_host_kernels(runner->model);
    cr_assert(forward_finds(runner->forward));
    cr_assert_eq(draws_create(runner->forward, kernels, &drawing->draws), STATUS_OK);
    cr_assert_eq(sampler_create(runner->vocabulary, kernels, &drawing->sampler), STATUS_OK);
    random_init(&drawing->random, 4);
    draws_set_ends(drawing->draws, ENDS, 2);
    sampler_set_ends(drawing->sampler, ENDS, 2);
    for (uint32_t s = 0; s < N_SEQUENCES; s++)
        for (uint32_t i = 0; i < HISTORY; i++)
            drawing->history[s][i] = token_of(&drawing->rig, s, i / 2);
    prefill_all(&drawing->rig, drawing->sequences);
}

static void drawing_close(struct drawing *drawing)
{
    end_all(&drawing->rig, drawing->sequences);
    draws_destroy(drawing->draws);
    sampler_destroy(drawing->sampler);
    rig_close(&drawing->rig);
}

/* Biases, sequences of the last tokens with another one, and, seldom, all that is allowed. */
static void add_rules(struct drawing *drawing, uint32_t s, uint32_t n_tokens)
{
    static const uint32_t LENGTHS[3] = {1, 2, 3};
    static uint32_t bad[N_SEQUENCES][6];
    struct random *random = &drawing->random;
    struct sampling_params *params = &drawing->params[s];
    struct token_rules *rules = &drawing->rules[s];
    const uint32_t vocabulary = drawing->rig.runner.vocabulary;
    const uint32_t *last = drawing->history[s] + n_tokens;
    *rules = (struct token_rules){.bias_ids = drawing->bias_ids[s],
                                  .biases = drawing->biases[s],
                                  .allowed_ids = drawing->allowed[s],
                                  .bad_lengths = LENGTHS,
                                  .bad_ids = bad[s]};
    params->rules = rules;
    params->min_tokens = (uint32_t)random_below(random, HISTORY);
    for (uint32_t i = 0; i < N_BIASES; i++) {
        drawing->bias_ids[s][rules->n_biases] = (uint32_t)random_below(random,
                                                                       vocabulary / N_BIASES) *
                                                    N_BIASES +
                                                i;
        drawing->biases[s][rules->n_biases++] = (float)random_below(random, 200) / 10 - 10;
    }
    for (uint32_t i = 0; i < N_ALLOWED; i++)
        drawing->allowed[s][i] = (uint32_t)random_below(random, vocabulary);
    rules->n_allowed = random_below(random, 10) == 0 ? N_ALLOWED : 0;
    for (uint32_t i = 0; i < 6; i++)
        bad[s][i] = (uint32_t)random_below(random, vocabulary);
    if (n_tokens < 4)
        return;
    rules->n_bad = 3;
    rules->n_bad_ids = 6;
    bad[s][1] = bad[s][4] = last[-1];
    bad[s][3] = last[-2];
}

/* Seldom: a few tokens, in words that are whole or nearly empty. */
static const uint32_t *mask_for(struct drawing *drawing, uint32_t s)
{
    static uint32_t masks[N_SEQUENCES][MASK_WORDS];
    struct random *random = &drawing->random;
    const uint32_t n_words = (drawing->rig.runner.vocabulary + 31) / 32;
    cr_assert_leq(n_words, MASK_WORDS);
    if (random_below(random, 8) > 0)
        return NULL;
    for (uint32_t i = 0; i < n_words; i++)
        masks[s][i] = random_below(random, 4) ? 0 : UINT32_MAX;
    masks[s][0] |= 2;
    drawing->rules[s].n_allowed = 0;
    return masks[s];
}

static void wish(struct drawing *drawing, uint32_t s)
{
    drawing->params[s] = settings_random(&drawing->random, drawing->rig.runner.vocabulary);
    const uint32_t n_tokens = (uint32_t)random_below(&drawing->random, HISTORY + 1);
    if (random_below(&drawing->random, 2))
        add_rules(drawing, s, n_tokens);
    drawing->wanted[s] = (struct draw){.params = &drawing->params[s],
                                       .tokens = drawing->history[s],
                                       .n_prompt = n_tokens / 2,
                                       .n_tokens = n_tokens,
                                       .mask = mask_for(drawing, s),
                                       .logprobs = &drawing->logprobs[s]};
}

/* The sums of device and host are rounded, each in its order. */
static void expect_near(const struct draw *draw, const struct token_logprobs *host)
{
    cr_expect_float_eq((double)draw->logprobs->logprob, (double)host->logprob, 2e-5);
    cr_assert_eq(draw->logprobs->n_top, host->n_top);
    for (uint32_t i = 0; i < host->n_top; i++) {
        cr_expect_eq(draw->logprobs->top_ids[i], host->top_ids[i]);
        cr_expect_float_eq((double)draw->logprobs->top_logprobs[i], (double)host->top_logprobs[i],
                           2e-5);
    }
}

/* Row number row of the last step was drawn from for wanted[row]. */
static void expect_row(struct drawing *drawing, uint32_t row)
{
    struct forward *forward = drawing->rig.runner.forward;
    const struct draw *draw = &drawing->wanted[row];
    const struct sampling_result *found = (const struct sampling_result *)forward->found.data + row;
    float *logits = drawing->rig.logits;
    struct token_logprobs host, of_behind;
    struct draw behind = *draw;
    behind.logprobs = &of_behind;
    cr_assert_eq(forward_fetch(forward, row, logits), STATUS_OK);
    struct draw of_host = *draw;
    of_host.logprobs = &host;
    uint32_t token = sampler_draw_row(drawing->sampler, &of_host, logits);
    cr_expect_eq(draw->token_id, token, "row %u: %u, not the host's %u", row, draw->token_id,
                 token);
    if (sampler_takes_row(draw)) /* nothing was found for it */
        behind.logprobs = draw->logprobs;
    else
        sampler_draw_behind(drawing->sampler, &behind, found, logits);
    cr_expect_eq(behind.token_id, draw->token_id, "row %u", row);
    if (draw->params->n_logprobs == 0 || sampler_takes_row(draw))
        return;
    expect_near(draw, &host);
    cr_expect_eq(memcmp(&of_behind.logprob, &draw->logprobs->logprob, sizeof(float)), 0);
    cr_expect_eq(memcmp(of_behind.top_logprobs, draw->logprobs->top_logprobs,
                        draw->logprobs->n_top * sizeof(float)),
                 0);
}

/* n sequences from first on, one token each, or, where is_mixed, a prompt of three tokens beside them. */
static void step(struct drawing *drawing, uint32_t first, uint32_t n, bool is_mixed)
{
    struct runner *runner = &drawing->rig.runner;
    struct forward_sequence batch[N_SEQUENCES];
    struct runner_sequence prompt;
    uint32_t ids[N_SEQUENCES], chunk[3] = {1, 2, 3};
    const uint32_t n_contexts = is_mixed;
    if (is_mixed) {
        runner_begin(runner, &prompt, 3);
        prompt.prompt_len = 3;
        batch[0] = runner_next(&prompt, chunk, 3, first % 2 == 0);
    }
    for (uint32_t i = n_contexts; i < n; i++) {
        struct runner_sequence *sequence = &drawing->sequences[(first + i) % N_SEQUENCES];
        ids[i] = token_of(&drawing->rig, i, sequence->n_past);
        batch[i] = runner_next(sequence, &ids[i], 1, true);
    }
    const uint32_t n_wanted = n - (is_mixed && first % 2);
    for (uint32_t i = 0; i < n_wanted; i++)
        wish(drawing, i);
    if (n_wanted > 0)
        cr_assert_eq(draws_run(drawing->draws, batch, n, n_contexts, drawing->wanted), STATUS_OK);
    for (uint32_t i = 0; i < n_wanted; i++)
        expect_row(drawing, i);
    drawing->n_rows += n_wanted;
    if (is_mixed)
        runner_end(runner, &prompt);
}

static void run_all(const char *model, const struct simt_options *simt)
{
    struct drawing drawing;
    drawing_open(&drawing, model, simt);
    const uint64_t before = simt_device_replays(drawing.rig.device);
    uint32_t n_generating = 0;
    for (uint32_t i = 0; i < STEPS; i++) {
        const bool is_mixed = i % 4 == 3;
        step(&drawing, i, 2 + (i / 2) % (N_SEQUENCES - 1), is_mixed);
        n_generating += !is_mixed;
    }
    const bool captures = simt->wants_static_steps && !simt->never_captures;
    cr_expect_eq(simt_device_replays(drawing.rig.device) - before, captures ? n_generating : 0);
    printf("%-20s %u rows, %u were fetched\n", model, drawing.n_rows,
           (unsigned)draws_n_fetched(drawing.draws));
    cr_expect_lt(draws_n_fetched(drawing.draws), drawing.n_rows / 2);
    if (strcmp(model, "demo") == 0)
        cr_expect_gt(draws_n_fetched(drawing.draws), 3);
    drawing_close(&drawing);
}

Test(simt_draws, tokens_are_those_of_the_whole_row_in_launched_steps)
{
    run_all("demo", &(struct simt_options){0});
    run_all("llama_t4", &(struct simt_options){.copies_late = true, .n_processors = 13, .seed = 3});
}

Test(simt_draws, tokens_are_those_of_the_whole_row_in_replays)
{
    run_all("demo", &(struct simt_options){.wants_static_steps = true, .poisons = true});
    run_all("qwen3_t5_bias",
            &(struct simt_options){.wants_static_steps = true, .copies_late = true, .seed = 5});
}

/* More tokens with penalties than go with a step: the row comes whole, and the host penalises it. */
Test(simt_draws, a_row_with_many_penalties_comes_whole)
{
    enum { N = FORWARD_PENALTIES_MAX + 1 };
    struct drawing drawing;
    static uint32_t tokens[N];
    drawing_open(&drawing, "demo", &(struct simt_options){.wants_static_steps = true});
    for (uint32_t i = 0; i < N; i++)
        tokens[i] = i;
    for (uint32_t n = N - 1; n <= N; n++) {
        struct sampling_params params[2] = {SAMPLING_GREEDY, SAMPLING_GREEDY};
        const uint64_t before = draws_n_fetched(drawing.draws);
        struct forward_sequence batch[2];
        uint32_t ids[2];
        for (uint32_t s = 0; s < 2; s++) {
            params[s].repetition_penalty = 1.5f;
            params[s].n_logprobs = 2;
            ids[s] = token_of(&drawing.rig, s, n);
            batch[s] = runner_next(&drawing.sequences[s], &ids[s], 1, true);
            drawing.wanted[s] = (struct draw){
                .params = &params[s], .tokens = tokens, .n_prompt = 1, .n_tokens = s ? 1 : n};
            drawing.wanted[s].logprobs = &drawing.logprobs[s];
        }
        cr_assert_eq(draws_run(drawing.draws, batch, 2, 0, drawing.wanted), STATUS_OK);
        cr_expect_eq(draws_n_fetched(drawing.draws) - before, n == N, "%u penalties", n);
        for (uint32_t s = n == N; s < 2; s++)
            expect_row(&drawing, s);
        float *logits = drawing.rig.logits;
        struct token_logprobs logprobs;
        cr_assert_eq(forward_fetch(drawing.rig.runner.forward, 0, logits), STATUS_OK);
        cr_expect_eq(drawing.wanted[0].token_id,
                     sampler_draw(drawing.sampler, &params[0], logits, tokens, 1, n, &logprobs));
    }
    drawing_close(&drawing);
}

/* K and V of a block become NaN. */
static void poison(struct rig *rig, block_id block)
{
    struct block_pool *pool = rig->runner.pool;
    const size_t bytes = block_pool_block_bytes(pool);
    uint8_t *target = block_pool_data(pool, block), *view;
    cr_assert_eq(device_write_begin(rig->device, target, bytes, &view), STATUS_OK);
    memset(view, 0xff, bytes);
    device_write(rig->device, DEVICE_COMPUTE, target, view, bytes);
    cr_assert_eq(device_wait(rig->device, device_record(rig->device, DEVICE_COMPUTE)), STATUS_OK);
}

/* The device tells it in its sums, and the row that is fetched says which logit it is. The other one has its token. */
Test(simt_draws, a_row_that_is_not_finite_has_no_token)
{
    struct drawing drawing;
    struct forward_sequence batch[2];
    drawing_open(&drawing, "llama_t4", &(struct simt_options){.copies_late = true, .seed = 7});
    poison(&drawing.rig, drawing.sequences[0].blocks[0]);
    for (uint32_t i = 0; i < STEPS; i++) {
        const uint32_t ids[2] = {token_of(&drawing.rig, 0, i), token_of(&drawing.rig, 1, i)};
        for (uint32_t s = 0; s < 2; s++) {
            wish(&drawing, s);
            batch[s] = runner_next(&drawing.sequences[s], &ids[s], 1, true);
        }
        cr_assert_eq(draws_run(drawing.draws, batch, 2, 0, drawing.wanted), STATUS_OK);
        cr_expect_eq(drawing.wanted[0].status, STATUS_LOGITS_NOT_FINITE);
        cr_expect(isnan(drawing.wanted[0].logit));
        cr_expect_eq(drawing.wanted[1].status, STATUS_OK);
        expect_row(&drawing, 1);
    }
    cr_expect_eq(draws_n_not_finite(drawing.draws), STEPS);
    drawing_close(&drawing);
}

/* What stands in the arena may differ from step to step; what is launched may not. */
Test(simt_draws, launches_of_a_static_step_depend_on_its_bucket_alone)
{
    struct drawing drawing;
    uint32_t of_arena[2] = {0};
    drawing_open(&drawing, "llama_t4",
                 &(struct simt_options){.wants_static_steps = true, .never_captures = true});
    for (uint32_t i = 0; i < 6; i++) {
        (void)simt_device_launches(drawing.rig.device);
        step(&drawing, i, 4, false);
        const uint32_t launches = simt_device_launches(drawing.rig.device);
        if (i >= 2)
            cr_expect_eq(launches, of_arena[i % 2], "step %u", i);
        of_arena[i % 2] = launches;
    }
    cr_expect_neq(of_arena[0], of_arena[1], "each arena has its addresses");
    drawing_close(&drawing);
}
