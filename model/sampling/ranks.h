/*
 * ranks - orders tokens by likelihood: by logit; with equal logits the lower id is first. NaN has no
 * rank.
 *
 * Selections work in place, without sorting, in linear time for any order of logits: the pivot is a fixed
 * pseudo-random function of the length.
 *
 * Thread: any (plain data).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct candidate {
    double weight; /* exp((logit - largest) / temperature) */
    float logit;
    uint32_t id;
};

static inline bool ranks_before(const struct candidate *a, const struct candidate *b)
{
    return a->logit > b->logit || (a->logit == b->logit && a->id < b->id);
}

/* Moves the k first ranks to the front, in any order; 0 < k < n. */
void ranks_select(struct candidate *candidates, uint32_t n, uint32_t k);
/* Moves the fewest first ranks whose weights add up to wanted to the front, in any order. Returns their
 * number; n if all weights together are less. 0 < wanted, n > 0. */
uint32_t ranks_select_weight(struct candidate *candidates, uint32_t n, double wanted);
/* Sorts, first rank first. Only for short lists: it may recurse n times. */
void ranks_sort(struct candidate *candidates, uint32_t n);
/* The last rank of n > 0 candidates in any order. */
struct candidate ranks_last(const struct candidate *candidates, uint32_t n);

double ranks_sum(const struct candidate *candidates, uint32_t n); /* of the weights */
