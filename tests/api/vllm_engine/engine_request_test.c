/* engine_request: what VllmEngine's fields say reaches the router's request, and what is not served is refused by name. */
#include "api/vllm_engine/engine_request.h"

#include <criterion/criterion.h>
#include <string.h>

static struct engine_ask ask;
static struct rpc_error error;
static uint32_t ids[] = {1, 2, 3};
static Vllm__Grpc__Engine__TokenizedInput input = VLLM__GRPC__ENGINE__TOKENIZED_INPUT__INIT;
static Vllm__Grpc__Engine__SamplingParams params = VLLM__GRPC__ENGINE__SAMPLING_PARAMS__INIT;
static Vllm__Grpc__Engine__GenerateRequest request = VLLM__GRPC__ENGINE__GENERATE_REQUEST__INIT;

static void begin(void)
{
    input.input_ids = ids;
    input.n_input_ids = 3;
    request.input_case = VLLM__GRPC__ENGINE__GENERATE_REQUEST__INPUT_TOKENIZED;
    request.tokenized = &input;
    request.sampling_params = &params;
}

TestSuite(engine_request, .init = begin);

#define GIVE(field, FIELD, value)                                                                  \
    (params                                                                                        \
         .field##_presence_case = VLLM__GRPC__ENGINE__SAMPLING_PARAMS__##FIELD##_PRESENCE_##FIELD, \
     params.field = (value))

static void expect_refused(const char *words)
{
    error = (struct rpc_error){0};
    cr_expect_eq(engine_request_read(&request, &ask, &error), STATUS_INVALID_ARGUMENT);
    cr_expect(strstr(error.message, words), "%s", error.message);
    cr_expect(error.field[0], "the field is named");
}

static void expect_taken(void)
{
    error = (struct rpc_error){0};
    cr_assert_eq(engine_request_read(&request, &ask, &error), STATUS_OK, "%s", error.message);
}

Test(engine_request, what_is_zero_there_has_no_effect_here)
{
    request.sampling_params = NULL;
    expect_taken();
    cr_expect_eq(ask.sampling.temperature, 1);
    cr_expect_eq(ask.sampling.top_p, 1);
    cr_expect_eq(ask.sampling.repetition_penalty, 1);
    cr_expect_eq(ask.sampling.max_tokens_presence_case, 0, "to the context's end");
    cr_expect_eq(ask.sampling.seed_presence_case, 0);
    cr_expect_eq(ask.sampling.logprobs, 0);
    cr_expect_not(ask.wants.is_stream);
    cr_expect_eq(ask.ids.n_ids, 3);
    cr_expect_eq(ask.ids.ids, ids);
}

Test(engine_request, what_is_given_is_taken)
{
    request.stream = true;
    request.request_id = (char *)"mine";
    GIVE(temperature, TEMPERATURE, 0);
    GIVE(max_tokens, MAX_TOKENS, 7);
    GIVE(seed, SEED, -1);
    GIVE(logprobs, LOGPROBS, 0);
    params.top_p = 0.5f;
    params.top_k = 40;
    params.n = 3;
    params.min_tokens = 2;
    params.ignore_eos = true;
    Vllm__Grpc__Engine__LogitBias bias = VLLM__GRPC__ENGINE__LOGIT_BIAS__INIT;
    Vllm__Grpc__Engine__LogitBias *biases[] = {&bias};
    bias.key = 9;
    bias.value = -5;
    params.n_logit_bias = 1;
    params.logit_bias = biases;
    expect_taken();
    cr_expect_str_eq(ask.client_id, "mine");
    cr_expect_str_eq(ask.request.request_id, "", "an own name would have to be the only one");
    cr_expect(ask.wants.is_stream && ask.wants.has_logprobs);
    cr_expect_eq(ask.wants.n_top, 0);
    cr_expect_eq(ask.sampling.logprobs, 1, "the generated token's comes with the likeliest");
    cr_expect_eq(ask.sampling.temperature, 0);
    cr_expect_eq(ask.sampling.max_tokens, 7);
    cr_expect_eq(ask.sampling.seed, UINT64_MAX);
    cr_expect_eq(ask.sampling.top_k, 40);
    cr_expect_eq(ask.sampling.n, 3);
    cr_expect_eq(ask.sampling.min_tokens, 2);
    cr_expect(ask.sampling.ignore_eos);
    cr_expect_eq(ask.sampling.n_logit_bias, 1);
    cr_expect_eq(ask.sampling.logit_bias[0]->token_id, 9);
    cr_expect_eq(ask.sampling.logit_bias[0]->bias, -5);
}

