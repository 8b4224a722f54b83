/* sampler: the tokens of Transformers' processors, exact tie rules, honest frequencies, one number a
 * (seed, position). */
#include "base/random.h"
#include "kernels/kernels.h"
#include "model/sampling/sampler.h"
#include "tests/model/support/golden.h"
#include "tests/model/support/runner.h"
#include "tests/runner/one_thread.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(sampler, .description = ONE_THREAD);

static struct sampler *new_sampler(uint32_t vocabulary)
{
    struct sampler *sampler;
    const struct kernels *kernels;
    cr_assert_eq(kernels_select(NULL, &kernels, NULL), STATUS_OK);
    cr_assert_eq(sampler_create(vocabulary, kernels, &sampler), STATUS_OK);
    return sampler;
}

static struct sampling_params sampled(float temperature, uint64_t seed)
{
    struct sampling_params params = SAMPLING_GREEDY;
    params.temperature = temperature;
    params.seed = seed;
    return params;
}

/* The token at position n_tokens of a request without history that matters. */
static uint32_t draw_at(struct sampler *sampler, const struct sampling_params *params,
                        const float *logits, uint32_t position)
{
    static const uint32_t NO_TOKENS[4096];
    cr_assert_leq(position, 4096);
    return sampler_draw(sampler, params, logits, NO_TOKENS, position, position, NULL);
}

/* ---- goldens ---- */

static float parameter(const json_t *changes, const char *key, float fallback)
{
    const json_t *value = json_object_get(changes, key);
    return value ? (float)json_number_value(value) : fallback;
}

static struct sampling_params parameters_of(const json_t *changes)
{
    struct sampling_params params = sampled(parameter(changes, "temperature", 1), 0);
    params.top_k = (uint32_t)json_integer_value(json_object_get(changes, "top_k"));
    params.top_p = parameter(changes, "top_p", 1);
    params.min_p = parameter(changes, "min_p", 0);
    params.repetition_penalty = parameter(changes, "repetition_penalty", 1);
    params.presence_penalty = parameter(changes, "presence_penalty", 0);
    params.frequency_penalty = parameter(changes, "frequency_penalty", 0);
    params.typical_p = parameter(changes, "typical_p", 1);
    params.epsilon_cutoff = parameter(changes, "epsilon_cutoff", 0);
    params.eta_cutoff = parameter(changes, "eta_cutoff", 0);
    params.no_repeat_ngram_size = (uint32_t)json_integer_value(
        json_object_get(changes, "no_repeat_ngram_size"));
    return params;
}

static size_t check_case(struct sampler *sampler, const json_t *entry, const float *logits)
{
    uint32_t n_tokens;
    uint32_t *tokens = golden_ids(json_object_get(entry, "tokens"), &n_tokens);
    uint32_t n_prompt = (uint32_t)json_integer_value(json_object_get(entry, "n_prompt"));
    const json_t *changes = json_object_get(entry, "parameters"), *pair;
    struct sampling_params params = parameters_of(changes);
    struct error error;
    size_t i;
    cr_assert_eq(sampling_check(&params, 300, &error), STATUS_OK, "%s", error.text);
    json_array_foreach((json_t *)json_object_get(entry, "draws"), i, pair)
    {
        params.seed = (uint64_t)json_integer_value(json_array_get(pair, 0));
        uint32_t token = sampler_draw(sampler, &params, logits, tokens, n_prompt, n_tokens, NULL);
        char *text = json_dumps(changes, 0);
        cr_assert_eq(token, json_integer_value(json_array_get(pair, 1)), "%s, draw %zu: %u", text,
                     i, token);
        free(text);
    }
    free(tokens);
    return i;
}

