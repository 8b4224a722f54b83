/*
 * pace - how many prompt tokens a step has, so that it takes about as long as it should on this machine.
 *
 *     a step of n tokens takes    token_ns * (n + fixed)       fixed: what every step costs, as so many tokens
 *     tokens of a step            the larger of    target_ns / token_ns - fixed    what is done in the time,
 *                                 and              fixed                           what makes its fixed part half of it;
 *                                 least <= tokens <= most
 *
 * So a step takes target_ns or, where its fixed part alone is more than half of that, about twice its fixed part; and prompts are
 * computed at about half of the best rate at least, however much a step costs before its first token.
 *
 * token_ns follows the latest steps that computed prompts, each counting PACE_KEEP of the one after it: a long
 * context or decodes beside a prompt make a step longer, and the next one shorter. A step with few tokens says little, since it
 * counts by its tokens. One that took far longer than it was expected to (a process that was stopped, weights that came from a
 * disk) counts as PACE_OUTLIER times that; one that took far less says that what was known is of no use any more: all of token_ns
 * or, if tokens cost what they did, the fixed part. Nothing is known before the first step: it has the least, which is one block.
 *
 * fixed is what the latest PACE_PAIRS pairs of steps say together that followed each other and differ in tokens, each a line through
 * two points, but for the quarter at each end. As a number of tokens it stays what it is when a machine gets slower as a whole. Where
 * the fixed part decides, or steps have under PACE_FEW times the least, every PACE_PROBE-th has the least, or twice as many where that
 * is the least, so that there are such pairs. Steps vary by a third on a machine that others use, too. So what fixed makes of a step
 * is bounded: no longer than two of the least took of late, no more than twice as many tokens as late ones had, and no more than twice
 * as many as a pair had.
 *
 * Numerics do not depend on it: chunks have equal bits.
 *
 * Thread: the schedule's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define PACE_KEEP       0.5 /* of what came before, at each step */
#define PACE_OUTLIER    4.0
#define PACE_PAIRS      8u
#define PACE_UNLIKE     1.25 /* the tokens of a pair, larger over smaller, at least */
#define PACE_ALIKE      0.6  /* of what a token took: as much */
#define PACE_TAKE       0.5  /* of what the pairs say, and of what the least took, at each */
#define PACE_PROBE      8u
#define PACE_FEW        4u
#define PACE_TRIED_KEEP 0.9 /* at each step */

/* A line through two steps, by their times together and weighed by how much they differ. */
struct pace_pair {
    double fixed, rise; /* fixed / rise: in tokens */
    double many;        /* tokens of the longer one */
};

struct pace {
    uint64_t target_ns; /* of a step; 0: the most, always */
    uint32_t least, most;
    double tokens, steps, ns; /* of the latest steps; 0: none yet */
    double fixed;             /* in tokens; 0: no pairs yet */
    struct pace_pair pairs[PACE_PAIRS];
    uint32_t n_pairs;            /* since what was known was forgotten */
    uint32_t n_took;             /* ever */
    double last_tokens, last_ns; /* of the last step with prompts; tokens 0: none that counts */
    double least_ns;             /* what a step of the least takes, of late; 0: not known */
    double tried;                /* the most tokens of a late step */
};

/* least > 0. */
void pace_init(struct pace *pace, uint64_t target_ns, uint32_t least, uint32_t most);
/* A step computed n_tokens of prompts, with whatever else was in it. 0: it says nothing about prompts. */
void pace_took(struct pace *pace, uint32_t n_tokens, uint64_t step_ns);
/* Of all prompts in the next step. */
uint32_t pace_tokens(const struct pace *pace);
/* What a prompt's token takes, its part of a step's fixed cost included; 0: not measured yet. */
uint64_t pace_token_ns(const struct pace *pace);
