/* tokenizer: bounds are kept, long pieces take no longer than others, and what the text asks for
 * is told in a sentence. */
#include "tests/tokenizer/support/tokenizers.h"
#include "tokenizer/tokenizer_parts.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static struct tokenizer *small_tokenizer(void)
{
    json_t *document = small_document();
    struct tokenizer *tokenizer = NULL;

    cr_assert_eq(load_document(document, NULL, &tokenizer), STATUS_OK);
    json_decref(document);
    return tokenizer;
}

static enum status encode_text(const struct tokenizer *tokenizer, const char *text, size_t n_bytes,
                               struct token_buffer *tokens, struct error *error)
{
    struct encode_input input = {.text = text, .text_bytes = n_bytes, .parse_special = true};
    return tokenizer_encode(tokenizer, &input, tokens, error);
}

Test(tokenizer, output_is_never_written_beyond_its_bound)
{
    struct tokenizer *tokenizer = small_tokenizer();
    uint32_t ids[3] = {7, 7, 7};
    struct token_buffer tokens = {.ids = ids, .ids_max = 2};
    struct error error = {""};

    cr_assert_eq(encode_text(tokenizer, "abcxyz", 6, &tokens, &error), STATUS_PROMPT_TOO_LONG);
    cr_assert_eq(tokens.n_ids, 4);
    cr_assert_eq(ids[0], 257);
    cr_assert_eq(ids[2], 7);
    cr_assert_str_eq(error.text, "text has 4 tokens, at most 2 fit");

    tokens = (struct token_buffer){0};
    cr_assert_eq(encode_text(tokenizer, "abcxyz", 6, &tokens, NULL), STATUS_OK);
    cr_assert_eq(tokens.n_ids, 4);
    tokenizer_destroy(tokenizer);
}

Test(tokenizer, decoding_is_bounded_and_measured)
{
    struct tokenizer *tokenizer = small_tokenizer();
    const uint32_t ids[] = {257, 258, 257};
    struct decode_input input = {ids, 3, false};
    char text[8] = "-------";
    struct text_buffer decoded = {.bytes = text, .bytes_max = 5};

    cr_assert_eq(tokenizer_decode(tokenizer, &input, &decoded, NULL), STATUS_PROMPT_TOO_LONG);
    cr_assert_eq(decoded.n_bytes, 9);
    cr_assert_str_eq(text, "abc<s--");
    decoded = (struct text_buffer){0};
    input.skip_special = true;
    cr_assert_eq(tokenizer_decode(tokenizer, &input, &decoded, NULL), STATUS_OK);
    cr_assert_eq(decoded.n_bytes, 6);
    tokenizer_destroy(tokenizer);
}

Test(tokenizer, decoding_an_unknown_id_names_it)
{
    struct tokenizer *tokenizer = small_tokenizer();
    const uint32_t ids[] = {1, 259};
    struct decode_input input = {ids, 2, false};
    struct text_buffer decoded = {0};
    struct error error = {""};

    cr_assert_eq(tokenizer_decode(tokenizer, &input, &decoded, &error), STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(error.text, "ids[1] is 259, it must be below 259");
    tokenizer_destroy(tokenizer);
}

Test(tokenizer, text_that_is_no_utf8_is_refused_with_its_place)
{
    static const struct {
        const char *text;
        size_t n_bytes, at;
    } cases[] = {
        {"\xff", 1, 0},          {"ab\xc3", 3, 2},           {"\xc0\x80", 2, 0},
        {"a\xed\xa0\x80", 4, 1}, {"\xf4\x90\x80\x80", 4, 0}, {"12345678\x80", 9, 8},
    };
    struct tokenizer *tokenizer = small_tokenizer();

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct token_buffer tokens = {0};
        struct error error = {""};
        char expected[64];
        snprintf(expected, sizeof expected, "text is not UTF-8 at byte %zu", cases[i].at);
        cr_expect_eq(encode_text(tokenizer, cases[i].text, cases[i].n_bytes, &tokens, &error),
                     STATUS_INVALID_ARGUMENT);
        cr_expect_str_eq(error.text, expected);
    }
    tokenizer_destroy(tokenizer);
}

Test(tokenizer, special_tokens_in_a_text_are_read_only_when_asked)
{
    struct tokenizer *tokenizer = small_tokenizer();
    struct test_ids ids;

    encode(tokenizer, "<s>", 3, false, true, &ids);
    cr_assert_eq(ids.n_ids, 1);
    cr_assert_eq(ids.ids[0], 258);
    encode(tokenizer, "<s>", 3, false, false, &ids);
    cr_assert_eq(ids.n_ids, 3);
    tokenizer_destroy(tokenizer);
}

