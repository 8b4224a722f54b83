#include "api/vllm_inference/inference_request.h"

#include "base/hex.h"
#include "base/random.h"
#include "base/standing.h"

#include <inttypes.h>
#include <stdio.h>

#define MAX_TOKENS_ABSENT 20u
#define SALT_BYTES        16
#define NO_PAIRS                                                                                   \
    "this engine places prefill and decode itself: give the gateway its address as one worker"

#define HAS(message, MESSAGE, field, FIELD)                                                        \
    ((message)->field##_presence_case == VLLM__##MESSAGE##__##FIELD##_PRESENCE_##FIELD)

#define CONSTRAIN(KIND) engine_ask_constrain(ask, KVFERRY__V1__CONSTRAINT__KIND_##KIND)

const struct engine_field inference_request_fields[] = {
    {"cache_salt", "kv.cache_salt"},
    {"model", "lora_name"},
    {"sampling.n", "sampling.num_sequences"},
    {"sampling.temperature", "temperature"},
    {"sampling.presence_penalty", "decoding.presence_penalty"},
    {"sampling.frequency_penalty", "decoding.frequency_penalty"},
    {"sampling.repetition_penalty", "decoding.repetition_penalty"},
    {"sampling.allowed_token_ids", "decoding.allowed_token_ids"},
    {"sampling.logit_bias[#].token_id", "decoding.logit_bias[#].key"},
    {"sampling.logit_bias[#].bias", "decoding.logit_bias[#].value"},
    {"sampling.logit_bias", "decoding.logit_bias"},
    {"sampling.constraint.choices", "decoding.choice.choices"},
    {"sampling.constraint.json_schema", "decoding.json"},
    {"sampling.constraint.json_object", "decoding.json_object"},
    {"sampling.constraint.regex", "decoding.regex"},
    {"sampling.constraint.grammar", "decoding.grammar"},
    {"sampling.constraint", "decoding.structured_output"},
    {"sampling.max_tokens", "stopping.max_new_tokens"},
    {"sampling.min_tokens", "stopping.min_new_tokens"},
    {"sampling.stop_token_ids", "stopping.stop_token_ids"},
    {"sampling.stop", "stopping.stop_strings"},
    {"sampling.prompt_logprobs", "response.prompt_logprobs"},
    {"sampling.logprobs", "response.output_candidates.top_n"},
    {0},
};

static enum status read_constraint(const Vllm__DecodingParameters *decoding, struct engine_ask *ask,
                                   struct rpc_error *error)
{
    switch (decoding->structured_output_case) {
    case VLLM__DECODING_PARAMETERS__STRUCTURED_OUTPUT_JSON:
        CONSTRAIN(JSON_SCHEMA)->json_schema = decoding->json;
        break;
    case VLLM__DECODING_PARAMETERS__STRUCTURED_OUTPUT_REGEX:
        CONSTRAIN(REGEX)->regex = decoding->regex;
        break;
    case VLLM__DECODING_PARAMETERS__STRUCTURED_OUTPUT_CHOICE:
        engine_ask_choose(ask, decoding->choice->choices, decoding->choice->n_choices);
        break;
    case VLLM__DECODING_PARAMETERS__STRUCTURED_OUTPUT_GRAMMAR:
        CONSTRAIN(GRAMMAR)->grammar = decoding->grammar;
        break;
    case VLLM__DECODING_PARAMETERS__STRUCTURED_OUTPUT_JSON_OBJECT:
        if (decoding->json_object)
            CONSTRAIN(JSON_OBJECT)->json_object = true;
        break;
    case VLLM__DECODING_PARAMETERS__STRUCTURED_OUTPUT_STRUCTURAL_TAG:
        return engine_ask_refuse("decoding.structural_tag", NULL, "structural tags are not served",
                                 error);
    default:
        break;
    }
    return STATUS_OK;
}

static enum status read_decoding(const Vllm__DecodingParameters *decoding, struct engine_ask *ask,
                                 struct rpc_error *error)
{
    TRY(read_constraint(decoding, ask, error));
    TRY(engine_ask_refuse_if(decoding->n_bad_words_token_ids > 0, "decoding.bad_words_token_ids",
                             "sequences of tokens are not served", error));
    ENGINE_SET(ask, presence_penalty, PRESENCE_PENALTY, decoding->presence_penalty);
    ENGINE_SET(ask, frequency_penalty, FREQUENCY_PENALTY, decoding->frequency_penalty);
    if (decoding->repetition_penalty != 0)
        ENGINE_SET(ask, repetition_penalty, REPETITION_PENALTY, decoding->repetition_penalty);
    ask->sampling.n_allowed_token_ids = decoding->n_allowed_token_ids;
    ask->sampling.allowed_token_ids = decoding->allowed_token_ids;
    TRY(engine_ask_begin_biases(ask, decoding->n_logit_bias, "decoding.logit_bias", error));
    for (size_t i = 0; i < decoding->n_logit_bias; i++)
        engine_ask_add_bias(ask, decoding->logit_bias[i]->key, decoding->logit_bias[i]->value);
    return STATUS_OK;
}

static enum status read_sampling(const Vllm__RandomSampling *sampling,
                                 const struct inference_limits *limits, struct engine_ask *ask,
                                 struct rpc_error *error)
{
    char n[16];
    snprintf(n, sizeof n, "%" PRIu32, sampling->num_sequences);
    if (limits->is_unary && sampling->num_sequences > 1)
        return engine_ask_refuse("sampling.num_sequences", n,
                                 "Generate returns one; GenerateStream returns several", error);
    ask->sampling.n = sampling->num_sequences;
    if (HAS(sampling, RANDOM_SAMPLING, top_k, TOP_K))
        ENGINE_SET(ask, top_k, TOP_K, sampling->top_k);
    if (HAS(sampling, RANDOM_SAMPLING, top_p, TOP_P))
        ENGINE_SET(ask, top_p, TOP_P, sampling->top_p);
    if (HAS(sampling, RANDOM_SAMPLING, min_p, MIN_P))
        ENGINE_SET(ask, min_p, MIN_P, sampling->min_p);
    if (HAS(sampling, RANDOM_SAMPLING, seed, SEED))
        ENGINE_SET(ask, seed, SEED, (uint64_t)sampling->seed);
    return STATUS_OK;
}

static enum status read_stopping(const Vllm__StoppingCriteria *stopping, struct engine_ask *ask,
                                 struct rpc_error *error)
{
    TRY(engine_ask_refuse_if(
        HAS(stopping, STOPPING_CRITERIA, thinking_token_budget, THINKING_TOKEN_BUDGET),
        "stopping.thinking_token_budget", "it is not served", error));
    if (stopping->max_new_tokens > 0)
        ENGINE_SET(ask, max_tokens, MAX_TOKENS, stopping->max_new_tokens);
    ask->sampling.min_tokens = stopping->min_new_tokens;
    ask->sampling.n_stop_token_ids = stopping->n_stop_token_ids;
    ask->sampling.stop_token_ids = stopping->stop_token_ids;
    ask->sampling.n_stop = stopping->n_stop_strings;
    ask->sampling.stop = stopping->stop_strings;
    ask->sampling.include_stop_str_in_output = stopping->include_stop_strings;
    ask->sampling.ignore_eos = stopping->ignore_eos;
    ask->wants.ignores_eos = stopping->ignore_eos;
    return STATUS_OK;
}

static enum status read_candidates(const Vllm__CandidateTokens *candidates, const char *field,
                                   uint32_t *n_top_out, struct rpc_error *error)
{
    *n_top_out = 0;
    if (!candidates)
        return STATUS_OK;
    TRY(engine_ask_refuse_if(candidates->select_case == VLLM__CANDIDATE_TOKENS__SELECT_ALL ||
                                 candidates->select_case ==
                                     VLLM__CANDIDATE_TOKENS__SELECT_TOKEN_IDS,
                             field, "only top_n is served", error));
    if (candidates->select_case == VLLM__CANDIDATE_TOKENS__SELECT_TOP_N)
        *n_top_out = candidates->top_n;
    return STATUS_OK;
}

static enum status read_logprobs(const Vllm__ResponseOptions *response, struct engine_ask *ask,
                                 struct rpc_error *error)
{
    uint32_t n_top;
    TRY(read_candidates(response->prompt_candidates, "response.prompt_candidates", &n_top, error));
    if (response->prompt_logprobs || n_top > 0)
        TRY(engine_ask_scores(ask, n_top, "response.prompt_candidates.top_n", error));
    TRY(read_candidates(response->output_candidates, "response.output_candidates", &n_top, error));
    if (response->output_logprobs || n_top > 0)
        TRY(engine_ask_logprobs(ask, n_top, "response.output_candidates.top_n", error));
    return STATUS_OK;
}

static enum status read_response(const Vllm__ResponseOptions *response, struct engine_ask *ask,
                                 struct rpc_error *error)
{
    ask->wants.has_text = !HAS(response, RESPONSE_OPTIONS, output_text, OUTPUT_TEXT) ||
                          response->output_text;
    ask->wants.has_ids = response->output_token_ids;
    ask->wants.has_prompt_ids = response->prompt_token_ids;
    if (HAS(response, RESPONSE_OPTIONS, skip_special_tokens, SKIP_SPECIAL_TOKENS))
        ENGINE_SET(ask, skip_special_tokens, SKIP_SPECIAL_TOKENS, response->skip_special_tokens);
    return read_logprobs(response, ask, error);
}

/* A salt that nobody else has: no cached prefix is found. */
static enum status draw_salt(struct engine_ask *ask, struct rpc_error *error)
{
    uint8_t bytes[SALT_BYTES];
    _Static_assert(sizeof ask->salt == 2 * SALT_BYTES + 1, "it has room");
    if (random_secret(bytes, sizeof bytes, NULL) != STATUS_OK) {
        rpc_error_set(error, STATUS_IO_FAILED, "kv.bypass_prefix_cache", NULL,
                      "kv.bypass_prefix_cache: no random bits");
        return STATUS_IO_FAILED;
    }
    hex_format(bytes, sizeof bytes, ask->salt);
    ask->request.cache_salt = ask->salt;
    return STATUS_OK;
}

static enum status read_kv(const Vllm__KVCacheParameters *kv, struct engine_ask *ask,
                           struct rpc_error *error)
{
    TRY(engine_ask_refuse_if(kv->kv_transfer_params.len > 0, "kv.kv_transfer_params", NO_PAIRS,
                             error));
    TRY(engine_ask_refuse_if(kv->ec_transfer_params.len > 0, "kv.ec_transfer_params",
                             "it is not served", error));
    ask->request.cache_salt = kv->cache_salt;
    return kv->bypass_prefix_cache ? draw_salt(ask, error) : STATUS_OK;
}

static enum status read_prompt(const Vllm__GenerateRequest *message, struct engine_ask *ask,
                               struct rpc_error *error)
{
    switch (message->prompt_case) {
    case VLLM__GENERATE_REQUEST__PROMPT_TEXT:
        ask->request.prompt_case = KVFERRY__V1__GENERATE_REQUEST__PROMPT_TEXT;
        ask->request.text = message->text;
        return STATUS_OK;
    case VLLM__GENERATE_REQUEST__PROMPT_TOKEN_IDS:
        engine_ask_set_ids(ask, message->token_ids->ids, message->token_ids->n_ids);
        return STATUS_OK;
    default:
        return engine_ask_refuse("prompt", NULL, "text or token_ids must be given", error);
    }
}

/* There smaller ones come first. */
static void read_priority(int32_t given, int32_t priority_max, struct engine_ask *ask)
{
    int64_t priority = -(int64_t)given;
    if (priority > priority_max)
        priority = priority_max;
    if (priority < -STANDING_PRIORITY_MAX)
        priority = -STANDING_PRIORITY_MAX;
    ask->request.priority_presence_case = KVFERRY__V1__GENERATE_REQUEST__PRIORITY_PRESENCE_PRIORITY;
    ask->request.priority = (int32_t)priority;
}

static enum status refuse_others(const Vllm__GenerateRequest *message, struct rpc_error *error)
{
    TRY(engine_ask_refuse_if(message->truncate_prompt_tokens > 0, "truncate_prompt_tokens",
                             "prompts are not cut here", error));
    TRY(engine_ask_refuse_if(message->n_media > 0, "media", "media is not served", error));
    return engine_ask_refuse_if(HAS(message, GENERATE_REQUEST, watermarking, WATERMARKING) &&
                                    message->watermarking,
                                "watermarking", "it is not served", error);
}

static void set_defaults(const struct inference_limits *limits, struct engine_ask *ask)
{
    ask->wants.is_unary = limits->is_unary;
    ask->wants.is_stream = !limits->is_unary;
    ask->wants.has_text = true;
    ENGINE_SET(ask, max_tokens, MAX_TOKENS, MAX_TOKENS_ABSENT);
    ENGINE_SET(ask, repetition_penalty, REPETITION_PENALTY, 1);
}

enum status inference_request_read(const Vllm__GenerateRequest *message,
                                   const struct inference_limits *limits,
                                   struct engine_ask *ask_out, struct rpc_error *error)
{
    engine_ask_init(ask_out);
    set_defaults(limits, ask_out);
    TRY(engine_ask_name(ask_out, message->request_id, error));
    TRY(refuse_others(message, error));
    TRY(read_prompt(message, ask_out, error));
    ask_out->request.model = message->lora_name; /* model is not looked at: there is one */
    read_priority(message->priority, limits->priority_max, ask_out);
    if (HAS(message, GENERATE_REQUEST, temperature, TEMPERATURE))
        ENGINE_SET(ask_out, temperature, TEMPERATURE, message->temperature);
    if (message->sampling)
        TRY(read_sampling(message->sampling, limits, ask_out, error));
    if (message->decoding)
        TRY(read_decoding(message->decoding, ask_out, error));
    if (message->stopping)
        TRY(read_stopping(message->stopping, ask_out, error));
    if (message->response)
        TRY(read_response(message->response, ask_out, error));
    return message->kv ? read_kv(message->kv, ask_out, error) : STATUS_OK;
}
