/* sampling_codec: what goes out comes in equal; gaps are filled or refused, never zeros by accident. */
#include "sampling_params/sampling_codec.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

Test(sampling_codec, parameters_survive_the_wire)
{
    struct sampling_params params = SAMPLING_GREEDY, again;
    params.temperature = 0.5f;
    params.top_k = 3;
    params.seed = UINT64_MAX;
    params.top_p = 0.75f;
    params.min_p = 0.125f;
    params.repetition_penalty = 1.5f;
    params.presence_penalty = -0.25f;
    params.frequency_penalty = 0.375f;
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
    cr_assert_eq(again.top_p, 0.75f);
    cr_assert_eq(again.min_p, 0.125f);
    cr_assert_eq(again.repetition_penalty, 1.5f);
    cr_assert_eq(again.presence_penalty, -0.25f);
    cr_assert_eq(again.frequency_penalty, 0.375f);
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

Test(sampling_codec, what_is_given_goes_over_what_was_there)
{
    struct sampling_params params = SAMPLING_GREEDY;
    params.temperature = 0.7f;
    params.top_k = 40;
    params.min_p = 0.5f;
    Kvferry__V1__SamplingParams message = KVFERRY__V1__SAMPLING_PARAMS__INIT;
    message.top_k_presence_case = KVFERRY__V1__SAMPLING_PARAMS__TOP_K_PRESENCE_TOP_K;
    message.top_k = 0;
    sampling_decode_given(&message, &params);
    cr_assert_eq(params.top_k, 0, "a given zero is no gap");
    cr_assert_eq(params.temperature, 0.7f);
    cr_assert_eq(params.max_tokens, 256);
    cr_assert_eq(params.min_p, 0.5f);
}

Test(sampling_codec, the_sent_message_has_no_gaps)
{
    const struct sampling_params params = {.max_tokens = 5, .top_p = 1, .repetition_penalty = 1};
    struct sampling_params again;
    Kvferry__V1__SamplingParams message;
    struct error error = {0};
    sampling_encode(&params, &message);
    cr_assert_eq(sampling_decode(&message, 10, &again, &error), STATUS_OK, "%s", error.text);
    cr_assert_eq(message.n_stop, 0);
}

Test(token_logprobs, survive_the_wire_up_to_their_bound)
{
    struct token_logprobs logprobs = {.logprob = -0.5f, .n_top = LOGPROBS_MAX}, again;
    struct token_logprobs_message message;
    for (uint32_t i = 0; i < LOGPROBS_MAX; i++) {
        logprobs.top_ids[i] = 100 + i;
        logprobs.top_logprobs[i] = -(float)i;
    }
    token_logprobs_encode(&logprobs, &message);
    cr_assert_eq(token_logprobs_decode(&message.message, &again), STATUS_OK);
    cr_assert_eq(again.logprob, -0.5f);
    cr_assert_eq(again.n_top, LOGPROBS_MAX);
    cr_assert_eq(again.top_ids[LOGPROBS_MAX - 1], 119);
    cr_assert_eq(again.top_logprobs[3], -3);
    message.message.n_top = LOGPROBS_MAX + 1;
    cr_assert_eq(token_logprobs_decode(&message.message, &again), STATUS_INVALID_ARGUMENT);
}