Test(tokenizer, ids_tell_what_they_are)
{
    struct tokenizer *tokenizer = tokenizer_of_tree("model/demo");
    struct special_ids special = tokenizer_special_ids(tokenizer);
    size_t n_bytes;

    cr_assert_eq(tokenizer_n_ids(tokenizer), 2048);
    cr_assert_eq(special.bos, 2046);
    cr_assert_eq(special.eos, 2047);
    cr_assert_eq(special.pad, TOKEN_NONE);
    cr_assert(tokenizer_is_special(tokenizer, 2047));
    cr_assert_not(tokenizer_is_special(tokenizer, 220));
    const char *bytes = tokenizer_token_bytes(tokenizer, 220, &n_bytes);
    cr_assert_eq(n_bytes, 1);
    cr_assert_eq(bytes[0], ' ');
    bytes = tokenizer_token_bytes(tokenizer, 2046, &n_bytes);
    cr_assert_eq(n_bytes, 17);
    cr_assert_eq(memcmp(bytes, "<|begin_of_text|>", 17), 0);
    tokenizer_destroy(tokenizer);
}

Test(tokenizer, digest_is_of_the_tokenizer)
{
    uint8_t demo[TOKENIZER_DIGEST_BYTES], again[TOKENIZER_DIGEST_BYTES],
        other[TOKENIZER_DIGEST_BYTES];
    struct tokenizer *tokenizers[] = {tokenizer_of_tree("model/demo"),
                                      tokenizer_of_tree("model/demo"),
                                      tokenizer_of_tree("tests/golden/tokenizer/gpt2")};

    tokenizer_digest(tokenizers[0], demo);
    tokenizer_digest(tokenizers[1], again);
    tokenizer_digest(tokenizers[2], other);
    cr_assert_eq(memcmp(demo, again, sizeof demo), 0);
    cr_assert_neq(memcmp(demo, other, sizeof demo), 0);

    struct error error = {0};
    cr_assert_eq(tokenizer_digest_read(KVFERRY_SOURCE_DIR "/model/demo", &error, again), STATUS_OK);
    cr_assert_arr_eq(again, demo, sizeof demo);
    cr_assert_eq(tokenizer_digest_read(KVFERRY_SOURCE_DIR "/docs", &error, again),
                 STATUS_NOT_FOUND);
    for (int i = 0; i < 3; i++)
        tokenizer_destroy(tokenizers[i]);
}

/* Splits the same text into pieces that are too long for the pair search; ends in the program's
 * time limit when merging is quadratic. */
Test(tokenizer, megabyte_of_one_letter_is_encoded, .timeout = 60)
{
    static const char letters[] = {'a', '=', ' ', '\n'};
    const size_t n_bytes = 1u << 20;
    struct tokenizer *tokenizer = tokenizer_of_tree("tests/golden/tokenizer/llama3");
    char *text = malloc(n_bytes);

    for (size_t i = 0; i < sizeof letters; i++) {
        struct token_buffer tokens = {0};
        memset(text, letters[i], n_bytes);
        cr_assert_eq(encode_text(tokenizer, text, n_bytes, &tokens, NULL), STATUS_OK);
        cr_assert_gt(tokens.n_ids, 0);
        cr_assert_leq(tokens.n_ids, n_bytes);
    }
    free(text);
    tokenizer_destroy(tokenizer);
}

Test(tokenizer, megabyte_that_is_one_piece_is_encoded, .timeout = 60)
{
    static const char words[] = "in the beginning \xe1\x83\x90 was  ";
    const size_t n_bytes = 1u << 20;
    struct tokenizer *tokenizer = tokenizer_of_tree("tests/golden/tokenizer/llama2");
    struct token_buffer tokens = {0};
    char *text = malloc(n_bytes + sizeof words);

    size_t n = 0;
    for (; n < n_bytes; n += sizeof words - 1)
        memcpy(text + n, words, sizeof words - 1);
    cr_assert_eq(encode_text(tokenizer, text, n, &tokens, NULL), STATUS_OK);
    cr_assert_gt(tokens.n_ids, n_bytes / 4);
    free(text);
    tokenizer_destroy(tokenizer);
}

Test(tokenizer, megabyte_of_marks_out_of_order_is_normalized, .timeout = 60)
{
    const size_t n_bytes = 1u << 20;
    struct tokenizer *tokenizer = tokenizer_of_tree("tests/golden/tokenizer/qwen2");
    struct token_buffer tokens = {0};
    char *text = malloc(n_bytes);

    for (size_t i = 0; i < n_bytes; i += 4) /* classes 230 and 220 */
        memcpy(text + i, "\xcc\x81\xcc\xa3", 4);
    cr_assert_eq(encode_text(tokenizer, text, n_bytes, &tokens, NULL), STATUS_OK);
    cr_assert_gt(tokens.n_ids, 0);
    free(text);
    tokenizer_destroy(tokenizer);
}

