#include "api/vllm_engine/engine_request.h"

#define PARAMS   "sampling_params."
#define NO_MEDIA "media is not served"
#define NO_PAIRS                                                                                   \
    "this engine places prefill and decode itself: give the gateway its address as one worker"

typedef Vllm__Grpc__Engine__SamplingParams params_message;

/* Whether an optional field is given. */
#define HAS(message, MESSAGE, field, FIELD)                                                        \
    ((message)->field##_presence_case ==                                                           \
     VLLM__GRPC__ENGINE__##MESSAGE##__##FIELD##_PRESENCE_##FIELD)
#define HAS_PARAM(params, field, FIELD) HAS(params, SAMPLING_PARAMS, field, FIELD)

#define CONSTRAIN(KIND) engine_ask_constrain(ask, KVFERRY__V1__CONSTRAINT__KIND_##KIND)

const struct engine_field engine_request_fields[] = {
    {"prompt", "tokenized.input_ids"},
    {"token_ids.ids", "tokenized.input_ids"},
    {"token_ids", "tokenized.input_ids"},
    {"sampling.constraint.choices", PARAMS "choice.choices"},
    {"sampling.constraint.json_schema", PARAMS "json_schema"},
    {"sampling.constraint.json_object", PARAMS "json_object"},
    {"sampling.constraint.regex", PARAMS "regex"},
    {"sampling.constraint.grammar", PARAMS "grammar"},
    {"sampling.logit_bias[#].token_id", PARAMS "logit_bias[#].key"},
    {"sampling.logit_bias[#].bias", PARAMS "logit_bias[#].value"},
    {"sampling", "sampling_params"},
    {0},
};

static enum status read_constraint(const params_message *params, struct engine_ask *ask,
                                   struct rpc_error *error)
{
    switch (params->constraint_case) {
    case VLLM__GRPC__ENGINE__SAMPLING_PARAMS__CONSTRAINT_JSON_SCHEMA:
        CONSTRAIN(JSON_SCHEMA)->json_schema = params->json_schema;
        break;
    case VLLM__GRPC__ENGINE__SAMPLING_PARAMS__CONSTRAINT_REGEX:
        CONSTRAIN(REGEX)->regex = params->regex;
        break;
    case VLLM__GRPC__ENGINE__SAMPLING_PARAMS__CONSTRAINT_GRAMMAR:
        CONSTRAIN(GRAMMAR)->grammar = params->grammar;
        break;
    case VLLM__GRPC__ENGINE__SAMPLING_PARAMS__CONSTRAINT_JSON_OBJECT:
        if (params->json_object)
            CONSTRAIN(JSON_OBJECT)->json_object = true;
        break;
    case VLLM__GRPC__ENGINE__SAMPLING_PARAMS__CONSTRAINT_CHOICE:
        engine_ask_choose(ask, params->choice->choices, params->choice->n_choices);
        break;
    case VLLM__GRPC__ENGINE__SAMPLING_PARAMS__CONSTRAINT_STRUCTURAL_TAG:
        return engine_ask_refuse(PARAMS "structural_tag", NULL, "structural tags are not served",
                                 error);
    default:
        break;
    }
    return STATUS_OK;
}

/* Zero is what is not given, but for temperature. */
static void read_numbers(const params_message *params, struct engine_ask *ask)
{
    ENGINE_SET(ask, temperature, TEMPERATURE,
               HAS_PARAM(params, temperature, TEMPERATURE) ? params->temperature : 1);
    ENGINE_SET(ask, top_p, TOP_P, params->top_p != 0 ? params->top_p : 1);
    ENGINE_SET(ask, top_k, TOP_K, params->top_k);
    ENGINE_SET(ask, min_p, MIN_P, params->min_p);
    ENGINE_SET(ask, repetition_penalty, REPETITION_PENALTY,
               params->repetition_penalty != 0 ? params->repetition_penalty : 1);
    ENGINE_SET(ask, presence_penalty, PRESENCE_PENALTY, params->presence_penalty);
    ENGINE_SET(ask, frequency_penalty, FREQUENCY_PENALTY, params->frequency_penalty);
    if (HAS_PARAM(params, max_tokens, MAX_TOKENS))
        ENGINE_SET(ask, max_tokens, MAX_TOKENS, params->max_tokens);
    if (HAS_PARAM(params, seed, SEED))
        ENGINE_SET(ask, seed, SEED, (uint64_t)(int64_t)params->seed);
    ask->sampling.n = params->n;
    ask->sampling.min_tokens = params->min_tokens;
}

static void read_ends(const params_message *params, struct engine_ask *ask)
{
    ask->sampling.n_stop = params->n_stop;
    ask->sampling.stop = params->stop;
    ask->sampling.n_stop_token_ids = params->n_stop_token_ids;
    ask->sampling.stop_token_ids = params->stop_token_ids;
    ask->sampling.ignore_eos = params->ignore_eos;
    ask->sampling.include_stop_str_in_output = params->include_stop_str_in_output;
    ENGINE_SET(ask, skip_special_tokens, SKIP_SPECIAL_TOKENS, params->skip_special_tokens);
}

static enum status read_biases(const params_message *params, struct engine_ask *ask,
                               struct rpc_error *error)
{
    TRY(engine_ask_begin_biases(ask, params->n_logit_bias, PARAMS "logit_bias", error));
    for (size_t i = 0; i < params->n_logit_bias; i++) /* a negative id is beyond any vocabulary */
        engine_ask_add_bias(ask, (uint32_t)params->logit_bias[i]->key,
                            params->logit_bias[i]->value);
    return STATUS_OK;
}

static enum status read_params(const params_message *params, struct engine_ask *ask,
                               struct rpc_error *error)
{
    TRY(read_constraint(params, ask, error));
    TRY(engine_ask_refuse_if(HAS_PARAM(params, truncate_prompt_tokens, TRUNCATE_PROMPT_TOKENS),
                             PARAMS "truncate_prompt_tokens", "prompts are not cut here", error));
    read_numbers(params, ask);
    read_ends(params, ask);
    if (HAS_PARAM(params, logprobs, LOGPROBS))
        TRY(engine_ask_logprobs(ask, params->logprobs, PARAMS "logprobs", error));
    if (HAS_PARAM(params, prompt_logprobs, PROMPT_LOGPROBS))
        TRY(engine_ask_scores(ask, params->prompt_logprobs, PARAMS "prompt_logprobs", error));
    return read_biases(params, ask, error);
}

static enum status read_prompt(const Vllm__Grpc__Engine__GenerateRequest *message,
                               struct engine_ask *ask, struct rpc_error *error)
{
    TRY(engine_ask_refuse_if(message->mm_inputs.len > 0, "mm_inputs", NO_MEDIA, error));
    TRY(engine_ask_refuse_if(message->media_refs.len > 0, "media_refs", NO_MEDIA, error));
    TRY(engine_ask_refuse_if(message->n_extra_mm_inputs > 0, "extra_mm_inputs", NO_MEDIA, error));
    TRY(engine_ask_refuse_if(message->kv_transfer_params.len > 0, "kv_transfer_params", NO_PAIRS,
                             error));
    TRY(engine_ask_refuse_if(
        HAS(message, GENERATE_REQUEST, kv_transfer_params_json, KV_TRANSFER_PARAMS_JSON),
        "kv_transfer_params_json", NO_PAIRS, error));
    TRY(engine_ask_refuse_if(
        HAS(message, GENERATE_REQUEST, data_parallel_rank, DATA_PARALLEL_RANK) &&
            message->data_parallel_rank > 0,
        "data_parallel_rank", "there is one rank, 0", error));
    if (message->input_case != VLLM__GRPC__ENGINE__GENERATE_REQUEST__INPUT_TOKENIZED ||
        !message->tokenized)
        return engine_ask_refuse("tokenized", NULL, "prompts must be token ids", error);
    engine_ask_set_ids(ask, message->tokenized->input_ids, message->tokenized->n_input_ids);
    return STATUS_OK;
}

enum status engine_request_read(const Vllm__Grpc__Engine__GenerateRequest *message,
                                struct engine_ask *ask_out, struct rpc_error *error)
{
    static const params_message NONE = VLLM__GRPC__ENGINE__SAMPLING_PARAMS__INIT;
    engine_ask_init(ask_out);
    ask_out->wants.is_stream = message->stream;
    ask_out->wants.has_ids = true;
    TRY(engine_ask_name(ask_out, message->request_id, error));
    TRY(read_prompt(message, ask_out, error));
    return read_params(message->sampling_params ? message->sampling_params : &NONE, ask_out, error);
}
