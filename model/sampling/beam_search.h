/*
 * beam_search - which replies a beam search goes on with, and the best that have ended. Pure bookkeeping, with the rules of
 * Transformers 5 (GenerationMixin._beam_search).
 *
 *     ranked rows of the running beams --beam_search_step--> those that run on: each with its parent and a new token
 *                                                   \------> those that have ended, best first
 *
 *     score       of a beam: the sum of its tokens' log-probabilities after the request's rules, in float32
 *     candidates  the tokens behind the running beams with the best scores, n_beams * (1 + the number of ends, at least 1) of them
 *     ended       of the first n_beams candidates, those whose token is an end, completes a stop string behind the first min_tokens
 *                 tokens (beam_stops.h), or is the last of max_tokens; their score is
 *                 divided by length ^ length_penalty, and the n_beams best of all steps are kept
 *     running     the first n_beams candidates that are none of these
 *     over        when n_beams have ended and no running beam can be better: of what length the best one may become is said by
 *                 early_stopping
 *
 * With equal scores the earlier beam is first, then the lower token. At first one beam runs. Fewer than n_beams run where the rules of
 * the request leave fewer tokens.
 *
 * Bounds: one allocation of 8 bytes for each beam of each step.
 *
 * Thread: one at a time.
 */
#pragma once

#include "base/status.h"
#include "model/sampling/beam_stops.h"
#include "model/sampling/penalties.h"
#include "sampling_params/ranked_row.h"
#include "sampling_params/sampling_params.h"

#define BEAM_TOKEN_BYTES_MAX 1024u
#define BEAM_ENDS_MAX        (STOP_TOKEN_IDS_MAX + PENALTIES_ENDS_MAX)

struct beam_search;

struct beam_search_options {
    struct beam_params params; /* n_beams at least 1 */
    uint32_t max_tokens;
    const uint32_t *end_ids;        /* [n_ends] of different tokens; copied */
    uint32_t n_ends;                /* beam_params_rank_count is at most RANKED_ROW_MAX */
    const struct stop_texts *stops; /* NULL, or none of them: no text ends a reply; copied */
    uint32_t min_tokens;            /* of a reply, whose texts complete no stop string */
};

/* The text that a token adds to a reply, perhaps a part of a character. Returns its bytes. */
struct beam_texts {
    size_t (*text)(const void *arg, uint32_t token_id, char text_out[BEAM_TOKEN_BYTES_MAX]);
    const void *arg;
};

/* A beam of the present step. */
struct beam {
    uint32_t parent; /* index of the running beam of the step before */
    uint32_t token_id;
    float score;
};

/* The tokens that end a reply, each once: stop_token_ids, and unless they are ignored the model's. Returns how many. */
uint32_t beam_search_ends(const struct sampling_params *params, const uint32_t *eos_ids,
                          uint32_t n_eos_ids, uint32_t ends_out[BEAM_ENDS_MAX]);

/* NO_MEMORY. */
MUST_CHECK enum status beam_search_create(const struct beam_search_options *options,
                                          struct beam_search **search_out);
void beam_search_destroy(struct beam_search *search); /* NULL is fine */
/* A search with stops needs it before its first step. */
void beam_search_set_texts(struct beam_search *search, const struct beam_texts *texts);
/* As after create, with the texts that it has. */
void beam_search_restart(struct beam_search *search);

/* Tokens of a row that a step needs: fewer are fine where the rules leave fewer. */
uint32_t beam_search_n_ranked(const struct beam_search *search);

/* rows: of the running beams, in their order; of the first step one. Not when it is over. */
void beam_search_step(struct beam_search *search, const struct ranked_row *const *rows);
/* Of the last step; before the first one: one, without a token. Best first. */
uint32_t beam_search_n_running(const struct beam_search *search);
const struct beam *beam_search_running(const struct beam_search *search);
uint32_t beam_search_n_tokens(const struct beam_search *search); /* of each: steps */
bool beam_search_is_over(const struct beam_search *search);

/* Best first. */
struct beam_result {
    float score;
    uint32_t n_tokens;
    bool is_end;   /* its last token is an end, or completes a stop string, */
    uint32_t stop; /* which is this one; BEAM_STOP_NONE: it does not */
};
uint32_t beam_search_n_results(const struct beam_search *search);
struct beam_result beam_search_result(const struct beam_search *search, uint32_t i);
/* tokens_out [n_tokens] */
void beam_search_tokens(const struct beam_search *search, uint32_t i, uint32_t *tokens_out);
