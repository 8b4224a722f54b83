#include "model/sampling/ranks.h"

#include <assert.h>

static void swap(struct candidate *a, struct candidate *b)
{
    struct candidate c = *a;
    *a = *b;
    *b = c;
}

/* Partitions candidates [n], n > 1, around a pivot: candidates that rank before it move to the
 * front. Returns the new index of the pivot. Its choice is a fixed pseudo-random function of n: so nobody can
 * send an order of logits that makes selection slow. */
static uint32_t partition(struct candidate *candidates, uint32_t n)
{
    uint32_t pick = (uint32_t)((n * 0x9E3779B97F4A7C15u >> 32) % n), store = 0;
    swap(&candidates[pick], &candidates[n - 1]);
    for (uint32_t i = 0; i + 1 < n; i++)
        if (ranks_before(&candidates[i], &candidates[n - 1]))
            swap(&candidates[i], &candidates[store++]);
    swap(&candidates[store], &candidates[n - 1]);
    return store;
}

void ranks_select(struct candidate *candidates, uint32_t n, uint32_t k)
{
    uint32_t from = 0, to = n; /* rank k is between from and to */
    assert(k > 0 && k < n);
    while (to - from > 1) {
        uint32_t pivot = from + partition(candidates + from, to - from);
        if (pivot == k || pivot + 1 == k)
            return;
        if (pivot > k)
            to = pivot;
        else
            from = pivot + 1;
    }
}

double ranks_sum(const struct candidate *candidates, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += candidates[i].weight;
    return sum;
}

uint32_t ranks_select_weight(struct candidate *candidates, uint32_t n, double wanted)
{
    uint32_t from = 0, to = n; /* the first `from` ranks weigh `kept`: too little; `to` suffice */
    double kept = 0;
    assert(n > 0 && wanted > 0);
    while (to - from > 1) {
        uint32_t pivot = from + partition(candidates + from, to - from);
        double before = kept + ranks_sum(candidates + from, pivot - from);
        if (before >= wanted) {
            to = pivot;
            continue;
        }
        kept = before + candidates[pivot].weight;
        from = pivot + 1;
        if (kept >= wanted)
            return from;
    }
    return to;
}

void ranks_sort(struct candidate *candidates, uint32_t n)
{
    while (n > 1) {
        uint32_t pivot = partition(candidates, n);
        ranks_sort(candidates, pivot);
        candidates += pivot + 1;
        n -= pivot + 1;
    }
}

struct candidate ranks_last(const struct candidate *candidates, uint32_t n)
{
    assert(n > 0);
    struct candidate last = candidates[0];
    for (uint32_t i = 1; i < n; i++)
        if (ranks_before(&last, &candidates[i]))
            last = candidates[i];
    return last;
}
