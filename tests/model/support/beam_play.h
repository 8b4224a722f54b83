/*
 * beam_play - a beam search whose rows a test computes. It is this header alone, as several programs of tests have it.
 *
 * Thread: one.
 */
#pragma once

#include "model/sampling/beam_search.h"

#include <assert.h>
#include <string.h>

#define BEAM_PLAY_TOKENS_MAX 64u

struct beam_play {
    /* The row behind the first n_tokens of tokens[beam]. */
    void (*rank)(void *arg, const uint32_t *tokens, uint32_t n_tokens, uint32_t n_ranked,
                 struct ranked_row *row_out);
    void *arg;
    uint32_t tokens[BEAMS_MAX][BEAM_PLAY_TOKENS_MAX]; /* of the running beams */
    struct ranked_row rows[BEAMS_MAX];
};

static inline void beam_play_step(struct beam_play *play, struct beam_search *search)
{
    const struct ranked_row *rows[BEAMS_MAX];
    uint32_t before[BEAMS_MAX][BEAM_PLAY_TOKENS_MAX];
    const uint32_t n_tokens = beam_search_n_tokens(search);
    for (uint32_t i = 0; i < beam_search_n_running(search); i++) {
        play->rank(play->arg, play->tokens[i], n_tokens, beam_search_n_ranked(search),
                   &play->rows[i]);
        rows[i] = &play->rows[i];
    }
    memcpy(before, play->tokens, sizeof before);
    beam_search_step(search, rows);
    const struct beam *running = beam_search_running(search);
    for (uint32_t i = 0; i < beam_search_n_running(search); i++) {
        assert(running[i].parent < BEAMS_MAX);
        memcpy(play->tokens[i], before[running[i].parent], n_tokens * sizeof(uint32_t));
        play->tokens[i][n_tokens] = running[i].token_id;
    }
}

static inline void beam_play_run(struct beam_play *play, struct beam_search *search)
{
    while (!beam_search_is_over(search))
        beam_play_step(play, search);
}
