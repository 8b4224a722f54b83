/* request_codec: a Prefill and a Decode that say the same become the same input; what is absent or does not fit is
 * named. */
#include "base/clock.h"
#include "proto/kvferry/internal/v1/context_worker.pb-c.h"
#include "proto/kvferry/internal/v1/generation_worker.pb-c.h"
#include "worker_common/request_codec.h"

#include <criterion/criterion.h>
#include <string.h>

#define VOCABULARY 100

static uint32_t token_ids[] = {1, 2, 3};
static char request_id[] = "chat-1", cache_salt[] = "tenant";

static Kvferry__V1__SamplingParams some_sampling(void)
{
    struct sampling_params params = SAMPLING_GREEDY;
    Kvferry__V1__SamplingParams message;
    params.max_tokens = 7;
    sampling_encode(&params, &message);
    return message;
}

static void check(const struct request_fields *fields)
{
    struct decoded_request request;
    struct error error = {""};
    cr_assert_eq(request_decode(fields, VOCABULARY, NULL, &request, &error), STATUS_OK, "%s",
                 error.text);
    cr_assert_str_eq(request.input.request_id, request_id);
    cr_assert_eq(request.input.n_tokens, 3);
    cr_assert_eq(request.input.token_ids, token_ids, "borrowed");
    cr_assert_eq(request.input.salt_bytes, strlen(cache_salt));
    cr_assert_arr_eq(request.input.salt, cache_salt, strlen(cache_salt));
    cr_assert_eq(request.input.sampling, &request.sampling);
    cr_assert_eq(request.sampling.max_tokens, 7);
    cr_assert_eq(request.input.standing.tenant, 5);
    cr_assert_eq(request.input.standing.weight, 3);
    cr_assert_eq(request.input.standing.priority, -7);
    cr_assert_eq(request.input.deadline_ns, DEADLINE_NONE, "a call has one, not a message");
}

Test(request_codec, reads_both_messages_alike)
{
    Kvferry__V1__SamplingParams sampling = some_sampling();
    Kvferry__Internal__V1__PrefillRequest prefill = KVFERRY__INTERNAL__V1__PREFILL_REQUEST__INIT;
    Kvferry__Internal__V1__DecodeRequest decode = KVFERRY__INTERNAL__V1__DECODE_REQUEST__INIT;
    prefill.request_id = decode.request_id = request_id;
    prefill.cache_salt = decode.cache_salt = cache_salt;
    prefill.token_ids = decode.token_ids = token_ids;
    prefill.n_token_ids = decode.n_token_ids = 3;
    prefill.sampling = decode.sampling = &sampling;
    Kvferry__Internal__V1__Standing standing;
    standing_encode(&(struct standing){.tenant = 5, .weight = 3, .priority = -7}, &standing);
    prefill.standing = decode.standing = &standing;
    check(&REQUEST_FIELDS_OF(&prefill));
    check(&REQUEST_FIELDS_OF(&decode));
}

Test(request_codec, names_what_is_absent_or_too_long)
{
    Kvferry__V1__SamplingParams sampling = some_sampling();
    Kvferry__Internal__V1__DecodeRequest decode = KVFERRY__INTERNAL__V1__DECODE_REQUEST__INIT;
    struct decoded_request request;
    struct error error = {""};
    cr_assert_eq(request_decode(&REQUEST_FIELDS_OF(&decode), VOCABULARY, NULL, &request, &error),
                 STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(error.text, "sampling"), "%s", error.text);

    decode.sampling = &sampling;
    cr_assert_eq(request_decode(&REQUEST_FIELDS_OF(&decode), VOCABULARY, NULL, &request, &error),
                 STATUS_OK);
    cr_assert_eq(request.input.standing.tenant, 0, "a router without tenants, or an older one");
    decode.n_token_ids = (size_t)UINT32_MAX + 1;
    cr_assert_eq(request_decode(&REQUEST_FIELDS_OF(&decode), VOCABULARY, NULL, &request, &error),
                 STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(error.text, "token_ids"), "%s", error.text);
}

