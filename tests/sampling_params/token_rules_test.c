/* token_rules: each list has its bounds and is refused by name, index and value; a copy is its own. */
#include "sampling_params/sampling_params.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define VOCABULARY 5000u

static const uint32_t BIAS_IDS[] = {7, 0, 4999};
static const float BIASES[] = {-100, 0.5f, 100};
static const uint32_t ALLOWED[] = {1, 2, 2};
static const uint32_t LENGTHS[] = {1, 3};
static const uint32_t BAD[] = {9, 5, 6, 7};

static struct token_rules sample(void)
{
    return (struct token_rules){.n_biases = 3,
                                .bias_ids = BIAS_IDS,
                                .biases = BIASES,
                                .n_allowed = 3,
                                .allowed_ids = ALLOWED,
                                .n_bad = 2,
                                .bad_lengths = LENGTHS,
                                .n_bad_ids = 4,
                                .bad_ids = BAD};
}

static void expect_fault(const struct token_rules *rules, const char *field, const char *value)
{
    struct sampling_fault fault;
    cr_assert(token_rules_find_fault(rules, VOCABULARY, &fault), "%s is %s", field, value);
    cr_expect_str_eq(fault.field, field);
    cr_expect_str_eq(fault.value, value);
}

static uint32_t *numbers(uint32_t n, uint32_t step)
{
    uint32_t *list = calloc(n, sizeof *list);
    cr_assert_not_null(list);
    for (uint32_t i = 0; i < n; i++)
        list[i] = i * step;
    return list;
}

Test(token_rules, are_refused_by_index_and_value)
{
    struct token_rules rules = sample();
    struct sampling_fault fault;
    cr_assert_not(token_rules_find_fault(&rules, VOCABULARY, &fault), "%s", fault.field);
    rules.bias_ids = (const uint32_t[]){7, 0, VOCABULARY};
    expect_fault(&rules, "logit_bias[2].token_id", "5000");
    rules.bias_ids = (const uint32_t[]){7, 0, 7};
    expect_fault(&rules, "logit_bias[2].token_id", "7");
    rules = sample();
    rules.biases = (const float[]){-100, NAN, 0};
    expect_fault(&rules, "logit_bias[1].bias", "nan");
    rules.biases = (const float[]){-100.5f, 0, 0};
    expect_fault(&rules, "logit_bias[0].bias", "-100.5");
    rules = sample();
    rules.allowed_ids = (const uint32_t[]){1, UINT32_MAX, 2};
    expect_fault(&rules, "allowed_token_ids[1]", "4294967295");
    rules = sample();
    rules.bad_ids = (const uint32_t[]){9, 5, 6, VOCABULARY};
    expect_fault(&rules, "bad_words, token [3]", "5000");
    rules = sample();
    rules.bad_lengths = (const uint32_t[]){0, 4};
    expect_fault(&rules, "bad_words, length of sequence 0", "0");
    rules.bad_lengths = (const uint32_t[]){1, BAD_SEQUENCE_IDS_MAX + 1};
    expect_fault(&rules, "bad_words, length of sequence 1", "513");
    rules.bad_lengths = (const uint32_t[]){1, 4};
    expect_fault(&rules, "bad_words, the number of tokens", "4");
    rules.bad_lengths = (const uint32_t[]){1, 2};
    expect_fault(&rules, "bad_words, the number of tokens", "4");
}

Test(token_rules, have_bounds)
{
    uint32_t *ids = numbers(ALLOWED_TOKEN_IDS_MAX + 1, 1),
             *ones = numbers(BAD_SEQUENCES_MAX + 1, 0);
    float *biases = calloc(LOGIT_BIASES_MAX + 1, sizeof *biases);
    struct sampling_fault fault;
    struct token_rules rules = {
        .n_biases = LOGIT_BIASES_MAX, .bias_ids = ids, .biases = biases, .allowed_ids = ids};
    rules.n_allowed = ALLOWED_TOKEN_IDS_MAX;
    for (uint32_t i = 0; i <= BAD_SEQUENCES_MAX; i++)
        ones[i] = 1;
    rules.bad_lengths = ones;
    rules.bad_ids = ids;
    rules.n_bad = rules.n_bad_ids = BAD_SEQUENCES_MAX;
    cr_assert_not(token_rules_find_fault(&rules, VOCABULARY, &fault), "%s", fault.field);
    rules.n_bad = ++rules.n_bad_ids;
    expect_fault(&rules, "bad_words", "65");
    rules.n_allowed++;
    expect_fault(&rules, "allowed_token_ids", "4097");
    rules.n_biases++;
    expect_fault(&rules, "logit_bias", "1025");
    free(ids);
    free(ones);
    free(biases);
}

