/* penalties: with rules, the tokens that Transformers' processors leave; an entry a token, whatever adds to it; nothing stays
 * behind for the next request. */
#include "kernels/cuda/sampling_parameters.h"
#include "kernels/kernels.h"
#include "model/sampling/penalties.h"
#include "model/sampling/sampler.h"
#include "tests/model/support/golden.h"
#include "tests/model/support/runner.h"
#include "tests/runner/one_thread.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

TestSuite(penalties, .description = ONE_THREAD);

/* ---- goldens ---- */

enum { VOCABULARY = 300, LIST_MAX = 512 };

/* A case's rules, with the memory of their lists. */
struct golden_rules {
    struct token_rules rules;
    uint32_t bias_ids[LIST_MAX], allowed[LIST_MAX], lengths[LIST_MAX], bad[LIST_MAX];
    float biases[LIST_MAX];
};

static uint32_t number_at(const json_t *list, size_t i)
{
    return (uint32_t)json_integer_value(json_array_get(list, i));
}

static void read_rules(const json_t *entry, struct golden_rules *out,
                       struct sampling_params *params)
{
    const json_t *biases = json_object_get(entry, "logit_bias");
    const json_t *allowed = json_object_get(entry, "allowed");
    const json_t *bad = json_object_get(entry, "bad");
    const json_t *stops = json_object_get(entry, "stop_token_ids");
    struct token_rules *rules = &out->rules;
    *rules = (struct token_rules){.n_biases = (uint32_t)json_array_size(biases),
                                  .bias_ids = out->bias_ids,
                                  .biases = out->biases,
                                  .n_allowed = (uint32_t)json_array_size(allowed),
                                  .allowed_ids = out->allowed,
                                  .n_bad = (uint32_t)json_array_size(bad),
                                  .bad_lengths = out->lengths,
                                  .bad_ids = out->bad};
    for (uint32_t i = 0; i < rules->n_biases; i++) {
        const json_t *pair = json_array_get(biases, i);
        out->bias_ids[i] = number_at(pair, 0);
        out->biases[i] = (float)json_number_value(json_array_get(pair, 1));
    }
    for (uint32_t i = 0; i < rules->n_allowed; i++)
        out->allowed[i] = number_at(allowed, i);
    for (uint32_t i = 0; i < rules->n_bad; i++) {
        const json_t *sequence = json_array_get(bad, i);
        out->lengths[i] = (uint32_t)json_array_size(sequence);
        for (uint32_t t = 0; t < out->lengths[i]; t++)
            out->bad[rules->n_bad_ids++] = number_at(sequence, t);
    }
    params->rules = rules;
    params->min_tokens = (uint32_t)json_integer_value(json_object_get(entry, "min_tokens"));
    params->n_stop_token_ids = (uint32_t)json_array_size(stops);
    for (uint32_t i = 0; i < params->n_stop_token_ids; i++)
        params->stop_token_ids[i] = number_at(stops, i);
}

static void read_parameters(const json_t *changes, struct sampling_params *params)
{
    const json_t *value;
    *params = SAMPLING_GREEDY;
    params->temperature = (float)json_number_value(json_object_get(changes, "temperature"));
    if ((value = json_object_get(changes, "repetition_penalty")))
        params->repetition_penalty = (float)json_number_value(value);
    if ((value = json_object_get(changes, "presence_penalty")))
        params->presence_penalty = (float)json_number_value(value);
    if ((value = json_object_get(changes, "top_p")))
        params->top_p = (float)json_number_value(value);
}

/* What is not allowed is suppressed: to Transformers it is the same. */
static void suppress_rest(struct sampler *sampler, struct token_rules *rules)
{
    static uint32_t rest[VOCABULARY];
    static bool is_allowed[VOCABULARY];
    uint32_t n = 0;
    memset(is_allowed, rules->n_allowed == 0, sizeof is_allowed);
    for (uint32_t i = 0; i < rules->n_allowed; i++)
        is_allowed[rules->allowed_ids[i]] = true;
    for (uint32_t id = 0; id < VOCABULARY; id++)
        if (!is_allowed[id])
            rest[n++] = id;
    rules->n_allowed = 0;
    sampler_set_suppressed(sampler, rest, n);
}

