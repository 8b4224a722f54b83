/* bad_words: each text is the tokens of it without and with a space before it, once each, behind what other rules there are; what is
 * too long is named. */
#include "router/requests/bad_words.h"
#include "sampling_params/sampling_params.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static struct tokenizer *load_tokenizer(void)
{
    struct tokenizer *tokenizer;
    struct error error = {0};
    cr_assert_eq(tokenizer_load(KVFERRY_SOURCE_DIR "/model/demo", &error, &tokenizer), STATUS_OK,
                 "%s", error.text);
    return tokenizer;
}

/* The sequence that begins at *at is the text's; moves at behind it. */
static void expect_text(const struct tokenizer *tokenizer, const struct token_rules *rules,
                        uint32_t index, uint32_t *at, const char *text)
{
    uint32_t ids[64];
    struct encode_input input = {.text = text, .text_bytes = strlen(text), .parse_special = true};
    struct token_buffer buffer = {.ids = ids, .ids_max = 64};
    struct error error;
    cr_assert_eq(tokenizer_encode(tokenizer, &input, &buffer, &error), STATUS_OK);
    cr_assert_lt(index, rules->n_bad);
    cr_assert_eq(rules->bad_lengths[index], buffer.n_ids, "\"%s\"", text);
    cr_assert_arr_eq(rules->bad_ids + *at, ids, buffer.n_ids * sizeof *ids, "\"%s\"", text);
    *at += rules->bad_lengths[index];
}

static struct bad_words words_of(const char *const *texts, uint32_t vocabulary)
{
    static struct bad_words words;
    memset(&words, 0, sizeof words);
    words.vocabulary = vocabulary;
    for (; *texts; texts++)
        bad_words_add(&words, *texts, strlen(*texts));
    return words;
}

Test(bad_words, a_text_is_two_sequences)
{
    static const char *const TEXTS[] = {"LORD", " heaven", "  heaven", "and God", "   ", NULL};
    static const uint32_t IDS[1] = {5};
    static const float BIASES[1] = {2};
    const struct token_rules others = {.n_biases = 1, .bias_ids = IDS, .biases = BIASES};
    struct tokenizer *tokenizer = load_tokenizer();
    const struct bad_words words = words_of(TEXTS, 2048);
    struct token_rules *rules;
    struct rpc_error error = {0};
    uint32_t at = 0;
    cr_assert_eq(bad_words_tokenize(&words, tokenizer, &others, &rules, &error), STATUS_OK, "%s",
                 error.message);
    expect_text(tokenizer, rules, 0, &at, "LORD");
    expect_text(tokenizer, rules, 1, &at, " LORD");
    expect_text(tokenizer, rules, 2, &at, "heaven");
    expect_text(tokenizer, rules, 3, &at, " heaven");
    expect_text(tokenizer, rules, 4, &at, "and God");
    expect_text(tokenizer, rules, 5, &at, " and God");
    expect_text(tokenizer, rules, 6, &at, "   ");
    cr_assert_eq(rules->n_bad, 7, "each once");
    cr_assert_eq(rules->n_bad_ids, at);
    cr_assert_eq(rules->n_biases, 1);
    cr_assert_eq(rules->bias_ids[0], 5);
    free(rules);
    tokenizer_destroy(tokenizer);
}

Test(bad_words, a_token_that_the_model_does_not_have_makes_none)
{
    static const char *const TEXTS[] = {"<|end_of_text|>", NULL};
    struct tokenizer *tokenizer = load_tokenizer();
    struct token_rules *rules;
    struct rpc_error error = {0};
    struct bad_words words = words_of(TEXTS, 2047);
    cr_assert_eq(bad_words_tokenize(&words, tokenizer, NULL, &rules, &error), STATUS_OK);
    cr_assert(token_rules_is_empty(rules));
    free(rules);
    words = words_of(TEXTS, 2048);
    cr_assert_eq(bad_words_tokenize(&words, tokenizer, NULL, &rules, &error), STATUS_OK);
    cr_assert_eq(rules->bad_ids[0], 2047);
    free(rules);
    tokenizer_destroy(tokenizer);
}

/* As many and as long as there may be, of characters that are a token a byte. */
Test(bad_words, the_largest_fit)
{
    static char texts[BAD_WORDS_MAX][BAD_WORD_BYTES_MAX + 1];
    static const char *list[BAD_WORDS_MAX + 1];
    struct tokenizer *tokenizer = load_tokenizer();
    struct token_rules *rules;
    struct rpc_error error = {0};
    struct sampling_params params = SAMPLING_GREEDY;
    struct sampling_fault fault;
    for (uint32_t i = 0; i < BAD_WORDS_MAX; i++) {
        for (uint32_t b = 0; b < BAD_WORD_BYTES_MAX; b += 4)
            memcpy(texts[i] + b, "\xf0\x9f\xa4\x80", 4);
        texts[i][3] = (char)(0x80 + i);
        list[i] = texts[i];
    }
    const struct bad_words words = words_of(list, 2048);
    cr_assert_eq(bad_words_tokenize(&words, tokenizer, NULL, &rules, &error), STATUS_OK, "%s",
                 error.message);
    cr_assert_eq(rules->n_bad, BAD_SEQUENCES_MAX);
    cr_assert_gt(rules->n_bad_ids, BAD_SEQUENCES_MAX * 200);
    params.rules = rules;
    cr_assert_not(sampling_find_fault(&params, 2048, &fault), "%s", fault.field);
    free(rules);
    tokenizer_destroy(tokenizer);
}
