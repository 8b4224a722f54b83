/*
 * sampling_codec - converts the messages SamplingParams and TokenLogprobs from and to the structs
 * of sampling_params.h.
 *
 *     client --incomplete-> router: given fields replace the model's defaults
 *     router --complete---> workers: an absent field is an error of the sender and is refused by name
 *
 * Stop strings are not handled here: only the router uses them.
 *
 * Thread: any; no state.
 */
#pragma once

#include "proto/kvferry/v1/sampling.pb-c.h"
#include "sampling_params/sampling_params.h"

/* Sets the fields of params that message has. Checks nothing: n_stop_token_ids may be larger than the
 * copied number, which sampling_find_fault and sampling_check refuse. */
void sampling_decode_given(const Kvferry__V1__SamplingParams *message,
                           struct sampling_params *params_inout);

/* Reads a complete message. INVALID_ARGUMENT with the field and its value. message may be NULL (absent: refused). */
MUST_CHECK enum status sampling_decode(const Kvferry__V1__SamplingParams *message,
                                       uint32_t vocabulary, struct sampling_params *params_out,
                                       struct error *error);

/* Makes a complete message; borrows the arrays of params. */
void sampling_encode(const struct sampling_params *params,
                     Kvferry__V1__SamplingParams *message_out);

/* A message with the memory that it points to. */
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