/* A worker without adapters, or of an earlier version, must not compute such a request without. */
Test(request_codec, a_request_with_an_adapter_is_refused_by_who_lacks_it)
{
    struct sampling_params params = SAMPLING_GREEDY;
    struct sampling_message sampling;
    struct decoded_request request;
    struct error error = {""};
    Kvferry__V1__AdapterCard adapter = KVFERRY__V1__ADAPTER_CARD__INIT;
    Kvferry__Internal__V1__DecodeRequest decode = KVFERRY__INTERNAL__V1__DECODE_REQUEST__INIT;
    params.max_tokens = 7;
    sampling_message_make(&params, &sampling);
    sampling_message_adapt(&sampling);
    cr_assert_null(sampling.sampling, "where earlier versions look");
    decode.request_id = request_id;
    decode.token_ids = token_ids;
    decode.n_token_ids = 3;
    decode.ruled_sampling = sampling.ruled_sampling;
    cr_assert_eq(request_decode(&REQUEST_FIELDS_OF(&decode), VOCABULARY, NULL, &request, &error),
                 STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(error.text, "there together, or not at all"), "%s", error.text);
    adapter.name = (char *)"a";
    adapter.digest = (char *)"00112233445566778899aabbccddeeff";
    decode.adapter = &adapter;
    cr_assert_eq(request_decode(&REQUEST_FIELDS_OF(&decode), VOCABULARY, NULL, &request, &error),
                 STATUS_ADAPTER_MISMATCH);
    cr_assert(strstr(error.text, adapter.digest), "%s", error.text);
    adapter.digest = (char *)"0011";
    cr_assert_eq(request_decode(&REQUEST_FIELDS_OF(&decode), VOCABULARY, NULL, &request, &error),
                 STATUS_INVALID_ARGUMENT);
}

/* Of a message with an adapter, what a sender may have wrong. */
Test(request_codec, an_adapter_that_is_none_is_refused_by_name)
{
    static const char DIGEST[] = "00112233445566778899aabbccddeeff";
    static const struct {
        const char *name, *digest;
        bool is_adapted;
        const char *word;
    } BAD[] = {
        {"a", DIGEST, false, "there together, or not at all: adapter is \"a\""},
        {"", DIGEST, true, "adapter is \"\", expected a name of 1 to 64"},
        {"a b", DIGEST, true, "adapter is \"a b\""},
        {"a=b", DIGEST, true, "adapter is \"a=b\""},
        {"a\n", DIGEST, true, "expected a name of 1 to 64"},
        {"a", "", true, "adapter has the digest \"\""},
        {"a", DIGEST + 1, true, "expected 32 hexadecimal digits"},
        {"a", "00112233445566778899AABBCCDDEEFF", true, "expected 32 hexadecimal digits"},
        {"a", "0x112233445566778899aabbccddeeff", true, "expected 32 hexadecimal digits"},
    };
    struct sampling_params params = SAMPLING_GREEDY;
    params.max_tokens = 7;
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        Kvferry__V1__AdapterCard adapter = KVFERRY__V1__ADAPTER_CARD__INIT;
        Kvferry__Internal__V1__PrefillRequest prefill =
            KVFERRY__INTERNAL__V1__PREFILL_REQUEST__INIT;
        struct sampling_message sampling;
        struct decoded_request request;
        struct error error = {""};
        sampling_message_make(&params, &sampling);
        if (BAD[i].is_adapted)
            sampling_message_adapt(&sampling);
        adapter.name = (char *)(uintptr_t)BAD[i].name;
        adapter.digest = (char *)(uintptr_t)BAD[i].digest;
        prefill.request_id = request_id;
        prefill.token_ids = token_ids;
        prefill.n_token_ids = 3;
        prefill.sampling = sampling.sampling;
        prefill.ruled_sampling = sampling.ruled_sampling;
        prefill.adapter = &adapter;
        cr_expect_eq(
            request_decode(&REQUEST_FIELDS_OF(&prefill), VOCABULARY, NULL, &request, &error),
            STATUS_INVALID_ARGUMENT, "%zu", i);
        cr_expect(strstr(error.text, BAD[i].word), "no \"%s\" in \"%s\"", BAD[i].word, error.text);
    }
}
