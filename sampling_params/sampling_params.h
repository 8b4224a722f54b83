/*
 * sampling_params - the sampling parameters of a request, and the log probabilities of its tokens.
 *
 * Thread: any (plain data).
 */
#pragma once

#include "base/status.h"
#include "sampling_params/beam_params.h"
#include "sampling_params/sampling_fault.h"
#include "sampling_params/token_rules.h"

#include <stdbool.h>
#include <stdint.h>

#define LOGPROBS_MAX        20u
#define STOP_TOKEN_IDS_MAX  16u
#define NO_REPEAT_NGRAM_MAX 64u

struct sampling_params {
    float temperature;             /* 0 .. 100 */
    uint32_t top_k;                /* 0: all */
    float top_p;                   /* (0, 1] */
    float min_p;                   /* 0 .. 1 */
    float typical_p;               /* (0, 1], 1: all */
    float epsilon_cutoff;          /* [0, 1), 0: none */
    float eta_cutoff;              /* [0, 1), 0: none */
    uint32_t no_repeat_ngram_size; /* 0 .. NO_REPEAT_NGRAM_MAX, 0: all may repeat */
    float repetition_penalty;      /* (0, 100], 1: none */
    float presence_penalty;        /* -2 .. 2 */
    float frequency_penalty;       /* -2 .. 2 */
    uint64_t seed;
    uint32_t max_tokens; /* >= 1 */
    uint32_t min_tokens; /* 0 .. max_tokens: before so many nothing is drawn that ends the reply */
    uint32_t n_logprobs; /* 0: none */
    bool scores_prompt;  /* asks for the log-probabilities of the prompt's tokens, */
    uint32_t n_prompt_logprobs; /* with so many likeliest ones beside each */
    uint32_t n_stop_token_ids;
    uint32_t stop_token_ids[STOP_TOKEN_IDS_MAX];
    bool ignore_eos;
    uint32_t
        reply_window; /* with sinks, a token of the reply sees so many; 0: as many as the workers say */
    struct beam_params beams;
    const struct token_rules *rules; /* NULL: none. Borrowed: who copies the struct keeps them */
};

/* They may leave no token to draw: rules of tokens, min_tokens, no_repeat_ngram_size. */
bool sampling_has_rules(const struct sampling_params *params);

/* Greedy, no penalties, max_tokens 256. */
extern const struct sampling_params SAMPLING_GREEDY;

/* Finds the first fault; NaN is one. */
bool sampling_find_fault(const struct sampling_params *params, uint32_t vocabulary,
                         struct sampling_fault *fault_out);

/* INVALID_ARGUMENT with the first fault as a sentence. */
MUST_CHECK enum status sampling_check(const struct sampling_params *params, uint32_t vocabulary,
                                      struct error *error);

/* From the model's distribution before penalties, temperature and filters. */
struct token_logprobs {
    float logprob; /* of the sampled token */
    uint32_t n_top;
    uint32_t top_ids[LOGPROBS_MAX];
    float top_logprobs[LOGPROBS_MAX];
};