static size_t check_case(struct sampler *sampler, bool suppresses, const json_t *entry,
                         const float *logits, size_t index)
{
    uint32_t n_tokens;
    uint32_t *tokens = golden_ids(json_object_get(entry, "tokens"), &n_tokens);
    uint32_t n_prompt = (uint32_t)json_integer_value(json_object_get(entry, "n_prompt"));
    static struct golden_rules golden;
    struct sampling_params params;
    struct error error;
    const json_t *pair;
    size_t i;
    read_parameters(json_object_get(entry, "parameters"), &params);
    read_rules(json_object_get(entry, "rules"), &golden, &params);
    cr_assert_eq(sampling_check(&params, VOCABULARY, &error), STATUS_OK, "%s", error.text);
    if (suppresses)
        suppress_rest(sampler, &golden.rules);
    json_array_foreach((json_t *)json_object_get(entry, "draws"), i, pair)
    {
        params.seed = (uint64_t)json_integer_value(json_array_get(pair, 0));
        cr_assert_eq(sampler_draw(sampler, &params, logits, tokens, n_prompt, n_tokens, NULL),
                     number_at(pair, 1), "case %zu, draw %zu", index, i);
    }
    free(tokens);
    return i;
}

static void check_rules(bool suppresses)
{
    json_t *golden = golden_json(GOLDEN_MODELS, "rules.json"), *entry;
    float *vectors = golden_floats(GOLDEN_MODELS, "sampling.f32", 4 * VOCABULARY);
    uint32_t n_ends;
    uint32_t *ends = golden_ids(json_object_get(golden, "ends"), &n_ends);
    const struct kernels *kernels;
    struct sampler *sampler;
    size_t i, n_draws = 0;
    cr_assert_eq(kernels_select(NULL, &kernels, NULL), STATUS_OK);
    cr_assert_eq(sampler_create(VOCABULARY, kernels, &sampler), STATUS_OK);
    sampler_set_ends(sampler, ends, n_ends);
    json_array_foreach(json_object_get(golden, "cases"), i, entry)
    {
        size_t vector = (size_t)json_integer_value(json_object_get(entry, "vector"));
        n_draws += check_case(sampler, suppresses, entry, vectors + vector * VOCABULARY, i);
    }
    cr_assert_gt(n_draws, 1500);
    sampler_destroy(sampler);
    free(ends);
    free(vectors);
    json_decref(golden);
}

Test(penalties, rules_leave_what_transformers_leaves)
{
    check_rules(false);
}

Test(penalties, what_a_model_suppresses_is_not_drawn)
{
    check_rules(true);
}

/* ---- entries ---- */

static const struct sampling_penalty *find(const struct penalties *penalties, uint32_t n,
                                           uint32_t id)
{
    const struct sampling_penalty *found = NULL;
    for (uint32_t i = 0; i < n; i++) {
        cr_assert(penalties->list[i].id != id || !found, "token %u twice", id);
        if (penalties->list[i].id == id)
            found = &penalties->list[i];
    }
    return found;
}