/* The definition of BPE, word for word: the oracle of both ways that bpe.c has. */
static size_t merge_one_by_one(const struct tokenizer *tokenizer, uint32_t *ids, size_t n)
{
    for (;;) {
        size_t best = 0;
        uint32_t rank = MERGE_RANK_NONE;
        for (size_t i = 0; i + 1 < n; i++) {
            uint32_t of_pair = merges_find(&tokenizer->model.merges, ids[i], ids[i + 1])->rank;
            if (of_pair < rank) {
                rank = of_pair;
                best = i;
            }
        }
        if (rank == MERGE_RANK_NONE)
            return n;
        ids[best] = merges_find(&tokenizer->model.merges, ids[best], ids[best + 1])->id;
        for (size_t i = best + 1; i + 1 < n; i++)
            ids[i] = ids[i + 1];
        n--;
    }
}

Test(tokenizer, pieces_of_any_length_merge_by_the_definition)
{
    struct tokenizer *tokenizer = tokenizer_of_tree("model/demo");
    static const char letters[] = "aeehhnorsttd";
    uint64_t state = 3;

    for (size_t n = 1; n <= 300; n++) {
        char text[300];
        uint32_t expected[300];
        struct test_ids ids;
        for (size_t i = 0; i < n; i++) {
            state = state * 6364136223846793005ull + 1442695040888963407ull;
            text[i] = letters[(state >> 33) % (n % 5 == 0 ? 3 : sizeof letters - 1)];
            expected[i] = tokenizer->model.vocab->byte_ids[(uint8_t)text[i]];
        }
        encode(tokenizer, text, n, false, true, &ids);
        cr_assert_eq(merge_one_by_one(tokenizer, expected, n), ids.n_ids, "%zu letters", n);
        cr_assert_eq(memcmp(expected, ids.ids, ids.n_ids * sizeof *expected), 0, "%zu letters", n);
    }
    tokenizer_destroy(tokenizer);
}

Test(tokenizer, bytes_without_a_token_leave_nothing_or_the_unknown_token)
{
    struct tokenizer *holes = tokenizer_of_tree("tests/golden/tokenizer/holes");
    struct tokenizer *unk = tokenizer_of_tree("tests/golden/tokenizer/holes_unk");
    struct tokenizer *fused = tokenizer_of_tree("tests/golden/tokenizer/holes_fused");
    char text[300]; /* one piece */
    struct test_ids ids;

    memset(text, 0x07, sizeof text);
    for (size_t n = 1; n <= sizeof text; n += 59) {
        encode(holes, text, n, false, true, &ids);
        cr_expect_eq(ids.n_ids, 0);
        encode(unk, text, n, false, true, &ids);
        cr_expect_eq(ids.n_ids, n);
        encode(fused, text, n, false, true, &ids);
        cr_expect_eq(ids.n_ids, 1);
        cr_expect_eq(ids.ids[0], fused->model.bpe.unk_id);
    }
    tokenizer_destroy(holes);
    tokenizer_destroy(unk);
    tokenizer_destroy(fused);
}

Test(tokenizer, pattern_that_explodes_ends_at_its_limit)
{
    json_t *document = small_document();
    struct tokenizer *tokenizer = NULL;
    struct token_buffer tokens = {0};
    struct error error = {""};

    json_object_set_new(document, "pre_tokenizer",
                        json_pack("{s:s, s:[{s:s, s:{s:s}, s:s}, {s:s}]}", "type", "Sequence",
                                  "pretokenizers", "type", "Split", "pattern", "Regex",
                                  "(?:(?:a|a)+)+[bc]", "behavior", "Isolated", "type",
                                  "ByteLevel"));
    cr_assert_eq(load_document(document, &error, &tokenizer), STATUS_OK, "%s", error.text);
    cr_assert_eq(encode_text(tokenizer, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaad", 45,
                             &tokens, &error),
                 STATUS_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(error.text, "text: a split pattern reaches its limit after byte 0"),
                       "%s", error.text);
    tokenizer_destroy(tokenizer);
    json_decref(document);
}

/* "\t" (259) takes the white space after it, "\n" (260) that before it. */
static struct tokenizer *white_tokenizer(void)
{
    json_t *document = small_document();
    json_t *added = json_object_get(document, "added_tokens");
    struct tokenizer *tokenizer = NULL;

    json_array_append_new(added, json_pack("{s:i, s:s, s:b, s:b}", "id", 259, "content", "\t",
                                           "rstrip", 1, "normalized", 0));
    json_array_append_new(added, json_pack("{s:i, s:s, s:b, s:b}", "id", 260, "content", "\n",
                                           "lstrip", 1, "normalized", 0));
    cr_assert_eq(load_document(document, NULL, &tokenizer), STATUS_OK);
    json_decref(document);
    return tokenizer;
}