Test(engine_request, a_service_reads_one_request_after_the_other)
{
    GIVE(logprobs, LOGPROBS, 3);
    params.n = 4;
    expect_taken();
    params = (Vllm__Grpc__Engine__SamplingParams)VLLM__GRPC__ENGINE__SAMPLING_PARAMS__INIT;
    expect_taken();
    cr_expect_eq(ask.sampling.n, 0);
    cr_expect_eq(ask.sampling.logprobs, 0);
    cr_expect_not(ask.wants.has_logprobs);
}

Test(engine_request, ids_have_a_bound)
{
    char id[ENGINE_ID_MAX + 2];
    memset(id, 'i', sizeof id);
    id[ENGINE_ID_MAX] = '\0';
    request.request_id = id;
    expect_taken();
    id[ENGINE_ID_MAX] = 'i';
    id[ENGINE_ID_MAX + 1] = '\0';
    expect_refused("request_id has 513 bytes; at most 512 are taken");
}

Test(engine_request, a_constraint_is_never_ignored)
{
    static char text[] = "x";
    static char *texts[] = {text, text};
    Vllm__Grpc__Engine__ChoiceConstraint choice = VLLM__GRPC__ENGINE__CHOICE_CONSTRAINT__INIT;
    params.constraint_case = VLLM__GRPC__ENGINE__SAMPLING_PARAMS__CONSTRAINT_STRUCTURAL_TAG;
    params.structural_tag = text;
    expect_refused("sampling_params.structural_tag");
    params.constraint_case = VLLM__GRPC__ENGINE__SAMPLING_PARAMS__CONSTRAINT_JSON_OBJECT;
    params.json_object = false;
    expect_taken();
    cr_expect_null(ask.sampling.constraint);
    params.json_object = true;
    expect_taken();
    cr_assert_not_null(ask.sampling.constraint);
    cr_expect_eq(ask.constraint.kind_case, KVFERRY__V1__CONSTRAINT__KIND_JSON_OBJECT);
    cr_expect(ask.constraint.json_object);
    params.constraint_case = VLLM__GRPC__ENGINE__SAMPLING_PARAMS__CONSTRAINT_REGEX;
    params.regex = text;
    expect_taken();
    cr_expect_eq(ask.constraint.kind_case, KVFERRY__V1__CONSTRAINT__KIND_REGEX);
    cr_expect_eq(ask.constraint.regex, text);
    choice.choices = texts;
    choice.n_choices = 2;
    params.constraint_case = VLLM__GRPC__ENGINE__SAMPLING_PARAMS__CONSTRAINT_CHOICE;
    params.choice = &choice;
    expect_taken();
    cr_expect_eq(ask.constraint.kind_case, KVFERRY__V1__CONSTRAINT__KIND_CHOICES);
    cr_expect_eq(ask.choices.n_texts, 2);
    params.constraint_case = VLLM__GRPC__ENGINE__SAMPLING_PARAMS__CONSTRAINT__NOT_SET;
    expect_taken();
    cr_expect_null(ask.sampling.constraint, "of the request before");
}

Test(engine_request, counts_beyond_the_bounds_are_refused_with_their_value)
{
    GIVE(logprobs, LOGPROBS, 21);
    expect_refused("sampling_params.logprobs is 21");
    GIVE(logprobs, LOGPROBS, -1);
    expect_refused("sampling_params.logprobs is -1");
    GIVE(logprobs, LOGPROBS, 20);
    expect_taken();
    params.n_logit_bias = LOGIT_BIASES_MAX + 1;
    expect_refused("logit_bias has 1025 entries; at most 1024");
}

Test(engine_request, pairs_media_and_text_are_refused)
{
    static uint8_t byte;
    const ProtobufCBinaryData some = {1, &byte};
    request.kv_transfer_params = some;
    expect_refused("kv_transfer_params");
    request.kv_transfer_params = (ProtobufCBinaryData){0};
    request.mm_inputs = some;
    expect_refused("mm_inputs");
    request.mm_inputs = (ProtobufCBinaryData){0};
    request.input_case = VLLM__GRPC__ENGINE__GENERATE_REQUEST__INPUT_TEXT;
    request.text = some;
    expect_refused("tokenized");
    request.input_case = VLLM__GRPC__ENGINE__GENERATE_REQUEST__INPUT__NOT_SET;
    expect_refused("tokenized");
}
