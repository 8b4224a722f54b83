/*
 * pace - how many prompt tokens a step has, so that it takes about the target time on this machine.
 *
 *     a step of n tokens takes    token_ns * (n + fixed)       fixed: the fixed cost of a step, in tokens
 *     tokens of a step            the larger of    target_ns / token_ns - fixed    what fits into the time,
 *                                 and              fixed                           then the fixed part is half of the step;
 *                                 least <= tokens <= most
 *
 * So a step takes target_ns, or about twice its fixed part if that alone is more than half of target_ns. Prompts are
 * computed at half of the best rate or more, even if the fixed part is large.
 *
 * token_ns is an average of the latest steps that computed prompts; each counts PACE_KEEP times the one after it. A
 * long context, or decodes in the same step, make a step longer, and so the next one gets fewer tokens. A step counts
 * by its tokens, so a step with few tokens counts little. A step that took far longer than expected (a stopped process,
 * weights that were read from a disk) counts as PACE_OUTLIER times the expected time. After a step that took far less,
 * the old estimate is dropped: all of token_ns or, if tokens cost as much as before, the fixed part. Before the first
 * step nothing is known: it has the least, which is one block.
 *
 * fixed comes from the latest PACE_PAIRS pairs of consecutive steps that differ in tokens. Each pair gives a line
 * through two points; the lowest and the highest quarter do not count. In tokens it stays the same if the whole machine
 * becomes slower. If the fixed part decides, or steps have under PACE_FEW times the least, every PACE_PROBE-th step has
 * the least (or twice the least, if steps have the least anyway), so that such pairs exist. On a shared machine steps
 * vary by a third. So the effect of fixed is bounded: a step takes no longer than two recent steps of the least, has at
 * most twice the tokens of recent steps, and at most twice the tokens of a pair.
 *
 * The result does not depend on it: chunks of any length give equal bits.
 *
 * Thread: the schedule's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define PACE_KEEP       0.5 /* weight of the earlier steps, at each step */
#define PACE_OUTLIER    4.0
#define PACE_PAIRS      8u
#define PACE_UNLIKE     1.25 /* the smallest ratio of the tokens of a pair */
#define PACE_ALIKE      0.6  /* fraction of a token's time that still counts as the same */
#define PACE_TAKE       0.5  /* weight of a new value of the pairs, and of the least's time */
#define PACE_PROBE      8u
#define PACE_FEW        4u
#define PACE_TRIED_KEEP 0.9 /* at each step */

/* A line through two steps, divided by their total time and weighted by their difference. */
struct pace_pair {
    double fixed, rise; /* fixed / rise: the fixed part in tokens */
    double many;        /* tokens of the step with more */
};

struct pace {
    uint64_t target_ns; /* of a step; 0: steps always have the most */
    uint32_t least, most;
    double tokens, steps, ns; /* sums over the latest steps; 0: none yet */
    double fixed;             /* in tokens; 0: no pairs yet */
    struct pace_pair pairs[PACE_PAIRS];
    uint32_t n_pairs;            /* since the last drop of the estimate */
    uint32_t n_took;             /* ever */
    double last_tokens, last_ns; /* of the last step with prompts; tokens 0: none */
    double least_ns;             /* recent time of a step with the least; 0: not known */
    double tried;                /* the most tokens of a recent step */
};

/* least > 0. */
void pace_init(struct pace *pace, uint64_t target_ns, uint32_t least, uint32_t most);
/* Reports a step that computed n_tokens of prompts, maybe with decodes. 0: ignored. */
void pace_took(struct pace *pace, uint32_t n_tokens, uint64_t step_ns);
/* The number of prompt tokens in the next step, of all prompts. */
uint32_t pace_tokens(const struct pace *pace);
/* The time of a prompt token with its part of the fixed cost of a step; 0: not measured yet. */
uint64_t pace_token_ns(const struct pace *pace);
