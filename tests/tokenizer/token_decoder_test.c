/* token_decoder: the texts of all pushes together are the text of all tokens, and each of them is
 * whole UTF-8. */
#include "base/utf8.h"
#include "tests/tokenizer/support/tokenizers.h"
#include "tokenizer/token_decoder.h"
#include "tokenizer/tokenizer_parts.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define TEXT_MAX 16384

static void expect_streamed_is_whole(const struct tokenizer *tokenizer, const uint32_t *ids,
                                     size_t n_ids, bool skip_special)
{
    struct token_decoder decoder;
    char streamed[TEXT_MAX], whole[TEXT_MAX], part[TOKEN_TEXT_BYTES_MAX];
    struct decode_input input = {ids, n_ids, skip_special};
    struct text_buffer text = {.bytes = whole, .bytes_max = sizeof whole};
    size_t n_streamed = 0;

    token_decoder_init(&decoder, tokenizer, skip_special);
    for (size_t i = 0; i <= n_ids; i++) {
        size_t n = i < n_ids ? token_decoder_push(&decoder, ids[i], part)
                             : token_decoder_finish(&decoder, part);
        cr_assert_eq(utf8_first_invalid(part, n), n);
        memcpy(streamed + n_streamed, part, n);
        n_streamed += n;
    }
    cr_assert_eq(tokenizer_decode(tokenizer, &input, &text, NULL), STATUS_OK);
    cr_assert_eq(text.n_bytes, n_streamed);
    cr_assert_eq(memcmp(whole, streamed, n_streamed), 0);
}

Test(token_decoder, every_golden_string_streams_as_it_decodes)
{
    struct tokenizer *tokenizer = tokenizer_of_tree("model/demo");
    json_t *root = json_of_tree("model/demo/golden/tokenizer.json");
    json_t *row;
    size_t index;

    json_array_foreach(json_object_get(root, "cases"), index, row)
    {
        const json_t *text = json_object_get(row, "text");
        struct test_ids ids;
        encode(tokenizer, json_string_value(text), json_string_length(text), true, true, &ids);
        /* Every split: what begins or ends within a character too. */
        for (size_t from = 0; from < ids.n_ids && from < 24; from++)
            for (size_t n = 0; from + n <= ids.n_ids && n < 24; n++)
                expect_streamed_is_whole(tokenizer, ids.ids + from, n, n % 2 == 1);
        expect_streamed_is_whole(tokenizer, ids.ids, ids.n_ids, true);
    }
    json_decref(root);
    tokenizer_destroy(tokenizer);
}

static void expect_row(const struct tokenizer *tokenizer, size_t number, const json_t *row)
{
    const json_t *expected = json_object_get(row, "text");
    char bytes[TEXT_MAX];
    struct text_buffer text = {.bytes = bytes, .bytes_max = sizeof bytes};
    struct test_ids ids = {.n_ids = json_array_size(json_object_get(row, "ids"))};

    for (size_t i = 0; i < ids.n_ids; i++)
        ids.ids[i] = (uint32_t)json_integer_value(json_array_get(json_object_get(row, "ids"), i));
    struct decode_input input = {ids.ids, ids.n_ids, false};
    cr_assert_eq(tokenizer_decode(tokenizer, &input, &text, NULL), STATUS_OK);
    cr_assert(text.n_bytes == json_string_length(expected) &&
                  memcmp(bytes, json_string_value(expected), text.n_bytes) == 0,
              "chain %zu: \"%.*s\", not \"%s\"", number, (int)text.n_bytes, bytes,
              json_string_value(expected));
    expect_streamed_is_whole(tokenizer, ids.ids, ids.n_ids, false);
}

/* tests/golden/tokenizer/decoders.py: chains of decoders in many orders. */
Test(token_decoder, chains_have_the_texts_of_the_reference)
{
    json_t *root = json_of_tree("tests/golden/tokenizer/decoders.json");
    json_t *one, *row;
    size_t number, index;

    cr_assert_geq(json_array_size(json_object_get(root, "cases")), 19);
    json_array_foreach(json_object_get(root, "cases"), number, one)
    {
        char path[128];
        struct tokenizer *tokenizer;
        struct error error = {""};
        snprintf(path, sizeof path, "tests/golden/tokenizer/%s/tokenizer.json",
                 json_string_value(json_object_get(one, "tokenizer")));
        json_t *document = json_of_tree(path);
        json_object_set(document, "decoder", json_object_get(one, "decoder"));
        cr_assert_eq(load_document(document, &error, &tokenizer), STATUS_OK, "chain %zu: %s",
                     number, error.text);
        cr_assert_gt(json_array_size(json_object_get(one, "rows")), 0);
        json_array_foreach(json_object_get(one, "rows"), index, row)
        {
            expect_row(tokenizer, number, row);
        }
        tokenizer_destroy(tokenizer);
        json_decref(document);
    }
    json_decref(root);
}

