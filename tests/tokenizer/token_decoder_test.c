/* token_decoder: the texts of all pushes together are the text of all tokens, and each of them is
 * whole UTF-8. */
#include "base/utf8.h"
#include "tests/tokenizer/support/tokenizers.h"
#include "tokenizer/token_decoder.h"

#include <criterion/criterion.h>
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

Test(token_decoder, random_bytes_stream_as_they_decode)
{
    struct tokenizer *tokenizer = tokenizer_of_tree("tests/golden/tokenizer/qwen2");
    uint64_t state = 1;

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
