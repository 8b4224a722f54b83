#include "engine/encoder_line.h"
#include "engine/engine_request.h"
#include "kvcache/prefix_hash.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { VOCABULARY = 100 };

static const uint32_t TOKENS[] = {5, 99, 0};

struct longer {
    struct engine_request request;
    uint64_t own;
};

static struct engine_request_input input(const char *request_id)
{
    return (struct engine_request_input){.request_id = request_id,
                                         .token_ids = TOKENS,
                                         .n_tokens = 3,
                                         .sampling = &SAMPLING_GREEDY,
                                         .salt = "salt",
                                         .salt_bytes = 4,
                                         .deadline_ns = 77};
}

Test(engine_request, is_a_copy_in_one_allocation)
{
    struct engine_request_input given = input("chat-1");
    struct engine_request *request;
    int stream;
    cr_assert_eq(engine_request_create(sizeof(struct longer), &given, &stream, NULL, &request),
                 STATUS_OK);
    cr_assert_eq(request->stream, &stream);
    cr_assert_str_eq(request->request_id, "chat-1");
    cr_assert_eq(request->request_number, engine_request_number("chat-1"));
    cr_assert_eq(request->salt_bytes, 4);
    cr_assert_eq(memcmp(request->salt, "salt", 4), 0);
    cr_assert_eq(request->deadline_ns, 77);
    cr_assert_eq(request->n_tokens, 3);
    cr_assert_neq(request->token_ids, TOKENS);
    cr_assert_eq(memcmp(request->token_ids, TOKENS, sizeof TOKENS), 0);
    cr_assert_eq(((struct longer *)request)->own, 0);
    ((struct longer *)request)->own = UINT64_MAX; /* nothing of the tokens' */
    cr_assert_eq(request->token_ids[0], 5);
    engine_request_destroy(request);
    engine_request_destroy(NULL);
}

/* A text for an encoder, hashed with blocks of 4. Returns whether its tokens may be told. */
static bool hash_text(const uint32_t *text, uint32_t n_text, const char *salt,
                      struct prefix_hash hashes[4])
{
    static const struct prefix_key KEY = {{7}};
    static const struct encoder_line LINE = {
        .text_max = 12, .reply_max = 4, .block_tokens = 4, .start_id = 1};
    const struct engine_request_input given = {.request_id = "text",
                                               .token_ids = text,
                                               .n_tokens = n_text,
                                               .sampling = &SAMPLING_GREEDY,
                                               .salt = salt,
                                               .salt_bytes = strlen(salt),
                                               .line = &LINE};
    struct engine_request *request;
    cr_assert_eq(engine_request_create(sizeof *request, &given, NULL, NULL, &request), STATUS_OK);
    engine_request_hash(request, &KEY, request->token_ids, request->n_tokens, LINE.block_tokens,
                        hashes);
    const bool is_common = engine_request_is_common(request);
    engine_request_destroy(request);
    return is_common;
}

/* Each of a text's blocks depends on the whole of it: as beginnings they would be told to others in vain. */
Test(engine_request, texts_of_an_encoder_share_no_beginning_and_are_not_told)
{
    static const uint32_t TEXT[] = {5, 6, 7, 8, 9, 10, 11, 1};
    struct prefix_hash whole[4], again[4], shorter[4], filled[4], apart[4];
    cr_expect_not(hash_text(TEXT, 8, "", whole));
    cr_expect_not(hash_text(TEXT, 8, "", again));
    cr_expect_not(hash_text(TEXT, 6, "", shorter));
    cr_expect_not(hash_text(TEXT, 7, "", filled)); /* its filling is the last token of the whole */
    cr_expect_not(hash_text(TEXT, 8, "salt", apart));
    cr_expect_eq(memcmp(whole, again, 2 * sizeof *whole), 0);
    for (int i = 0; i < 2; i++) {
        cr_expect_neq(whole[i].hi, shorter[i].hi);
        cr_expect_neq(whole[i].hi, filled[i].hi);
        cr_expect_neq(whole[i].hi, apart[i].hi);
    }
}

Test(engine_request, tokens_of_a_prompt_without_a_salt_may_be_told)
{
    struct engine_request_input given = input("prompt");
    for (int i = 0; i < 2; i++) {
        struct engine_request *request;
        given.salt_bytes = i ? 0 : 4;
        cr_assert_eq(engine_request_create(sizeof *request, &given, NULL, NULL, &request),
                     STATUS_OK);
        cr_expect_eq(engine_request_is_common(request), i == 1);
        engine_request_destroy(request);
    }
}

