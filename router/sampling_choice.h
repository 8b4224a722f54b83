/*
 * sampling_choice - a request's sampling, checked and with every choice made.
 *
 *     SamplingParams (public, with gaps) -> sampling_choice -> SamplingParams (inner, complete)
 *
 * Thread: any (plain data).
 */
#pragma once

#include "proto/kvferry/v1/sampling.pb-c.h"
#include "router/generation_defaults.h"
#include "router/stop_strings.h"
#include "rpc/status_details.h"

#define STOP_IDS_MAX        16u
#define CHOICE_LOGPROBS_MAX 20u
#define MAX_TOKENS_DEFAULT  256u

struct sampling_choice {
    float temperature;
    uint32_t top_k;
    float top_p;
    float min_p;
    float repetition_penalty;
    float presence_penalty;
    float frequency_penalty;
    uint64_t seed;
    bool has_seed;       /* else the caller draws one */
    uint32_t max_tokens; /* 0: not given; sampling_choice_fit sets it */
    uint32_t n_logprobs;
    uint32_t n_stop_ids;
    uint32_t stop_ids[STOP_IDS_MAX];
    bool ignore_eos;
};

/* message may be NULL: all defaults. prefix goes before the field's path ("request."). Fills stops
 * too. INVALID_ARGUMENT with path, value and range. */
MUST_CHECK enum status sampling_choice_make(const Kvferry__V1__SamplingParams *message,
                                            const struct generation_defaults *defaults,
                                            uint32_t vocabulary, const char *prefix,
                                            struct sampling_choice *choice_out,
                                            struct stop_strings *stops_out,
                                            struct rpc_error *error);

/* Sets max_tokens when it was not given. PROMPT_TOO_LONG with the limits. */
MUST_CHECK enum status sampling_choice_fit(struct sampling_choice *choice, uint32_t prompt_tokens,
                                           uint32_t context_tokens, struct rpc_error *error);

/* Complete, for a worker; borrows choice's arrays. Stop strings stay here. */
void sampling_choice_encode(const struct sampling_choice *choice,
                            Kvferry__V1__SamplingParams *message_out);
