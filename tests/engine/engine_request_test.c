#include "engine/engine_request.h"

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