Test(engine_request, text_that_is_refused_is_named)
{
    char id[ENGINE_REQUEST_ID_MAX + 2];
    struct error error;
    struct engine_request_input given = input("");
    cr_assert_eq(engine_request_check_text(&given, &error), STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(error.text, "request_id has 0 bytes, wanted 1 to 128");
    given.request_id = NULL;
    cr_assert_eq(engine_request_check_text(&given, &error), STATUS_INVALID_ARGUMENT);
    memset(id, 'x', sizeof id);
    id[ENGINE_REQUEST_ID_MAX + 1] = '\0';
    given.request_id = id;
    cr_assert_eq(engine_request_check_text(&given, &error), STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(error.text, "request_id has 129 bytes, wanted 1 to 128");
    id[ENGINE_REQUEST_ID_MAX] = '\0';
    cr_assert_eq(engine_request_check_text(&given, &error), STATUS_OK);
    given.salt_bytes = ENGINE_SALT_MAX + 1;
    cr_assert_eq(engine_request_check_text(&given, &error), STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(error.text, "cache_salt has 129 bytes, at most 128");
}

Test(engine_request, tokens_that_are_refused_are_named)
{
    struct error error;
    struct engine_request_input given = input("a");
    cr_assert_eq(engine_request_check_tokens(&given, VOCABULARY, &error), STATUS_OK);
    cr_assert_eq(engine_request_check_tokens(&given, VOCABULARY - 1, &error),
                 STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(error.text, "token_ids[1] is 99, the vocabulary has 99");
    given.n_tokens = 0;
    cr_assert_eq(engine_request_check_tokens(&given, VOCABULARY, &error), STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(error.text, "token_ids is empty");
}

/* ---- adapters ---- */

static uint32_t n_shares, n_releases;

static struct adapter *count_share(struct adapter *adapter)
{
    n_shares++;
    return adapter;
}

static void count_release(struct adapter *adapter)
{
    (void)adapter;
    n_releases++;
}

/* The hash of one block of a prompt. */
static struct prefix_hash hash_with(const struct request_adapter *adapter, const char *salt,
                                    size_t salt_bytes, bool *is_common_out)
{
    static const struct prefix_key KEY = {{7}};
    static const uint32_t BLOCK[] = {1, 2, 3, 4};
    struct engine_request_input given = input("adapted");
    struct engine_request *request;
    struct prefix_hash hash;
    given.token_ids = BLOCK;
    given.n_tokens = 4;
    given.salt = salt;
    given.salt_bytes = salt_bytes;
    given.adapter = adapter;
    cr_assert_eq(engine_request_create(sizeof *request, &given, NULL, NULL, &request), STATUS_OK);
    engine_request_hash(request, &KEY, BLOCK, 4, 4, &hash);
    *is_common_out = engine_request_is_common(request);
    engine_request_destroy(request);
    return hash;
}

Test(engine_request, an_adapter_is_part_of_the_hash_and_held)
{
    int stands_for_one;
    struct request_adapter adapter = {.id = {.name = "a", .digest = {1, 2}},
                                      .adapter = (struct adapter *)(void *)&stands_for_one,
                                      .share = count_share,
                                      .release = count_release};
    struct request_adapter other = adapter;
    bool is_common[4];
    other.id.digest[1] = 3;
    const struct prefix_hash alone = hash_with(NULL, "", 0, &is_common[0]);
    const struct prefix_hash with = hash_with(&adapter, "", 0, &is_common[1]);
    const struct prefix_hash with_other = hash_with(&other, "", 0, &is_common[2]);
    const struct prefix_hash as_salt = hash_with(NULL, (const char *)adapter.id.digest,
                                                 sizeof adapter.id.digest, &is_common[3]);
    cr_assert(is_common[0] && !is_common[1] && !is_common[2]);
    cr_assert_not(prefix_hash_equal(alone, with));
    cr_assert_not(prefix_hash_equal(with, with_other));
    cr_assert_not(prefix_hash_equal(with, as_salt), "no salt of a client is an adapter's");
    cr_assert(prefix_hash_equal(with, hash_with(&adapter, "", 0, &is_common[1])));
    cr_assert_not(prefix_hash_equal(with, hash_with(&adapter, "salt", 4, &is_common[1])));
    cr_assert_eq(n_shares, 4);
    cr_assert_eq(n_releases, 4);
}

/* ---- numbers ---- */

Test(engine_request, the_number_of_a_drawn_name_is_read)
{
    cr_assert_eq(engine_request_number("00000000000000ff1234567890abcdef"), 0xff);
    cr_assert_eq(engine_request_number("fedcba9876543210"), 0xfedcba9876543210);
}

Test(engine_request, the_number_of_another_name_is_a_hash)
{
    uint64_t name = engine_request_number("chat-1"), other = engine_request_number("chat-2");
    cr_assert_neq(name, other);
    cr_assert_eq(name, engine_request_number("chat-1"));
    cr_assert_neq(engine_request_number("00000000000000f"), 0xf, "fifteen digits");
    cr_assert_neq(engine_request_number("00000000000000FF"), 0xff, "capitals");
}

Test(engine_request, no_number_is_zero)
{
    cr_assert_eq(engine_request_number("0000000000000000"), 1);
    cr_assert_neq(engine_request_number(""), 0);
}
