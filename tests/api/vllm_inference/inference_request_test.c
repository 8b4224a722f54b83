/* inference_request: what vllm.Inference's fields say reaches the router's request, and what is not served is refused by name. */
#include "api/vllm_inference/inference_request.h"
#include "base/standing.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

static struct engine_ask ask;
static struct rpc_error error;
static struct inference_limits limits;
static uint32_t ids[] = {1, 2, 3};
static Vllm__TokenIds prompt = VLLM__TOKEN_IDS__INIT;
static Vllm__GenerateRequest request = VLLM__GENERATE_REQUEST__INIT;
static Vllm__RandomSampling sampling = VLLM__RANDOM_SAMPLING__INIT;
static Vllm__ResponseOptions response = VLLM__RESPONSE_OPTIONS__INIT;
static Vllm__StoppingCriteria stopping = VLLM__STOPPING_CRITERIA__INIT;
static Vllm__DecodingParameters decoding = VLLM__DECODING_PARAMETERS__INIT;
static Vllm__KVCacheParameters kv = VLLM__KVCACHE_PARAMETERS__INIT;

static void begin(void)
{
    prompt.ids = ids;
    prompt.n_ids = 3;
    request.prompt_case = VLLM__GENERATE_REQUEST__PROMPT_TOKEN_IDS;
    request.token_ids = &prompt;
}

TestSuite(inference_request, .init = begin);

static void expect_refused(const char *words)
{
    error = (struct rpc_error){0};
    cr_expect_eq(inference_request_read(&request, &limits, &ask, &error), STATUS_INVALID_ARGUMENT);
    cr_expect(strstr(error.message, words), "%s", error.message);
    cr_expect(error.field[0], "the field is named");
}

static void expect_taken(void)
{
    error = (struct rpc_error){0};
    cr_assert_eq(inference_request_read(&request, &limits, &ask, &error), STATUS_OK, "%s",
                 error.message);
}

Test(inference_request, what_is_not_given_is_the_models_own_but_20_tokens)
{
    expect_taken();
    cr_expect_eq(ask.sampling.max_tokens, 20);
    cr_expect_eq(ask.sampling.temperature_presence_case, 0);
    cr_expect_eq(ask.sampling.top_p_presence_case, 0);
    cr_expect(ask.wants.is_stream && ask.wants.has_text && !ask.wants.has_ids &&
              !ask.wants.has_logprobs);
    stopping.max_new_tokens = 300;
    request.stopping = &stopping;
    expect_taken();
    cr_expect_eq(ask.sampling.max_tokens, 300);
}

Test(inference_request, what_of_the_reply_is_wanted_is_read)
{
    Vllm__CandidateTokens candidates = VLLM__CANDIDATE_TOKENS__INIT;
    request.response = &response;
    response.output_text_presence_case = VLLM__RESPONSE_OPTIONS__OUTPUT_TEXT_PRESENCE_OUTPUT_TEXT;
    response.output_token_ids = response.prompt_token_ids = response.output_logprobs = true;
    response.output_candidates = &candidates;
    expect_taken();
    cr_expect(!ask.wants.has_text && ask.wants.has_ids && ask.wants.has_prompt_ids &&
              ask.wants.has_logprobs);
    cr_expect_eq(ask.wants.n_top, 0, "no selection is none");
    candidates.select_case = VLLM__CANDIDATE_TOKENS__SELECT_TOP_N;
    candidates.top_n = 20;
    expect_taken();
    cr_expect_eq(ask.wants.n_top, 20);
    candidates.top_n = 21;
    expect_refused("response.output_candidates.top_n is 21");
    candidates.select_case = VLLM__CANDIDATE_TOKENS__SELECT_ALL;
    expect_refused("response.output_candidates");
}

Test(inference_request, a_smaller_priority_is_a_larger_one_here)
{
    static const struct {
        int32_t given, most, taken;
    } ROWS[] = {{0, 0, 0},
                {5, 0, -5},
                {-5, 0, 0},
                {-5, 3, 3},
                {-2, 3, 2},
                {INT_MIN, 100, 100},
                {INT_MAX, 100, -STANDING_PRIORITY_MAX}};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        request.priority = ROWS[i].given;
        limits.priority_max = ROWS[i].most;
        expect_taken();
        cr_expect_eq(ask.request.priority, ROWS[i].taken, "%d", ROWS[i].given);
    }
}

Test(inference_request, one_message_has_one_choice)
{
    request.sampling = &sampling;
    sampling.num_sequences = 2;
    expect_taken();
    limits.is_unary = true;
    expect_refused("sampling.num_sequences is 2");
    sampling.num_sequences = 1;
    expect_taken();
    cr_expect(ask.wants.is_unary && !ask.wants.is_stream);
}

Test(inference_request, a_bypassed_cache_is_a_salt_that_nobody_has)
{
    char first[sizeof ask.salt];
    request.kv = &kv;
    kv.cache_salt = (char *)"team";
    expect_taken();
    cr_expect_str_eq(ask.request.cache_salt, "team");
    kv.bypass_prefix_cache = true;
    expect_taken();
    snprintf(first, sizeof first, "%s", ask.request.cache_salt);
    cr_expect_eq(strlen(first), 32);
    expect_taken();
    cr_expect_str_neq(ask.request.cache_salt, first);
}

Test(inference_request, an_adapter_is_named_as_the_model_is)
{
    request.model = (char *)"whatever";
    expect_taken();
    cr_expect_str_eq(ask.request.model, "", "the one model, whatever it is called");
    request.lora_name = (char *)"law";
    expect_taken();
    cr_expect_str_eq(ask.request.model, "law");
    request.lora_name = (char *)"";
}

Test(inference_request, what_is_not_served_is_refused)
{
    static char text[] = "x";
    static uint8_t byte;
    request.decoding = &decoding;
    decoding.structured_output_case = VLLM__DECODING_PARAMETERS__STRUCTURED_OUTPUT_STRUCTURAL_TAG;
    decoding.structural_tag = text;
    expect_refused("decoding.structural_tag");
    decoding.structured_output_case = VLLM__DECODING_PARAMETERS__STRUCTURED_OUTPUT__NOT_SET;
    request.kv = &kv;
    kv.kv_transfer_params = (ProtobufCBinaryData){1, &byte};
    expect_refused("kv.kv_transfer_params");
    request.kv = NULL;
    request.prompt_case = VLLM__GENERATE_REQUEST__PROMPT__NOT_SET;
    expect_refused("prompt");
}
