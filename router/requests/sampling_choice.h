/*
 * sampling_choice - checks a request's sampling parameters and fills in the defaults.
 *
 *     SamplingParams (public, with gaps) -> sampling_choice -> SamplingParams (inner, complete)
 *
 * Thread: any (plain data).
 */
#pragma once

#include "proto/kvferry/v1/sampling.pb-c.h"
#include "router/requests/generation_defaults.h"
#include "router/requests/stop_strings.h"
#include "rpc/rpc_error.h"
#include "sampling_params/sampling_params.h"

#define MAX_TOKENS_DEFAULT 256u

/* Lists of a request until they are a generation's own. */
struct sampling_lists {
    struct token_rules rules;
    uint32_t bias_ids[LOGIT_BIASES_MAX];
    float biases[LOGIT_BIASES_MAX];
};

struct sampling_choice {
    struct sampling_params params;
    bool has_seed;          /* else the caller draws one */
    bool has_max_tokens;    /* else sampling_choice_fit may lower it */
    bool ends_with_context; /* it may lower what was given, too; none was: all of the context */
    uint32_t reply_tokens;  /* at most; 0: what the context leaves */
    uint32_t
        sequence_tokens; /* prompt and reply, where replies may leave the context; 0: they may not */
};

/* max_tokens of a request that sets none: tokens, or min_tokens if that is more. */
uint32_t sampling_choice_open_tokens(const struct sampling_choice *choice, uint32_t tokens);
/* What an answer is expected to have: a bound that no request has set says little of its length. */
uint32_t sampling_choice_expected_tokens(const struct sampling_choice *choice);

/* message NULL: all defaults. Fills stops, too, and checks bad_words, which are not among the rules yet. The rules, if there are
 * any, are in lists and in the message. INVALID_ARGUMENT: the sentence has path, value and range. */
MUST_CHECK enum status sampling_choice_make(const Kvferry__V1__SamplingParams *message,
                                            const struct generation_defaults *defaults,
                                            uint32_t vocabulary, struct sampling_choice *choice_out,
                                            struct stop_strings *stops_out,
                                            struct sampling_lists *lists_out,
                                            struct rpc_error *error);

/* If max_tokens was not given, or may be lowered, lowers it to the rest of the context, which min_tokens must fit into. PROMPT_TOO_LONG: the sentence
 * has the limits. */
MUST_CHECK enum status sampling_choice_fit(struct sampling_choice *choice, uint32_t prompt_tokens,
                                           uint32_t context_tokens, struct rpc_error *error);
