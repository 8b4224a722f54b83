/*
 * sampling_codec - converts the messages SamplingParams and TokenLogprobs from and to the structs
 * of sampling_params.h.
 *
 *     client --incomplete-> router: given fields replace the model's defaults
 *     router --complete---> workers: an absent field is an error of the sender and is refused by name
 *
 * Parameters with rules (sampling_has_rules), and those that ask for scores of the prompt, are a RuledSampling in place of a SamplingParams, so that a worker that does not know
 * them refuses them; so are those of a request with an adapter. What only the router uses is not handled here: stop strings but for those of beam searches, texts of bad
 * words, what text leaves out.
 *
 * Thread: any; no state.
 */
#pragma once

#include "proto/kvferry/internal/v1/ruled_sampling.pb-c.h"
#include "proto/kvferry/v1/sampling.pb-c.h"
#include "sampling_params/prompt_scores.h"
#include "sampling_params/sampling_params.h"

/* Sets the fields of params that message has. Checks nothing: n_stop_token_ids may be larger than the
 * copied number, which sampling_find_fault and sampling_check refuse. */
void sampling_decode_given(const Kvferry__V1__SamplingParams *message,
                           struct sampling_params *params_inout);

/* Reads a complete message. INVALID_ARGUMENT with the field and its value. message may be NULL (absent: refused). */
MUST_CHECK enum status sampling_decode(const Kvferry__V1__SamplingParams *message,
                                       uint32_t vocabulary, struct sampling_params *params_out,
                                       struct error *error);

/* Of the field constraint; NULL: FREE. Borrows the message's texts. */
void reply_constraint_decode(const Kvferry__V1__Constraint *message,
                             struct reply_constraint *constraint_out);

/* Of the field stop. Borrows the message's texts. A length that is no 32 bits is the most that is. */
void stop_texts_decode(const Kvferry__V1__SamplingParams *message, struct stop_texts *stops_out);

/* Makes a complete message, without rules of tokens; borrows the arrays of params. */
void sampling_encode(const struct sampling_params *params,
                     Kvferry__V1__SamplingParams *message_out);

/* Of the fields sampling and ruled_sampling of a request: one is NULL, the other points into here. */
struct sampling_message {
    Kvferry__V1__SamplingParams params;
    Kvferry__V1__Constraint constraint;
    Kvferry__V1__ConstraintChoices choices;
    ProtobufCBinaryData stops[STOP_STRINGS_MAX];
    Kvferry__Internal__V1__RuledSampling ruled;
    Kvferry__V1__SamplingParams *sampling;
    Kvferry__Internal__V1__RuledSampling *ruled_sampling;
};

/* Borrows the arrays of params, and of its rules. */
void sampling_message_make(const struct sampling_params *params,
                           struct sampling_message *message_out);

/* Of a request with an adapter: all of it goes where a worker that does not know adapters finds no sampling. */
void sampling_message_adapt(struct sampling_message *message);

/* As sampling_decode, of the one of the two that is there. rules_out is what params_out->rules points to, if there are any; its
 * lists are the message's. */
MUST_CHECK enum status sampling_message_decode(const Kvferry__V1__SamplingParams *sampling,
                                               const Kvferry__Internal__V1__RuledSampling *ruled,
                                               uint32_t vocabulary,
                                               struct sampling_params *params_out,
                                               struct token_rules *rules_out, struct error *error);

/* A worker that refuses a ruled request with that status and sentence has a version without ruled_sampling, or without constraints. */
bool sampling_is_absent(enum status status, const char *sentence);
/* The path of the newest field with rules: a literal. NULL: there are none. */
const char *sampling_first_rule(const struct sampling_params *params);

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

/* The scores of a prompt's tokens in one message, whose field gets list [scores->n]. */
struct prompt_scores_message {
    struct token_logprobs_message tokens[PROMPT_SCORES_MAX];
    Kvferry__V1__TokenLogprobs *list[PROMPT_SCORES_MAX];
};

void prompt_scores_encode(const struct prompt_scores *scores,
                          struct prompt_scores_message *message_out);
/* logprobs_out [PROMPT_SCORES_MAX]. INVALID_ARGUMENT: n is not 1 .. PROMPT_SCORES_MAX, or as above. */
MUST_CHECK enum status prompt_scores_decode(Kvferry__V1__TokenLogprobs *const *messages, size_t n,
                                            struct token_logprobs *logprobs_out);
