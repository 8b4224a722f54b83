/*
 * sampling_codec - SamplingParams and TokenLogprobs of the inner services as the model's structs.
 *
 * Inner requests are complete: the router has made every choice that the public API leaves open,
 * so an absent field is a fault of the sender and refused by name.
 *
 * Thread: any; no state.
 */
#pragma once

#include "base/status.h"
#include "model/sampling.h"
#include "proto/kvferry/v1/sampling.pb-c.h"

/* INVALID_ARGUMENT with the field and its value. message may be NULL (absent: refused). */
MUST_CHECK enum status sampling_decode(const Kvferry__V1__SamplingParams *message,
                                       uint32_t vocabulary, struct sampling_params *params_out,
                                       struct error *error);

/* Borrows params' arrays. Stop strings are the router's business and not sent. */
void sampling_encode(const struct sampling_params *params,
                     Kvferry__V1__SamplingParams *message_out);

/* A message with what it points to. */
struct token_logprobs_message {
    Kvferry__V1__TokenLogprobs message;
    Kvferry__V1__TokenLogprob top[LOGPROBS_MAX];
    Kvferry__V1__TokenLogprob *top_list[LOGPROBS_MAX];
};

void token_logprobs_encode(const struct token_logprobs *logprobs,
                           struct token_logprobs_message *message_out);
/* INVALID_ARGUMENT: more than LOGPROBS_MAX. */
MUST_CHECK enum status token_logprobs_decode(const Kvferry__V1__TokenLogprobs *message,
                                             struct token_logprobs *logprobs_out);