/* Ids of one hash bucket, and the last of all repeated. */
Test(token_rules, a_token_has_one_bias_whatever_the_ids)
{
    uint32_t *ids = numbers(LOGIT_BIASES_MAX, 4096);
    float *biases = calloc(LOGIT_BIASES_MAX, sizeof *biases);
    const uint32_t vocabulary = LOGIT_BIASES_MAX * 4096;
    struct token_rules rules = {.n_biases = LOGIT_BIASES_MAX, .bias_ids = ids, .biases = biases};
    struct sampling_fault fault;
    cr_assert_not(token_rules_find_fault(&rules, vocabulary, &fault), "%s", fault.field);
    ids[LOGIT_BIASES_MAX - 1] = ids[LOGIT_BIASES_MAX - 2];
    cr_assert(token_rules_find_fault(&rules, vocabulary, &fault));
    cr_assert_str_eq(fault.field, "logit_bias[1023].token_id");
    free(ids);
    free(biases);
}

Test(token_rules, a_copy_is_its_own)
{
    uint32_t bias_ids[3], lengths[2];
    struct token_rules rules = sample();
    memcpy(bias_ids, BIAS_IDS, sizeof bias_ids);
    memcpy(lengths, LENGTHS, sizeof lengths);
    rules.bias_ids = bias_ids;
    rules.bad_lengths = lengths;
    struct token_rules *copy = token_rules_copy(&rules);
    cr_assert_not_null(copy);
    memset(bias_ids, 1, sizeof bias_ids);
    memset(lengths, 1, sizeof lengths);
    cr_assert_arr_eq(copy->bias_ids, BIAS_IDS, sizeof BIAS_IDS);
    cr_assert_arr_eq(copy->biases, BIASES, sizeof BIASES);
    cr_assert_arr_eq(copy->allowed_ids, ALLOWED, sizeof ALLOWED);
    cr_assert_arr_eq(copy->bad_lengths, LENGTHS, sizeof LENGTHS);
    cr_assert_arr_eq(copy->bad_ids, BAD, sizeof BAD);
    free(copy);
    cr_assert(token_rules_is_empty(&(struct token_rules){0}));
    cr_assert_not(token_rules_is_empty(&rules));
}

Test(token_rules, have_stop_strings_of_a_size)
{
    struct token_rules rules = {.stops = {.n = 2, .bytes = {1, 256}, .texts = {"a", "b"}}};
    struct sampling_fault fault;
    cr_assert_not(token_rules_is_empty(&rules));
    cr_assert_not(token_rules_find_fault(&rules, VOCABULARY, &fault), "%s", fault.field);
    rules.stops.bytes[1] = 0;
    expect_fault(&rules, "stop[1]", "of 0 bytes");
    rules.stops.bytes[0] = 257;
    expect_fault(&rules, "stop[0]", "of 257 bytes");
    rules.stops.n = 17;
    expect_fault(&rules, "stop", "17");
    rules.stops.n = UINT32_MAX;
    expect_fault(&rules, "stop", "4294967295");
}

Test(token_rules, a_copy_has_its_own_stop_strings_behind_its_texts)
{
    char stop[] = "a\0b", choice[] = "yes";
    const char *texts[] = {choice};
    struct token_rules rules = sample();
    rules.constraint = (struct reply_constraint){REPLY_CHOICES, 1, texts};
    rules.stops = (struct stop_texts){.n = 2, .bytes = {3, 1}, .texts = {stop, "c"}};
    struct token_rules *copy = token_rules_copy(&rules);
    cr_assert_not_null(copy);
    memset(stop, '?', sizeof stop);
    choice[0] = '?';
    cr_assert_eq(copy->stops.n, 2);
    cr_assert_arr_eq(copy->stops.texts[0], "a\0b", 3);
    cr_assert_arr_eq(copy->stops.texts[1], "c", 1);
    cr_assert_str_eq(copy->constraint.texts[0], "yes");
    free(copy);
}

Test(token_rules, a_copy_has_its_own_texts)
{
    char first[] = "yes", second[] = "";
    const char *texts[] = {first, second};
    struct token_rules rules = sample();
    rules.constraint = (struct reply_constraint){REPLY_CHOICES, 2, texts};
    struct token_rules *copy = token_rules_copy(&rules);
    cr_assert_not_null(copy);
    first[0] = '?';
    texts[1] = "?";
    cr_assert_eq(copy->constraint.kind, REPLY_CHOICES);
    cr_assert_eq(copy->constraint.n_texts, 2);
    cr_assert_str_eq(copy->constraint.texts[0], "yes");
    cr_assert_str_eq(copy->constraint.texts[1], "");
    cr_assert_arr_eq(copy->bad_ids, BAD, sizeof BAD);
    cr_assert_eq(reply_constraint_bytes(&copy->constraint), 3);
    free(copy);
    cr_assert_not(
        token_rules_is_empty(&(struct token_rules){.constraint = {.kind = REPLY_JSON_OBJECT}}));
}

Test(token_rules, a_constraint_says_something_and_has_a_bound)
{
    struct token_rules rules = {.constraint = {.kind = REPLY_UNSET}};
    expect_fault(&rules, "constraint", "empty");
    rules.constraint.kind = REPLY_CHOICES;
    expect_fault(&rules, "constraint.choices", "0");
    rules.constraint.n_texts = REPLY_CHOICES_MAX + 1;
    expect_fault(&rules, "constraint.choices", "1025");
}
