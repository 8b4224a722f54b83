#include "sampling.h"

void sampling_complete(Kvferry__V1__SamplingParams *sampling_out)
{
    kvferry__v1__sampling_params__init(sampling_out);
    sampling_out
        ->max_tokens_presence_case = KVFERRY__V1__SAMPLING_PARAMS__MAX_TOKENS_PRESENCE_MAX_TOKENS;
    sampling_out->max_tokens = 4;
    sampling_out->temperature_presence_case =
        KVFERRY__V1__SAMPLING_PARAMS__TEMPERATURE_PRESENCE_TEMPERATURE;
    sampling_out->top_k_presence_case = KVFERRY__V1__SAMPLING_PARAMS__TOP_K_PRESENCE_TOP_K;
    sampling_out->top_p_presence_case = KVFERRY__V1__SAMPLING_PARAMS__TOP_P_PRESENCE_TOP_P;
    sampling_out->top_p = 1;
    sampling_out->min_p_presence_case = KVFERRY__V1__SAMPLING_PARAMS__MIN_P_PRESENCE_MIN_P;
    sampling_out->presence_penalty_presence_case =
        KVFERRY__V1__SAMPLING_PARAMS__PRESENCE_PENALTY_PRESENCE_PRESENCE_PENALTY;
    sampling_out->frequency_penalty_presence_case =
        KVFERRY__V1__SAMPLING_PARAMS__FREQUENCY_PENALTY_PRESENCE_FREQUENCY_PENALTY;
    sampling_out->repetition_penalty_presence_case =
        KVFERRY__V1__SAMPLING_PARAMS__REPETITION_PENALTY_PRESENCE_REPETITION_PENALTY;
    sampling_out->repetition_penalty = 1;
    sampling_out->seed_presence_case = KVFERRY__V1__SAMPLING_PARAMS__SEED_PRESENCE_SEED;
}
