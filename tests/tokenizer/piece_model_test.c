/* piece_model: the kinds beside BPE, what is wrong with their files, ids that no token has, and text for which there is no token. */
#include "tests/tokenizer/support/tokenizers.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define SPACES "\"pre_tokenizer\": {\"type\": \"WhitespaceSplit\"}"

static struct tokenizer *loaded(const char *document)
{
    struct tokenizer *tokenizer = NULL;
    struct error error = {""};
    cr_assert_eq(load_texts(document, NULL, &error, &tokenizer), STATUS_OK, "%s: %s", error.text,
                 document);
    return tokenizer;
}

static void expect_ids(const struct tokenizer *tokenizer, const char *text,
                       const uint32_t *expected, size_t n)
{
    struct test_ids ids;
    encode(tokenizer, text, strlen(text), false, true, &ids);
    cr_assert_eq(ids.n_ids, n, "\"%s\": %zu ids, not %zu", text, ids.n_ids, n);
    for (size_t i = 0; i < n; i++)
        cr_expect_eq(ids.ids[i], expected[i], "\"%s\", id %zu is %u", text, i, ids.ids[i]);
}

#define EXPECT_IDS(tokenizer, text, ...)                                                           \
    expect_ids(tokenizer, text, (const uint32_t[]){__VA_ARGS__},                                   \
               sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

static void expect_text(const struct tokenizer *tokenizer, const uint32_t *ids, size_t n,
                        const char *expected)
{
    char text[256];
    const struct decode_input input = {ids, n, false};
    struct text_buffer out = {.bytes = text, .bytes_max = sizeof text};
    cr_assert_eq(tokenizer_decode(tokenizer, &input, &out, NULL), STATUS_OK);
    cr_expect(out.n_bytes == strlen(expected) && memcmp(text, expected, out.n_bytes) == 0,
              "\"%.*s\", not \"%s\"", (int)out.n_bytes, text, expected);
}

static void expect_refused(const char *document, enum status status, const char *sentence)
{
    struct tokenizer *tokenizer = NULL;
    struct error error = {""};
    cr_expect_eq(load_texts(document, NULL, &error, &tokenizer), status, "%s: %s", document,
                 error.text);
    cr_expect_not_null(strstr(error.text, sentence), "\"%s\" is not in \"%s\"", sentence,
                       error.text);
    cr_expect_null(tokenizer);
}

static void expect_no_token(const struct tokenizer *tokenizer, const char *text,
                            const char *sentence)
{
    const struct encode_input input = {.text = text, .text_bytes = strlen(text)};
    struct token_buffer counted = {0};
    struct error error = {""};
    cr_expect_eq(tokenizer_encode(tokenizer, &input, &counted, &error), STATUS_INVALID_ARGUMENT);
    cr_expect_str_eq(error.text, sentence);
}

/* The sum decides, not the longest token: "abc" as ab + c has -3, as a + bc -2.5, as abc -4. */
#define UNIGRAM(more, unk_id)                                                                      \
    "{\"model\": {\"type\": \"Unigram\", \"unk_id\": " unk_id ", \"vocab\": "                      \
    "[[\"<unk>\", 0], [\"a\", -1], [\"b\", -1.25], [\"c\", -1.5], [\"ab\", -1.5], [\"bc\", "       \
    "-1.5], [\"abc\", -4.0]" more "]}}"

Test(piece_model, unigram_takes_the_best_sum_of_scores)
{
    struct tokenizer *tokenizer = loaded(UNIGRAM("", "0"));
    EXPECT_IDS(tokenizer, "abc", 1, 5);
    EXPECT_IDS(tokenizer, "ab", 4);
    EXPECT_IDS(tokenizer, "xyabcz", 0, 1, 5, 0); /* unknown ones are one */
    EXPECT_IDS(tokenizer, "<unk>", 0);
    expect_text(tokenizer, (uint32_t[]){1, 5, 0}, 3, "a bc <unk>"); /* no decoder: spaces */
    tokenizer_destroy(tokenizer);
}

Test(piece_model, unigram_falls_back_to_bytes_if_all_are_there)
{
    struct tokenizer *tokenizer = loaded(
        "{\"model\": {\"type\": \"Unigram\", \"unk_id\": 0, \"byte_fallback\": true, \"vocab\": "
        "[[\"<unk>\", 0], [\"a\", -1], [\"<0xC3>\", -9], [\"<0xA9>\", -9]]}, "
        "\"decoder\": {\"type\": \"ByteFallback\"}}");
    EXPECT_IDS(tokenizer, "a\u00e9", 1, 2, 3);
    EXPECT_IDS(tokenizer, "a\u00e8", 1, 0);
    EXPECT_IDS(tokenizer, "a\u00e9\u00e8", 1, 0); /* one text, which lacks a byte */
    expect_text(tokenizer, (uint32_t[]){1, 2, 3}, 3, "a\u00e9");
    tokenizer_destroy(tokenizer);
}

Test(piece_model, unigram_without_an_unknown_token_says_which_character_has_none)
{
    struct tokenizer *tokenizer = loaded(UNIGRAM("", "null"));
    EXPECT_IDS(tokenizer, "abc", 1, 5);
    expect_no_token(tokenizer, "ab\u00e9",
                    "text has \"\u00e9\", for which the tokenizer has no token");
    tokenizer_destroy(tokenizer);
}

Test(piece_model, bad_unigrams_are_refused)
{
    expect_refused(UNIGRAM("", "7"), STATUS_CORRUPT,
                   "model.unk_id is 7, but model.vocab has 7 tokens");
    expect_refused(UNIGRAM("", "-1"), STATUS_CORRUPT, "model.unk_id is -1");
    expect_refused(UNIGRAM(", [\"b\", -2]", "0"), STATUS_UNSUPPORTED,
                   "model.vocab[7] is \"b\", which an id before it has");
    expect_refused(UNIGRAM(", [\"d\"]", "0"), STATUS_CORRUPT,
                   "model.vocab[7] is not [text, score]");
    expect_refused(UNIGRAM(", [\"d\", \"-2\"]", "0"), STATUS_CORRUPT,
                   "model.vocab[7] is not [text, score]");
    expect_refused(UNIGRAM(", [7, -2]", "0"), STATUS_CORRUPT,
                   "model.vocab[7] is not [text, score]");
    expect_refused(UNIGRAM(", [\"\", -2]", "0"), STATUS_CORRUPT, "has an empty token, id 7");
    expect_refused("{\"model\": {\"type\": \"Unigram\", \"vocab\": []}}", STATUS_CORRUPT,
                   "model.vocab is empty");
}

#define WORDPIECE(more)                                                                            \
    "{\"model\": {\"type\": \"WordPiece\", \"vocab\": "                                            \
    "{\"[UNK]\": 0, \"un\": 1, \"##aff\": 2, \"##able\": 3, \"##a\": 4, \"una\": 5}" more          \
    "}, " SPACES ", \"decoder\": {\"type\": \"WordPiece\"}}"

Test(piece_model, wordpiece_takes_the_longest_token_or_none)
{
    struct tokenizer *tokenizer = loaded(WORDPIECE(", \"unk_token\": \"[UNK]\""));
    EXPECT_IDS(tokenizer, "un", 1);
    EXPECT_IDS(tokenizer, "unaff una", 0, 5); /* una + ##ff, which is none: no way back */
    EXPECT_IDS(tokenizer, "unable", 0);
    EXPECT_IDS(tokenizer, "unaaff", 5, 2);
    EXPECT_IDS(tokenizer, "##a", 4); /* as a word of its own */
    expect_text(tokenizer, (uint32_t[]){5, 2, 1}, 3, "unaaff un");
    expect_text(tokenizer, (uint32_t[]){2, 5}, 2, "##aff una"); /* of the first token it stays */
    tokenizer_destroy(tokenizer);
}

Test(piece_model, wordpiece_knows_no_word_longer_than_the_file_says)
{
    struct tokenizer *tokenizer = loaded(
        WORDPIECE(", \"unk_token\": \"[UNK]\", \"max_input_chars_per_word\": 5"));
    EXPECT_IDS(tokenizer, "unaaa", 5, 4, 4);
    EXPECT_IDS(tokenizer, "unaaaa", 0);
    tokenizer_destroy(tokenizer);
    expect_refused(WORDPIECE(", \"max_input_chars_per_word\": -1"), STATUS_CORRUPT,
                   "model.max_input_chars_per_word is not a whole number of 0 or more");
}

Test(piece_model, words_without_an_unknown_token_are_an_error_that_has_the_word)
{
    struct tokenizer *wordpiece = loaded(WORDPIECE(""));
    expect_no_token(wordpiece, "un thing",
                    "text has \"thing\", for which the tokenizer has no token");
    tokenizer_destroy(wordpiece);
    struct tokenizer *words = loaded(
        "{\"model\": {\"type\": \"WordLevel\", \"unk_token\": \"<unk>\", "
        "\"vocab\": {\"a\": 0, \"b\": 1}}, " SPACES "}");
    EXPECT_IDS(words, "a b  a", 0, 1, 0);
    expect_no_token(words, "a c", "text has \"c\", for which the tokenizer has no token");
    tokenizer_destroy(words);
}

Test(piece_model, a_type_that_is_not_written_is_known_by_its_fields)
{
    struct tokenizer *words = loaded(
        "{\"model\": {\"unk_token\": \"a\", \"vocab\": {\"a\": 0, \"bb\": 1}}, " SPACES "}");
    EXPECT_IDS(words, "bb cc", 1, 0);
    tokenizer_destroy(words);
    struct tokenizer *scored = loaded("{\"model\": {\"vocab\": [[\"a\", -1], [\"aa\", -1.5]]}}");
    EXPECT_IDS(scored, "aaa", 0, 1); /* of equal sums the one that is found first */
    tokenizer_destroy(scored);
}

/* Between ids 1 and 5 there is none, and so there is behind the added token's, up to nothing. */
Test(piece_model, ids_that_no_token_has_are_no_text_and_never_made)
{
    struct tokenizer *tokenizer = loaded(
        "{\"model\": {\"type\": \"WordLevel\", \"unk_token\": \"a\", \"vocab\": {\"a\": 0, \"b\": "
        "1, \"c\": 5}}, " SPACES ", "
        "\"added_tokens\": [{\"id\": 8, \"content\": \"<x>\", \"special\": true}]}");
    cr_assert_eq(tokenizer_n_ids(tokenizer), 9);
    EXPECT_IDS(tokenizer, "a c <x> d", 0, 5, 8, 0);
    expect_text(tokenizer, (uint32_t[]){2, 0, 3, 4, 5, 6, 7, 8, 2}, 9, "a c <x>");
    for (uint32_t id = 2; id < 5; id++) {
        size_t n_bytes;
        tokenizer_token_bytes(tokenizer, id, &n_bytes);
        cr_expect_eq(n_bytes, 0);
        cr_expect_not(tokenizer_is_special(tokenizer, id));
    }
    tokenizer_destroy(tokenizer);
}

/* What Transformers does not do unless it is asked is no reason to refuse a file. */
Test(piece_model, truncation_and_padding_of_a_file_change_nothing)
{
    struct tokenizer *tokenizer = loaded(
        "{\"truncation\": {\"max_length\": 2}, \"padding\": {\"strategy\": {\"Fixed\": 9}}, "
        "\"model\": {\"type\": \"WordLevel\", "
        "\"unk_token\": \"a\", \"vocab\": {\"a\": 0, \"b\": 1}}, " SPACES "}");
    EXPECT_IDS(tokenizer, "a b a b", 0, 1, 0, 1);
    tokenizer_destroy(tokenizer);
}

/* A megabyte that is one piece: one unknown run, one word, and one way of a million tokens. */
Test(piece_model, a_piece_of_a_megabyte_takes_time_as_other_text_does)
{
    const size_t n_bytes = (size_t)1 << 20;
    char *text = malloc(n_bytes);
    struct token_buffer counted = {0};
    struct error error = {""};
    static const struct {
        const char *document;
        char letter;
        size_t n_ids;
    } cases[] = {
        {UNIGRAM("", "0"), 'a', 1 << 20},
        {UNIGRAM("", "0"), 'x', 1},
        {WORDPIECE(", \"unk_token\": \"[UNK]\", \"max_input_chars_per_word\": 9999999"), 'u', 1}};

    cr_assert_not_null(text);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tokenizer *tokenizer = loaded(cases[i].document);
        memset(text, cases[i].letter, n_bytes);
        const struct encode_input input = {.text = text, .text_bytes = n_bytes};
        cr_assert_eq(tokenizer_encode(tokenizer, &input, &counted, &error), STATUS_OK, "%s",
                     error.text);
        cr_expect_eq(counted.n_ids, cases[i].n_ids);
        tokenizer_destroy(tokenizer);
    }
    free(text);
}
