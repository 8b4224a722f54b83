/*
 * sampling_codec - SamplingParams and TokenLogprobs on the wire as the structs of sampling.h.
 *
 *     client --with gaps--> router: what is given goes over the model's defaults
 *     router --complete---> workers: an absent field is a fault of the sender, refused by name
 *
 * Stop strings are not read or written here: they are the router's business and go no further.
 *
 * Thread: any; no state.
 */
#pragma once

#include "proto/kvferry/v1/sampling.pb-c.h"
#include "sampling_params/sampling_params.h"

/* Puts what message gives over params. Checks nothing: n_stop_token_ids may say more than were copied,
 * which sampling_find_fault and sampling_check refuse. */
void sampling_decode_given(const Kvferry__V1__SamplingParams *message,
                           struct sampling_params *params_inout);

/* Of a complete message. INVALID_ARGUMENT with the field and its value. message may be NULL (absent:
 * refused). */
MUST_CHECK enum status sampling_decode(const Kvferry__V1__SamplingParams *message,
                                       uint32_t vocabulary, struct sampling_params *params_out,
                                       struct error *error);

/* Complete; borrows params' arrays. */
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
