/* The codecs of both workers: what goes out comes in equal; what is absent or out of range is named. */
#include "worker/identity_codec.h"
#include "worker/sampling_codec.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static struct worker_identity some_identity(void)
{
    struct worker_identity identity = {
        .name = "worker",
        .transport = "am-tcp",
        .ucx_version = "1.13.1",
        .geometry = {.n_layers = 5,
                     .n_kv_heads = 2,
                     .head_dim = 32,
                     .block_tokens = 16,
                     .dtype = KV_BF16,
                     .model_digest = {1, UINT64_MAX}},
        .address = {.worker_bytes = 3, .worker = {7, 8, 9}, .incarnation = 42},
    };
    return identity;
}

Test(identity_codec, an_identity_survives_the_wire)
{
    struct worker_identity identity = some_identity(), again;
    struct identity_message message;
    struct error error = {0};
    identity_encode(&identity, &message);
    cr_assert_eq(identity_decode(&message.message, &again, &error), STATUS_OK, "%s", error.text);
    cr_assert_eq(identity_match(&identity, &again, &error), STATUS_OK, "%s", error.text);
    cr_assert_eq(again.address.incarnation, 42);
    cr_assert_eq(again.address.worker_bytes, 3);
    cr_assert_arr_eq(again.address.worker, identity.address.worker, 3);
    cr_assert_eq(again.geometry.model_digest[1], UINT64_MAX);
}

#define REFUSES_IDENTITY(word, change)                                                             \
    do {                                                                                           \
        struct worker_identity identity = some_identity(), again;                                  \
        struct identity_message message;                                                           \
        struct error error = {0};                                                                  \
        identity_encode(&identity, &message);                                                      \
        change;                                                                                    \
        cr_assert_eq(identity_decode(&message.message, &again, &error), STATUS_INVALID_ARGUMENT,   \
                     word);                                                                        \
        cr_assert_not_null(strstr(error.text, word), "%s", error.text);                            \
    } while (0)

Test(identity_codec, refuses_by_name)
{
    char dtype[] = "f64", short_digest[] = "abc", big_digest[] = "ABCDEF00ABCDEF00ABCDEF00ABCDEF00";
    static uint8_t bytes[4096];
    struct worker_identity identity;
    struct error error = {0};
    cr_assert_eq(identity_decode(NULL, &identity, &error), STATUS_INVALID_ARGUMENT);
    REFUSES_IDENTITY("incarnation", message.message.incarnation = 0);
    REFUSES_IDENTITY("geometry", message.message.geometry = NULL);
    REFUSES_IDENTITY("dtype", message.geometry.dtype = dtype);
    REFUSES_IDENTITY("model_digest", message.geometry.model_digest = short_digest);
    REFUSES_IDENTITY("model_digest", message.geometry.model_digest = big_digest);
    REFUSES_IDENTITY("block_bytes", message.geometry.block_bytes++);
    REFUSES_IDENTITY("n_layers", message.geometry.n_layers = 0);
    REFUSES_IDENTITY("block_tokens", message.geometry.block_tokens = 12);
    REFUSES_IDENTITY("transport_address", message.message.transport_address.data = bytes;
                     message.message.transport_address.len = sizeof bytes);
    REFUSES_IDENTITY("pool_key", message.message.pool_key.data = bytes;
                     message.message.pool_key.len = sizeof bytes);
}

Test(identity_codec, a_pair_that_does_not_fit_is_told_both_values)
{
    struct worker_identity ours = some_identity(), theirs = some_identity();
    struct error error = {0};
    theirs.geometry.block_tokens = 32;
    cr_assert_eq(identity_match(&ours, &theirs, &error), STATUS_GEOMETRY_MISMATCH);
    cr_assert(strstr(error.text, "16") && strstr(error.text, "32"), "%s", error.text);
    theirs = some_identity();
    snprintf(theirs.transport, sizeof theirs.transport, "shm-read");
    cr_assert_eq(identity_match(&ours, &theirs, &error), STATUS_GEOMETRY_MISMATCH);
    cr_assert(strstr(error.text, "am-tcp") && strstr(error.text, "shm-read"), "%s", error.text);
}

Test(sampling_codec, parameters_survive_the_wire)
{
    struct sampling_params params = SAMPLING_GREEDY, again;
    params.temperature = 0.5f;
    params.top_k = 3;
    params.seed = UINT64_MAX;
    params.n_stop_token_ids = 2;
    params.stop_token_ids[1] = 9;
    params.ignore_eos = true;
    params.n_logprobs = 4;
    Kvferry__V1__SamplingParams message;
    struct error error = {0};
    sampling_encode(&params, &message);
    cr_assert_eq(sampling_decode(&message, 10, &again, &error), STATUS_OK, "%s", error.text);
    cr_assert_eq(again.temperature, 0.5f);
    cr_assert_eq(again.top_k, 3);
    cr_assert_eq(again.seed, UINT64_MAX);
    cr_assert_eq(again.n_stop_token_ids, 2);
    cr_assert_eq(again.stop_token_ids[1], 9);
    cr_assert(again.ignore_eos);
    cr_assert_eq(again.n_logprobs, 4);
}

Test(sampling_codec, inner_requests_are_complete_and_in_range)
{
    struct sampling_params params = SAMPLING_GREEDY, again;
    Kvferry__V1__SamplingParams message;
    struct error error = {0};
    cr_assert_eq(sampling_decode(NULL, 10, &again, &error), STATUS_INVALID_ARGUMENT);
    sampling_encode(&params, &message);
    message.seed_presence_case = 0;
    cr_assert_eq(sampling_decode(&message, 10, &again, &error), STATUS_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(error.text, "seed"));
    sampling_encode(&params, &message);
    message.temperature = NAN;
    cr_assert_eq(sampling_decode(&message, 10, &again, &error), STATUS_INVALID_ARGUMENT);
    uint32_t ids[17] = {0};
    sampling_encode(&params, &message);
    message.stop_token_ids = ids;
    message.n_stop_token_ids = 17;
    cr_assert_eq(sampling_decode(&message, 10, &again, &error), STATUS_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(error.text, "stop_token_ids"));
}
