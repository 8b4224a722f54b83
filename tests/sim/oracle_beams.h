/*
 * oracle_beams - a beam search in a single process: each step computes each beam whole, from its first token on.
 *
 * Thread: one.
 */
#pragma once

#include "model/sampling/beam_search.h"
#include "tests/sim/oracle.h"

struct oracle_reply {
    uint32_t n_tokens, tokens[ORACLE_GENERATED_MAX];
    float score;
    bool is_end;
};

struct oracle_replies {
    uint32_t n;
    struct oracle_reply all[BEAMS_MAX];
};

/* sampling: with beams, and at most ORACLE_GENERATED_MAX max_tokens. Of a model without recurrent state and sinks. */
void oracle_beams(struct oracle *oracle, const struct oracle_question *question,
                  const struct sampling_params *sampling, struct oracle_replies *replies_out);
