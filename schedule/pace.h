/*
 * pace - how many prompt tokens a step has, so that it takes about as long as it should on this machine.
 *
 *     tokens of a step = what was measured to be computed in target_ns, least <= tokens <= most
 *
 * The rate is tokens over time of the latest steps that computed prompts, each counting PACE_KEEP of the one after it: a long
 * context or decodes beside a prompt make a step longer, and the next one shorter. A step with few tokens says little, since it
 * counts by its tokens. One that took far longer than any was expected to (a process that was stopped) counts as
 * PACE_OUTLIER times that. Nothing is known before the first step: it has the least, which is one block.
 *
 * Numerics do not depend on it: chunks have equal bits.
 *
 * Thread: the schedule's.
 */
#pragma once

#include <stdint.h>

#define PACE_KEEP    0.5 /* of what came before, at each step */
#define PACE_OUTLIER 4.0

struct pace {
    uint64_t target_ns; /* of a step; 0: the most, always */
    uint32_t least, most;
    double tokens, ns; /* of the latest steps; 0: none yet */
};

/* least > 0. */
void pace_init(struct pace *pace, uint64_t target_ns, uint32_t least, uint32_t most);
/* A step computed n_tokens of prompts, with whatever else was in it. 0: it says nothing about prompts. */
void pace_took(struct pace *pace, uint32_t n_tokens, uint64_t step_ns);
/* Of all prompts in the next step. */
uint32_t pace_tokens(const struct pace *pace);
/* What a prompt's token takes; 0: not measured yet. */
uint64_t pace_token_ns(const struct pace *pace);