/* Ids of version 0.23.3 of the tokenizers package. */
Test(tokenizer, white_space_that_two_tokens_take_is_of_the_first)
{
    static const struct {
        const char *text;
        uint32_t ids[6];
        size_t n_ids;
    } cases[] = {
        {" \t  \t  \t ", {220, 259, 259, 259}, 4},
        {" \n \n \n", {260, 260, 260}, 3},
        {"a \n \n b", {64, 260, 260, 220, 65}, 5},
        {"a \t  b", {64, 220, 259, 65}, 4},
    };
    struct tokenizer *tokenizer = white_tokenizer();

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct test_ids got;
        encode(tokenizer, cases[i].text, strlen(cases[i].text), false, true, &got);
        cr_assert_eq(got.n_ids, cases[i].n_ids, "%zu", i);
        cr_assert_arr_eq(got.ids, cases[i].ids, got.n_ids * sizeof *got.ids, "%zu", i);
    }
    tokenizer_destroy(tokenizer);
}

Test(tokenizer, megabytes_of_tokens_that_take_white_space_are_read_once, .timeout = 60)
{
    const size_t n_bytes = (size_t)2 << 20;
    struct tokenizer *tokenizer = white_tokenizer();
    char *text = malloc(n_bytes);

    cr_assert_not_null(text);
    for (int i = 0; i < 2; i++) {
        struct token_buffer tokens = {0};
        memset(text, "\t\n"[i], n_bytes);
        cr_assert_eq(encode_text(tokenizer, text, n_bytes, &tokens, NULL), STATUS_OK);
        cr_assert_eq(tokens.n_ids, n_bytes);
    }
    free(text);
    tokenizer_destroy(tokenizer);
}

Test(tokenizer, text_over_the_bound_is_refused)
{
    struct tokenizer *tokenizer = small_tokenizer();
    struct token_buffer tokens = {0};
    struct error error = {""};

    /* Judged by its length before a byte is read. */
    cr_assert_eq(encode_text(tokenizer, "x", TOKENIZER_TEXT_BYTES_MAX + 1, &tokens, &error),
                 STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(error.text, "text has 16777217 bytes, at most 16777216 are read");
    tokenizer_destroy(tokenizer);
}

/* Many threads, one tokenizer */

#define N_THREADS 4

static void *encode_often(void *arg)
{
    const struct tokenizer *tokenizer = arg;
    static const char text[] = "The quick <lstrip> cafe\xcc\x81 <|im_start|> 1234 'll";
    size_t n_ids = 0;

    for (int i = 0; i < 200; i++) {
        uint32_t ids[64];
        struct token_buffer tokens = {.ids = ids, .ids_max = 64};
        if (encode_text(tokenizer, text, sizeof text - 1, &tokens, NULL) != STATUS_OK)
            return NULL;
        n_ids += tokens.n_ids;
    }
    return (void *)n_ids;
}

Test(tokenizer, threads_share_one)
{
    struct tokenizer *tokenizer = tokenizer_of_tree("tests/golden/tokenizer/qwen2");
    pthread_t threads[N_THREADS];
    void *expected = encode_often(tokenizer);

    cr_assert_not_null(expected);
    for (int i = 0; i < N_THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, encode_often, tokenizer), 0);
    for (int i = 0; i < N_THREADS; i++) {
        void *n_ids;
        pthread_join(threads[i], &n_ids);
        cr_assert_eq(n_ids, expected);
    }
    tokenizer_destroy(tokenizer);
}

static bool is_unwanted(void *arg)
{
    uint32_t *left = arg;
    return (*left)-- == 0;
}

/* Of many pieces, and of one that merges for long. */
Test(tokenizer, a_text_that_nobody_wants_any_more_ends)
{
    struct tokenizer *tokenizer = tokenizer_of_tree("tests/golden/tokenizer/llama3");
    char *text = malloc(100001);
    cr_assert_not_null(text);
    for (int is_long = 0; is_long < 2; is_long++) {
        uint32_t left = 2;
        struct encode_input input = {
            .text = text, .text_bytes = 100000, .is_unwanted = is_unwanted, .arg = &left};
        struct token_buffer tokens = {0};
        struct error error = {""};
        for (int i = 0; i < 100000; i++)
            text[i] = !is_long && i % 2 ? '1' : "the"[i % 3];
        cr_expect_eq(tokenizer_encode(tokenizer, &input, &tokens, &error), STATUS_CANCELLED);
        cr_expect_eq(left, UINT32_MAX, "asked no more once it is not wanted");
        left = UINT32_MAX - 1;
        cr_expect_eq(tokenizer_encode(tokenizer, &input, &tokens, &error), STATUS_OK);
        cr_expect_lt(left, UINT32_MAX - 10, "asked now and then");
    }
    free(text);
    tokenizer_destroy(tokenizer);
}
