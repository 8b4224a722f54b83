/*
 * beam_params - what a request says of a beam search (model/sampling/beam_search.h).
 *
 * Thread: any (plain data).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define BEAMS_MAX 16u

/* What the best score of a running beam may become, when n_beams have ended: as now, by its present length (FALSE); nothing is waited for
 * (TRUE); as now, by the length that makes it best (NEVER). The names are those of Transformers. */
enum early_stopping {
    EARLY_STOPPING_FALSE,
    EARLY_STOPPING_TRUE,
    EARLY_STOPPING_NEVER,
    EARLY_STOPPING_UNKNOWN /* of a message: refused */
};

struct beam_params {
    uint32_t n_beams;     /* 0 and 1: no search; the rest is not read then */
    uint32_t n_best;      /* replies that are told, 1 .. n_beams */
    float length_penalty; /* -10 .. 10 */
    enum early_stopping early_stopping;
};

static inline bool beam_params_search(const struct beam_params *params)
{
    return params->n_beams > 1;
}

/* Sequences that a reply takes. */
static inline uint32_t beam_params_n_rows(const struct beam_params *params)
{
    return beam_params_search(params) ? params->n_beams : 1;
}

/* Tokens behind each beam that a step must know, where n_ends tokens end a reply. */
static inline uint32_t beam_params_rank_count(const struct beam_params *params, uint32_t n_ends)
{
    return params->n_beams * (1 + (n_ends > 0 ? n_ends : 1));
}