Test(penalties, a_token_has_one_entry_whatever_adds_to_it)
{
    static const uint32_t TOKENS[] = {1, 2, 2, 3}, BIAS_IDS[] = {2, 9, 3}, LENGTHS[] = {1, 2};
    static const uint32_t BAD[] = {3, 3, 9};
    static const float BIASES[] = {0.5f, -1, 7};
    const struct token_rules rules = {3, BIAS_IDS, BIASES, 0, NULL, 2, LENGTHS, 3, BAD, {0}, {0}};
    struct sampling_params params = SAMPLING_GREEDY;
    const struct draw draw = {.params = &params, .tokens = TOKENS, .n_prompt = 1, .n_tokens = 4};
    struct penalties penalties;
    cr_assert_eq(penalties_init(&penalties, 16), STATUS_OK);
    penalties_set_ends(&penalties, (const uint32_t[]){9, 15}, 2);
    cr_assert_eq(penalties_make(&penalties, &draw), 0, "nothing is asked for");
    params.rules = &rules;
    params.presence_penalty = 1;
    params.frequency_penalty = 0.25f;
    params.repetition_penalty = 2;
    params.min_tokens = 4;
    for (uint32_t round = 0; round < 2; round++) { /* the first leaves nothing behind */
        const uint32_t n = penalties_make(&penalties, &draw);
        cr_assert_eq(n, 5);
        cr_expect_eq(find(&penalties, n, 1)->factor, 2);
        cr_expect_eq(find(&penalties, n, 1)->subtract, 0);
        cr_expect_eq(find(&penalties, n, 2)->subtract, 1.5f - 0.5f);
        cr_expect_eq(find(&penalties, n, 3)->subtract, INFINITY, "whatever its bias");
        cr_expect_eq(find(&penalties, n, 9)->subtract, INFINITY, "an end, and bad behind 3");
        cr_expect_eq(find(&penalties, n, 15)->factor, 1);
        for (uint32_t id = 0; id < 16; id++)
            cr_assert_eq(penalties.counts[id], 0);
    }
    params.min_tokens = 3;
    cr_assert_null(find(&penalties, penalties_make(&penalties, &draw), 15));
    penalties_set_suppressed(&penalties, (const uint32_t[]){2, 5}, 2);
    const uint32_t n = penalties_make(&penalties, &draw);
    cr_expect_eq(n, 5, "2 was there, 5 came, 15 left");
    cr_expect_eq(find(&penalties, n, 2)->subtract, INFINITY, "whatever was seen");
    cr_expect_eq(find(&penalties, n, 5)->subtract, INFINITY);
    penalties_finish(&penalties);
}

/* ---- repeated tokens ---- */

/* With small tokens, so that they do repeat. */
Test(penalties, no_n_gram_of_prompt_and_reply_is_drawn_twice)
{
    enum { N_TOKENS = 400, FEW = 20 };
    static float logits[VOCABULARY];
    const struct kernels *kernels;
    struct sampler *sampler;
    cr_assert_eq(kernels_select(NULL, &kernels, NULL), STATUS_OK);
    cr_assert_eq(sampler_create(VOCABULARY, kernels, &sampler), STATUS_OK);
    for (uint32_t id = 0; id < VOCABULARY; id++)
        logits[id] = id < FEW ? 2 : -2;
    for (uint32_t size = 1; size <= 3; size++) {
        uint32_t tokens[N_TOKENS] = {3, 4, 3}, n = 3, n_twice = 0;
        const uint32_t end = size == 1 ? 200 : N_TOKENS;
        struct sampling_params params = SAMPLING_GREEDY;
        params.temperature = 1;
        params.no_repeat_ngram_size = size;
        for (; n < end; n++)
            tokens[n] = sampler_draw(sampler, &params, logits, tokens, 3, n, NULL);
        for (uint32_t i = 0; i + size <= n; i++)
            for (uint32_t j = i < 3 ? 3 : i + 1; j + size <= n; j++)
                n_twice += memcmp(tokens + i, tokens + j, size * sizeof *tokens) == 0;
        cr_assert_eq(n_twice, 0, "size %u: %u", size, n_twice);
    }
    sampler_destroy(sampler);
}

/* Then the request ends: the drawn token would be one that was forbidden. */
Test(penalties, no_token_is_left_when_all_would_repeat)
{
    enum { FEW = 5 };
    static const float LOGITS[FEW] = {1, 2, 3, 4, 5};
    uint32_t tokens[FEW] = {0};
    const struct kernels *kernels;
    struct sampler *sampler;
    struct sampling_params params = SAMPLING_GREEDY;
    params.no_repeat_ngram_size = 1;
    cr_assert_eq(kernels_select(NULL, &kernels, NULL), STATUS_OK);
    cr_assert_eq(sampler_create(FEW, kernels, &sampler), STATUS_OK);
    for (uint32_t n = 0; n < FEW; n++) {
        tokens[n] = sampler_draw(sampler, &params, LOGITS, tokens, 0, n, NULL);
        cr_assert_eq(tokens[n], FEW - 1 - n);
    }
    cr_assert_eq(sampler_draw(sampler, &params, LOGITS, tokens, 0, FEW, NULL), SAMPLER_NO_TOKEN);
    sampler_destroy(sampler);
}
