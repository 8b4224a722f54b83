/* standing_codec: what a router says of a request reaches a worker, and neighbours of an older build are understood. */
#include "proto/kvferry/internal/v1/context_worker.pb-c.h"
#include "proto/kvferry/internal/v1/generation_worker.pb-c.h"
#include "sampling_params/standing_codec.h"

#include <criterion/criterion.h>
#include <string.h>

static const struct standing GIVEN = {
    .tenant = 0xfedcba9876543210u, .weight = 1000, .priority = -100};

static void expect_given(const Kvferry__Internal__V1__Standing *message)
{
    struct standing standing;
    standing_decode(message, &standing);
    cr_assert_eq(standing.tenant, GIVEN.tenant);
    cr_assert_eq(standing.weight, GIVEN.weight);
    cr_assert_eq(standing.priority, GIVEN.priority);
}

Test(standing_codec, crosses_in_decode_and_prefill)
{
    uint8_t bytes[128];
    Kvferry__Internal__V1__Standing standing;
    Kvferry__Internal__V1__DecodeRequest decode = KVFERRY__INTERNAL__V1__DECODE_REQUEST__INIT;
    Kvferry__Internal__V1__PrefillRequest prefill = KVFERRY__INTERNAL__V1__PREFILL_REQUEST__INIT;
    standing_encode(&GIVEN, &standing);
    decode.standing = prefill.standing = &standing;

    size_t n = kvferry__internal__v1__decode_request__pack(&decode, bytes);
    Kvferry__Internal__V1__DecodeRequest *decoded = kvferry__internal__v1__decode_request__unpack(
        NULL, n, bytes);
    cr_assert_not_null(decoded);
    expect_given(decoded->standing);
    kvferry__internal__v1__decode_request__free_unpacked(decoded, NULL);

    n = kvferry__internal__v1__prefill_request__pack(&prefill, bytes);
    Kvferry__Internal__V1__PrefillRequest
        *prefilled = kvferry__internal__v1__prefill_request__unpack(NULL, n, bytes);
    cr_assert_not_null(prefilled);
    expect_given(prefilled->standing);
    kvferry__internal__v1__prefill_request__free_unpacked(prefilled, NULL);
}

Test(standing_codec, of_an_older_sender_it_is_as_without_tenants)
{
    struct standing standing = GIVEN;
    standing_decode(NULL, &standing);
    cr_assert_eq(standing.tenant, 0);
    cr_assert_eq(standing.weight, 0, "which counts as 1");
    cr_assert_eq(standing.priority, 0);
}

/* The fields of Decode and of Prefill as they were have other numbers: an older build skips it as unknown. */
Test(standing_codec, an_older_receiver_skips_it)
{
    const ProtobufCMessageDescriptor *decode = &kvferry__internal__v1__decode_request__descriptor;
    const ProtobufCMessageDescriptor *prefill = &kvferry__internal__v1__prefill_request__descriptor;
    cr_assert_eq(protobuf_c_message_descriptor_get_field_by_name(decode, "standing")->id, 7);
    cr_assert_eq(protobuf_c_message_descriptor_get_field_by_name(prefill, "standing")->id, 9);

    /* A message that has neither field, as a build of then knew none. */
    uint8_t bytes[128];
    Kvferry__Internal__V1__Standing standing;
    Kvferry__Internal__V1__PrefillRequest request = KVFERRY__INTERNAL__V1__PREFILL_REQUEST__INIT;
    standing_encode(&GIVEN, &standing);
    request.standing = &standing;
    size_t n = kvferry__internal__v1__prefill_request__pack(&request, bytes);
    Kvferry__Internal__V1__AbortRequest *older = kvferry__internal__v1__abort_request__unpack(
        NULL, n, bytes);
    cr_assert_not_null(older);
    cr_assert_eq(older->base.n_unknown_fields, 1);
    kvferry__internal__v1__abort_request__free_unpacked(older, NULL);
}

Test(standing_codec, whatever_is_out_of_range_is_refused_with_field_and_value)
{
    struct error error = {""};
    struct standing standing = GIVEN;
    cr_assert_eq(standing_check(&standing, &error), STATUS_OK);
    standing.weight = 1001;
    cr_assert_eq(standing_check(&standing, &error), STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(error.text, "standing.weight is 1001, wanted 0 to 1000");
    standing = (struct standing){.priority = 101};
    cr_assert_eq(standing_check(&standing, &error), STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(error.text, "standing.priority is 101, wanted -100 to 100");
    standing.priority = INT32_MIN;
    cr_assert_eq(standing_check(&standing, &error), STATUS_INVALID_ARGUMENT);
}