Test(token_decoder, random_bytes_stream_as_they_decode)
{
    static const char *const folders[] = {
        "tests/golden/tokenizer/qwen2",
        "tests/golden/tokenizer/llama2",
        "tests/golden/tokenizer/metaspace_never",
    };
    uint64_t state = 1;

    for (size_t which = 0; which < sizeof folders / sizeof *folders; which++) {
        struct tokenizer *tokenizer = tokenizer_of_tree(folders[which]);
        for (int round = 0; round < 3000; round++) {
            uint32_t ids[24];
            for (size_t i = 0; i < 24; i++) {
                state = state * 6364136223846793005ull + 1442695040888963407ull;
                ids[i] = (uint32_t)(state >> 33) % (round % 2 ? 256 : tokenizer_n_ids(tokenizer));
            }
            expect_streamed_is_whole(tokenizer, ids, 24, round % 3 == 0);
        }
        tokenizer_destroy(tokenizer);
    }
}

/* Ids of the golden llama2: <0xHH> is HH + 3. */
#define BYTE_ID(byte) ((byte) + 3u)

static uint32_t id_of_text(const struct tokenizer *tokenizer, const char *written)
{
    uint32_t id = vocab_find_text(tokenizer->model.vocab, written, strlen(written));
    cr_assert_neq(id, TOKEN_NONE, "%s", written);
    return id;
}