Test(sampler, draws_what_transformers_leaves)
{
    json_t *golden = golden_json(GOLDEN_MODELS, "sampling.json"), *entry;
    size_t vocabulary = (size_t)json_integer_value(json_object_get(golden, "vocabulary"));
    size_t n_vectors = (size_t)json_integer_value(json_object_get(golden, "vectors"));
    float *vectors = golden_floats(GOLDEN_MODELS, "sampling.f32", n_vectors * vocabulary);
    struct sampler *sampler = new_sampler((uint32_t)vocabulary);
    size_t i, n_draws = 0;
    json_array_foreach(json_object_get(golden, "cases"), i, entry)
    {
        size_t vector = (size_t)json_integer_value(json_object_get(entry, "vector"));
        n_draws += check_case(sampler, entry, vectors + vector * vocabulary);
    }
    cr_assert_gt(n_draws, 5000);
    sampler_destroy(sampler);
    free(vectors);
    json_decref(golden);
}

Test(sampler, logprobs_are_the_models_own)
{
    json_t *golden = golden_json(GOLDEN_MODELS, "sampling.json"), *entry;
    float *vectors = golden_floats(GOLDEN_MODELS, "sampling.f32", 4 * 300);
    struct sampler *sampler = new_sampler(300);
    struct sampling_params params = sampled(0.5f, 7);
    params.n_logprobs = LOGPROBS_MAX;
    params.repetition_penalty = 3; /* must not show */
    params.top_k = 1;
    static const uint32_t TOKENS[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    size_t vector;
    json_array_foreach(json_object_get(golden, "logprobs"), vector, entry)
    {
        const float *logits = vectors + vector * 300;
        struct token_logprobs logprobs;
        uint32_t token = sampler_draw(sampler, &params, logits, TOKENS, 4, 10, &logprobs);
        cr_assert_eq(logprobs.n_top, LOGPROBS_MAX);
        for (size_t i = 0; i < LOGPROBS_MAX; i++) {
            const json_t *id = json_array_get(json_object_get(entry, "ids"), i);
            const json_t *logprob = json_array_get(json_object_get(entry, "logprobs"), i);
            cr_assert_eq(logprobs.top_ids[i], json_integer_value(id));
            cr_assert_float_eq(logprobs.top_logprobs[i], json_number_value(logprob), 1e-5);
        }
        cr_assert_float_eq(logprobs.logprob,
                           logprobs.top_logprobs[0] + logits[token] - logits[logprobs.top_ids[0]],
                           1e-5);
    }
    sampler_destroy(sampler);
    free(vectors);
    json_decref(golden);
}

/* ---- ties and strange logits ---- */

Test(sampler, equals_rank_by_id)
{
    static const float LOGITS[8] = {1, 3, 2, 3, 3, 2, 0, 3};
    struct sampler *sampler = new_sampler(8);
    struct sampling_params params = SAMPLING_GREEDY;
    cr_assert_eq(draw_at(sampler, &params, LOGITS, 0), 1);

    bool seen[8] = {false};
    params = sampled(1, 0);
    params.top_k = 3; /* 1, 3, 4 and not 7 */
    for (uint32_t i = 0; i < 300; i++)
        seen[draw_at(sampler, &params, LOGITS, i)] = true;
    for (uint32_t id = 0; id < 8; id++)
        cr_assert_eq(seen[id], id == 1 || id == 3 || id == 4, "id %u", id);

    struct token_logprobs logprobs;
    params.n_logprobs = 5;
    sampler_draw(sampler, &params, LOGITS, NULL, 0, 0, &logprobs);
    static const uint32_t RANKED[] = {1, 3, 4, 7, 2};
    cr_assert_eq(logprobs.n_top, 5);
    cr_assert_arr_eq(logprobs.top_ids, RANKED, sizeof RANKED);
    sampler_destroy(sampler);
}

Test(sampler, top_p_keeps_the_fewest_ranks_that_reach_it)
{
    const float logits[4] = {logf(0.1f), logf(0.4f), logf(0.2f), logf(0.3f)};
    static const struct {
        float top_p;
        bool kept[4];
    } CASES[] = {
        {1e-6f, {0, 1, 0, 0}}, {0.39f, {0, 1, 0, 0}}, {0.41f, {0, 1, 0, 1}},
        {0.69f, {0, 1, 0, 1}}, {0.71f, {0, 1, 1, 1}}, {0.91f, {1, 1, 1, 1}},
    };
    struct sampler *sampler = new_sampler(4);
    for (size_t c = 0; c < sizeof CASES / sizeof *CASES; c++) {
        bool seen[4] = {false};
        struct sampling_params params = sampled(1, c);
        params.top_p = CASES[c].top_p;
        for (uint32_t i = 0; i < 400; i++)
            seen[draw_at(sampler, &params, logits, i)] = true;
        cr_assert_arr_eq(seen, CASES[c].kept, sizeof seen, "top_p %g", CASES[c].top_p);
    }
    sampler_destroy(sampler);
}

Test(sampler, survives_any_float)
{
    static const float NASTY[] = {NAN, -INFINITY, INFINITY, 3.4e38f, -3.4e38f, 0, 1e-45f, -0.0f};
    struct sampler *sampler = new_sampler(5);
    struct token_logprobs logprobs;
    static const uint32_t TOKENS[] = {0, 4, 4, 2};
    for (uint32_t code = 0; code < 8 * 8 * 8 * 8 * 8; code += 3) {
        float logits[5];
        for (uint32_t i = 0, rest = code; i < 5; i++, rest /= 8)
            logits[i] = NASTY[rest % 8];
        struct sampling_params params = sampled(code % 2 ? 1e-30f : 100, code);
        params.top_p = code % 5 ? 0.9f : 1;
        params.top_k = code % 4;
        params.min_p = code % 7 ? 0 : 0.5f;
        params.repetition_penalty = code % 3 ? 1 : 100;
        params.frequency_penalty = code % 11 ? 0 : -2;
        params.n_logprobs = 5;
        uint32_t token = sampler_draw(sampler, &params, logits, TOKENS, 2, 4, &logprobs);
        cr_assert_lt(token, 5);
        bool has_number = false;
        for (uint32_t i = 0; i < 5; i++)
            has_number = has_number || !isnan(logits[i]);
        cr_assert(!isnan(logits[token]) || !has_number);
    }
    sampler_destroy(sampler);
}

Test(sampler, min_p_of_1_keeps_the_likeliest_and_its_equals)
{
    static const float LOGITS[5] = {1, 3, 2.99f, 3, -1};
    struct sampler *sampler = new_sampler(5);
    struct sampling_params params = sampled(100, 1);
    uint32_t n_drawn[5] = {0};
    params.min_p = 1;
    for (uint32_t position = 0; position < 200; position++)
        n_drawn[draw_at(sampler, &params, LOGITS, position)]++;
    cr_assert_eq(n_drawn[1] + n_drawn[3], 200);
    cr_assert(n_drawn[1] > 0 && n_drawn[3] > 0);
    sampler_destroy(sampler);
}

/* ---- randomness ---- */

Test(sampler, frequencies_follow_the_probabilities)
{
    enum { N = 200000 };
    static const double P[6] = {0.5, 0.25, 0.15, 0.07, 0.02, 0.01};
    float logits[6];
    for (int i = 0; i < 6; i++)
        logits[i] = logf((float)P[i]) + 5;
    struct sampler *sampler = new_sampler(6);
    for (uint64_t variant = 0; variant < 2; variant++) {
        uint32_t counts[6] = {0};
        for (uint32_t i = 0; i < N; i++) {
            /* many seeds at one position, then many positions of few seeds */
            struct sampling_params params = sampled(1, variant ? i / 4096 : i);
            counts[draw_at(sampler, &params, logits, variant ? i % 4096 : 17)]++;
        }
        double chi_square = 0;
        for (int i = 0; i < 6; i++)
            chi_square += pow(counts[i] - N * P[i], 2) / (N * P[i]);
        cr_assert_lt(chi_square, 20.5, "variant %d: %g", (int)variant, chi_square); /* p = 0.001 */
    }
    sampler_destroy(sampler);
}

Test(sampler, selection_is_right_for_a_large_vocabulary)
{
    enum { V = 150000, K = 50 };
    float *logits = calloc(V, sizeof *logits);
    struct sampler *sampler = new_sampler(V);
    for (uint32_t i = 0; i < V; i++)
        logits[i] = (float)((i * 7919u) % V) * 1e-4f; /* each value once: 7919 is prime to V */
    for (uint32_t seed = 0; seed < 100; seed++) {
        struct sampling_params params = sampled(1, seed);
        params.top_k = K;
        cr_assert_geq(logits[draw_at(sampler, &params, logits, 0)], (float)(V - K) * 1e-4f);
    }
    for (uint32_t i = 0; i < V; i++)
        logits[i] = 2; /* flat: the first ids rank first */
    for (uint32_t seed = 0; seed < 100; seed++) {
        struct sampling_params params = sampled(1, seed);
        params.top_p = 0.5f;
        cr_assert_lt(draw_at(sampler, &params, logits, 0), V / 2);
    }
    sampler_destroy(sampler);
    free(logits);
}

Test(sampler, a_seed_gives_the_same_tokens_in_any_order)
{
    enum { V = 64, N = 40 };
    float logits[V];
    uint32_t forwards[N], backwards[N];
    struct sampler *one = new_sampler(V), *other = new_sampler(V);
    struct sampling_params params = sampled(1.5f, 99), mate = sampled(0.7f, 5);
    mate.repetition_penalty = 2;
    for (uint32_t i = 0; i < V; i++)
        logits[i] = sinf((float)i * 12.9898f) * 2;
    for (uint32_t i = 0; i < N; i++)
        forwards[i] = draw_at(one, &params, logits, i);
    for (uint32_t i = N; i-- > 0;) {
        draw_at(other, &mate, logits, i); /* a batch mate leaves nothing behind in the scratch */
        backwards[i] = draw_at(other, &params, logits, i);
    }
    cr_assert_arr_eq(forwards, backwards, sizeof forwards);
    sampler_destroy(one);
    sampler_destroy(other);
}

/* ---- rules ---- */

static uint32_t draw_behind(struct sampler *sampler, const struct sampling_params *params,
                            const float *logits, const uint32_t *tokens, uint32_t n_prompt,
                            uint32_t n_tokens)
{
    struct token_logprobs logprobs;
    return sampler_draw(sampler, params, logits, tokens, n_prompt, n_tokens, &logprobs);
}

Test(sampler, nothing_that_ends_is_drawn_before_min_tokens)
{
    static const float LOGITS[6] = {0, 5, 4, 3, 2, 1};
    static const uint32_t TOKENS[8] = {1, 1, 1, 0, 0, 0, 0, 0}, ENDS[2] = {1, 3};
    struct sampler *sampler = new_sampler(6);
    struct sampling_params params = SAMPLING_GREEDY;
    sampler_set_ends(sampler, ENDS, 2);
    params.stop_token_ids[0] = 2;
    params.n_stop_token_ids = 1;
    cr_assert_eq(draw_behind(sampler, &params, LOGITS, TOKENS, 3, 3), 1);
    params.min_tokens = 3;
    for (uint32_t n_generated = 0; n_generated < 5; n_generated++)
        cr_assert_eq(draw_behind(sampler, &params, LOGITS, TOKENS, 3, 3 + n_generated),
                     n_generated < 3 ? 4 : 1, "after %u", n_generated);
    sampler_destroy(sampler);
}

Test(sampler, biases_are_added_after_penalties_and_leave_logprobs)
{
    static const float LOGITS[5] = {4, 2, 2, -1, 1};
    static const uint32_t IDS[3] = {0, 3, 4}, TOKENS[2] = {0, 3};
    static const float BIASES[3] = {-3, 3, 0.5f};
    const struct token_rules rules = {.n_biases = 3, .bias_ids = IDS, .biases = BIASES};
    struct sampler *sampler = new_sampler(5);
    struct sampling_params params = SAMPLING_GREEDY;
    struct token_logprobs plain, biased;
    params.n_logprobs = 3;
    cr_assert_eq(sampler_draw(sampler, &params, LOGITS, TOKENS, 0, 0, &plain), 0);
    params.rules = &rules; /* 1 2 2 2 1.5 */
    cr_assert_eq(sampler_draw(sampler, &params, LOGITS, TOKENS, 0, 0, &biased), 1);
    cr_assert_arr_eq(biased.top_ids, plain.top_ids, 3 * sizeof(uint32_t));
    cr_assert_arr_eq(biased.top_logprobs, plain.top_logprobs, 3 * sizeof(float));
    cr_assert_eq(biased.logprob, plain.top_logprobs[1]);
    params.repetition_penalty = 2; /* of 0 and 3: 2-3, 2, 2, -2+3, 1.5 */
    params.presence_penalty = -1.5f;
    cr_assert_eq(draw_behind(sampler, &params, LOGITS, TOKENS, 1, 2), 3, "-2 + 3 + 1.5");
    sampler_destroy(sampler);
}

Test(sampler, only_allowed_tokens_are_drawn_and_at_their_odds)
{
    enum { V = 2000, N = 20000 };
    static float logits[V];
    static const uint32_t ALLOWED[3] = {1999, 7, 300};
    const struct token_rules rules = {.n_allowed = 3, .allowed_ids = ALLOWED};
    struct sampler *sampler = new_sampler(V);
    uint32_t counts[3] = {0};
    for (uint32_t i = 0; i < V; i++)
        logits[i] = 3;
    logits[1999] = logf(0.6f);
    logits[7] = logf(0.3f);
    logits[300] = logf(0.1f);
    for (uint32_t i = 0; i < N; i++) {
        struct sampling_params params = sampled(1, i);
        params.rules = &rules;
        params.top_p = i % 2 ? 1 : 0.9999f;
        uint32_t token = draw_at(sampler, &params, logits, 3), at = 0;
        while (at < 3 && ALLOWED[at] != token)
            at++;
        cr_assert_lt(at, 3, "%u", token);
        counts[at]++;
    }
    cr_assert_float_eq(counts[0], 0.6 * N, 350);
    cr_assert_float_eq(counts[1], 0.3 * N, 350);
    cr_assert_float_eq(counts[2], 0.1 * N, 350);
    sampler_destroy(sampler);
}

Test(sampler, the_last_token_of_a_bad_sequence_is_not_drawn_behind_the_others)
{
    static const float LOGITS[6] = {0, 5, 4, 3, 2, 1};
    static const uint32_t LENGTHS[3] = {3, 1, 2}, BAD[6] = {4, 5, 1, 2, 3, 3};
    const struct token_rules rules = {
        .n_bad = 3, .bad_lengths = LENGTHS, .n_bad_ids = 6, .bad_ids = BAD};
    static const struct {
        uint32_t tokens[5], n_prompt, n, drawn;
    } CASES[] = {
        {{0}, 0, 1, 1},       {{4, 5}, 0, 2, 3}, /* 1 is bad behind 4 5, 2 always */
        {{4, 5, 5}, 0, 3, 1}, {{0, 4, 5}, 1, 3, 3}, {{4, 5}, 1, 2, 1}, /* 4 is of the prompt */
        {{4, 5}, 2, 2, 1},    {{0, 0, 3}, 0, 3, 1},
    };
    struct sampler *sampler = new_sampler(6);
    struct sampling_params params = SAMPLING_GREEDY;
    params.rules = &rules;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        cr_expect_eq(
            draw_behind(sampler, &params, LOGITS, CASES[i].tokens, CASES[i].n_prompt, CASES[i].n),
            CASES[i].drawn, "case %zu", i);
    sampler_destroy(sampler);
}

Test(sampler, rules_that_leave_nothing_draw_nothing)
{
    static const float LOGITS[4] = {1, 2, 3, -INFINITY};
    static const uint32_t ALLOWED[2] = {1, 3}, LENGTHS[1] = {1}, BAD[1] = {1};
    const struct token_rules only_bad = {.n_allowed = 2,
                                         .allowed_ids = ALLOWED,
                                         .n_bad = 1,
                                         .bad_lengths = LENGTHS,
                                         .n_bad_ids = 1,
                                         .bad_ids = BAD};
    struct sampler *sampler = new_sampler(4);
    for (uint32_t temperature = 0; temperature < 2; temperature++) {
        struct sampling_params params = sampled((float)temperature, 1);
        params.n_logprobs = 2;
        params.rules = &only_bad;
        cr_assert_eq(draw_behind(sampler, &params, LOGITS, BAD, 0, 0), SAMPLER_NO_TOKEN);
        params.rules = NULL;
        cr_assert_lt(draw_behind(sampler, &params, LOGITS, BAD, 0, 0), 3);
    }
    sampler_destroy(sampler);
}

/* ---- masks ---- */

static void expect_masked(struct sampler *sampler, const struct sampling_params *params,
                          const float *logits, const uint32_t *mask, uint32_t position)
{
    enum { N = 300 };
    static const uint32_t NO_TOKENS[64];
    static float kept[N];
    struct token_logprobs whole = {0}, masked = {0}, of_kept = {0};
    struct draw draw = {.params = params,
                        .tokens = NO_TOKENS,
                        .n_prompt = position,
                        .n_tokens = position,
                        .mask = mask,
                        .logprobs = &masked};
    for (uint32_t i = 0; i < N; i++)
        kept[i] = mask[i / 32] >> i % 32 & 1 ? logits[i] : -INFINITY;
    const uint32_t token = sampler_draw_row(sampler, &draw, logits);
    draw.mask = NULL;
    draw.logprobs = &of_kept;
    cr_assert_eq(token, sampler_draw_row(sampler, &draw, kept), "at %u", position);
    cr_assert(mask[token / 32] >> token % 32 & 1);
    draw.logprobs = &whole;
    (void)sampler_draw_row(sampler, &draw, logits);
    cr_assert_arr_eq(masked.top_ids, whole.top_ids, 3 * sizeof(uint32_t));
}

Test(sampler, a_mask_leaves_what_a_row_without_the_others_leaves)
{
    enum { N = 300, WORDS = (N + 31) / 32 };
    struct sampler *sampler = new_sampler(N);
    float logits[N];
    uint32_t mask[WORDS];
    struct random random;
    random_init(&random, 21);
    for (uint32_t i = 0; i < N; i++)
        logits[i] = (float)random_below(&random, 1000) / 100;
    for (uint32_t round = 0; round < 400; round++) {
        struct sampling_params params = sampled(round % 2 ? 1 : 0, round);
        params.top_k = round % 3 ? 0 : 5;
        params.top_p = round % 5 ? 1 : 0.5f;
        params.n_logprobs = 3;
        for (uint32_t i = 0; i < WORDS; i++)
            mask[i] = round % 4 ? (uint32_t)random_below(&random, 8) : UINT32_MAX;
        mask[WORDS - 1] |= 1u << (N - 1) % 32;
        expect_masked(sampler, &params, logits, mask, round % 64);
    }
    sampler_destroy(sampler);
}

Test(sampler, a_mask_holds_beside_the_rules_and_may_leave_nothing)
{
    static const float LOGITS[4] = {1, 4, 3, 2};
    static const uint32_t ALLOWED[] = {0, 1}, BIASED[] = {3};
    struct sampler *sampler = new_sampler(4);
    struct token_rules rules = {.n_allowed = 2, .allowed_ids = ALLOWED};
    struct sampling_params params = SAMPLING_GREEDY;
    uint32_t mask = 1u << 0 | 1u << 3;
    struct draw draw = {.params = &params, .mask = &mask};
    cr_assert_eq(sampler_draw_row(sampler, &draw, LOGITS), 3);
    cr_assert(sampler_takes_row(&draw));
    params.rules = &rules;
    cr_assert_eq(sampler_draw_row(sampler, &draw, LOGITS), 0);
    mask = 1u << 2;
    cr_assert_eq(sampler_draw_row(sampler, &draw, LOGITS), SAMPLER_NO_TOKEN);
    params.rules = NULL;
    mask = 0;
    cr_assert_eq(sampler_draw_row(sampler, &draw, LOGITS), SAMPLER_NO_TOKEN);
    rules = (struct token_rules){.n_biases = 1, .bias_ids = BIASED, .biases = (const float[]){100}};
    params.rules = &rules;
    mask = 1u << 1 | 1u << 2;
    cr_assert_eq(sampler_draw_row(sampler, &draw, LOGITS), 1, "a bias brings nothing back");
    sampler_destroy(sampler);
}