Test(token_decoder, run_of_byte_tokens_leaves_when_it_ends)
{
    struct tokenizer *tokenizer = tokenizer_of_tree("tests/golden/tokenizer/llama2");
    struct token_decoder decoder;
    char text[TOKEN_TEXT_BYTES_MAX];
    uint32_t letter = id_of_text(tokenizer, "a");

    token_decoder_init(&decoder, tokenizer, true);
    for (uint8_t byte = 0; byte < 2; byte++) /* U+00E9 twice, all of it at once */
        for (const char *at = "\xc3\xa9"; *at; at++)
            cr_assert_eq(token_decoder_push(&decoder, BYTE_ID((uint8_t)*at), text), 0);
    cr_assert_eq(token_decoder_push(&decoder, letter, text), 5);
    cr_assert_eq(memcmp(text,
                        "\xc3\xa9\xc3\xa9"
                        "a",
                        5),
                 0);

    /* One that is cut makes all of its run unreadable, as in the tokenizers package. */
    for (const char *at = "\xc3\xa9\xc3"; *at; at++)
        cr_assert_eq(token_decoder_push(&decoder, BYTE_ID((uint8_t)*at), text), 0);
    cr_assert_eq(token_decoder_finish(&decoder, text), 9);
    cr_assert_eq(memcmp(text, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", 9), 0);
    tokenizer_destroy(tokenizer);
}

Test(token_decoder, endless_run_of_byte_tokens_leaves_in_whole_characters)
{
    struct tokenizer *tokenizer = tokenizer_of_tree("tests/golden/tokenizer/llama2");
    struct token_decoder decoder;
    char text[TOKEN_TEXT_BYTES_MAX];
    size_t n_bytes = 0;

    token_decoder_init(&decoder, tokenizer, true);
    for (int i = 0; i < 1000; i++) {
        for (const char *at = "\xe1\x83\x90"; *at; at++) {
            size_t n = token_decoder_push(&decoder, BYTE_ID((uint8_t)*at), text);
            cr_assert_eq(n % 3, 0);
            cr_assert_eq(utf8_first_invalid(text, n), n);
            cr_assert(n == 0 || memcmp(text, "\xe1\x83\x90", 3) == 0);
            n_bytes += n;
        }
    }
    n_bytes += token_decoder_finish(&decoder, text);
    cr_assert_eq(n_bytes, 3000);
    tokenizer_destroy(tokenizer);
}

Test(token_decoder, first_space_of_the_text_is_stripped_once)
{
    struct tokenizer *tokenizer = tokenizer_of_tree("tests/golden/tokenizer/llama2");
    struct token_decoder decoder;
    char text[TOKEN_TEXT_BYTES_MAX];
    uint32_t space = id_of_text(tokenizer, "\xe2\x96\x81");

    token_decoder_init(&decoder, tokenizer, true);
    for (int round = 0; round < 2; round++) {
        cr_assert_eq(token_decoder_push(&decoder, 1, text), 0); /* <s> is special */
        cr_assert_eq(token_decoder_push(&decoder, space, text), 0);
        cr_assert_eq(token_decoder_push(&decoder, space, text), 1);
        cr_assert_eq(text[0], ' ');
        cr_assert_eq(token_decoder_finish(&decoder, text), 0);
    }
    tokenizer_destroy(tokenizer);
}

Test(token_decoder, character_leaves_when_it_is_whole)
{
    struct tokenizer *tokenizer = tokenizer_of_tree("model/demo");
    struct token_decoder decoder;
    struct test_ids ids;
    char text[TOKEN_TEXT_BYTES_MAX];

    encode(tokenizer, "\xf0\x9f\x99\x82", 4, false, true, &ids);
    cr_assert_eq(ids.n_ids, 4);
    token_decoder_init(&decoder, tokenizer, false);
    for (size_t i = 0; i < 3; i++)
        cr_assert_eq(token_decoder_push(&decoder, ids.ids[i], text), 0);
    cr_assert_eq(token_decoder_push(&decoder, ids.ids[3], text), 4);
    cr_assert_eq(memcmp(text, "\xf0\x9f\x99\x82", 4), 0);
    cr_assert_eq(token_decoder_finish(&decoder, text), 0);
    tokenizer_destroy(tokenizer);
}

Test(token_decoder, what_cannot_become_a_character_is_replaced)
{
    struct tokenizer *tokenizer = tokenizer_of_tree("model/demo");
    struct token_decoder decoder;
    struct test_ids ids, letter;
    char text[TOKEN_TEXT_BYTES_MAX];

    encode(tokenizer, "\xf0\x9f\x99\x82", 4, false, true, &ids);
    encode(tokenizer, "x", 1, false, true, &letter);
    token_decoder_init(&decoder, tokenizer, false);
    token_decoder_push(&decoder, ids.ids[0], text);
    token_decoder_push(&decoder, ids.ids[1], text);
    cr_assert_eq(token_decoder_push(&decoder, letter.ids[0], text), 4);
    cr_assert_eq(memcmp(text, "\xef\xbf\xbdx", 4), 0);
    token_decoder_push(&decoder, ids.ids[0], text);
    cr_assert_eq(token_decoder_finish(&decoder, text), 3);
    cr_assert_eq(memcmp(text, "\xef\xbf\xbd", 3), 0);
    cr_assert_eq(token_decoder_finish(&decoder, text), 0);
    tokenizer_destroy(tokenizer);
}

Test(token_decoder, id_of_a_models_padding_writes_nothing)
{
    struct tokenizer *tokenizer = tokenizer_of_tree("model/demo");
    struct token_decoder decoder;
    char text[TOKEN_TEXT_BYTES_MAX];

    token_decoder_init(&decoder, tokenizer, false);
    cr_assert_eq(token_decoder_push(&decoder, 2048, text), 0);
    cr_assert_eq(token_decoder_push(&decoder, UINT32_MAX, text), 0);
    tokenizer_destroy(tokenizer);
}

/* ---- tokens whose texts join ---- */

static size_t trim(const char **text_inout, size_t n)
{
    for (; n > 0 && **text_inout == ' '; n--)
        (*text_inout)++;
    while (n > 0 && (*text_inout)[n - 1] == ' ')
        n--;
    return n;
}

/* Whether the text of these tokens is what each has alone; what is no UTF-8 is not looked at. */
static bool join(const struct tokenizer *tokenizer, const uint32_t *ids, size_t n_ids)
{
    char joined[TEXT_MAX], whole[TEXT_MAX];
    const char *a = joined, *b = whole;
    struct decode_input input = {ids, n_ids, false};
    struct text_buffer text = {.bytes = whole, .bytes_max = sizeof whole};
    size_t n = 0;
    for (size_t i = 0; i < n_ids; i++) {
        n += tokenizer_token_text(tokenizer, ids[i], joined + n);
    }
    if (utf8_first_invalid(joined, n) != n)
        return true;
    cr_assert_eq(tokenizer_decode(tokenizer, &input, &text, NULL), STATUS_OK);
    n = trim(&a, n);
    return n == trim(&b, text.n_bytes) && memcmp(a, b, n) == 0;
}

static uint32_t count_unjoined(const struct tokenizer *tokenizer)
{
    enum { N_ROUNDS = 20000, IDS_MAX = 6 };
    uint32_t random = 7, ids[IDS_MAX], n_unjoined = 0;
    for (int round = 0; round < N_ROUNDS; round++) {
        const size_t n_ids = 1 + (size_t)round % IDS_MAX;
        for (size_t i = 0; i < n_ids; i++) {
            random = random * 1664525 + 1013904223;
            ids[i] = (random >> 8) % tokenizer_n_ids(tokenizer);
        }
        n_unjoined += !join(tokenizer, ids, n_ids);
    }
    return n_unjoined;
}

static void expect_join(const char *name, bool joins)
{
    char folder[320];
    snprintf(folder, sizeof folder, "tests/golden/tokenizer/%s", name);
    struct tokenizer *tokenizer = tokenizer_of_tree(folder);
    const uint32_t n_unjoined = count_unjoined(tokenizer);
    cr_expect_eq(tokenizer_texts_join(tokenizer), joins, "%s", name);
    cr_expect_eq(n_unjoined == 0, joins, "%s: %u do not join", name, n_unjoined);
    tokenizer_destroy(tokenizer);
}

Test(token_decoder, texts_of_tokens_join_where_the_tokenizer_says_so)
{
    static const char *const JOIN[] = {"gpt2", "llama3", "qwen2",   "falcon",
                                       "clip", "llama2", "mistral", "gemma",
                                       "t5",   "holes",  "tekken",  "spm_plain"};
    static const char *const OTHERS[] = {"bert", "openai_gpt", "metaspace_never"};
    for (size_t i = 0; i < sizeof JOIN / sizeof *JOIN; i++)
        expect_join(JOIN[i], true);
    for (size_t i = 0; i < sizeof OTHERS / sizeof *OTHERS; i++)
        expect_join(OTHERS[i], false);
}
