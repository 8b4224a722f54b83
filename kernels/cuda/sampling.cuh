/*
 * sampling - finds the candidates in a row of logits, from which the host draws: its first ranks, and two sums.
 *
 * A rank is one number of 64 bits, larger for an earlier rank and different for every token: the logit, mapped to an
 * ordered integer, then the inverted id. A radix selection finds the first k: 8 bits for each pass over the row, until all
 * ranks with the digits so far are wanted. They are collected in any order and sorted.
 *
 * Grid: x rows. Bound: about six reads of the row from the L2 cache. Sums are float32; their order depends on the
 * number of threads and the vocabulary. Oracle: model/sampling/candidates.c; ranks to the bit, sums 1e-5.
 */
#pragma once

#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/sampling_parameters.h"

/* The shared memory of a CTA: SAMPLING_SHARED_BYTES. */
struct sampling_shared {
    uint64_t ranks[SAMPLING_BEST];
    uint32_t counts[256]; /* of a digit */
    uint32_t words[64];   /* 0: digit, 1: wanted with it, 2: collected; 32 ..: sums of warps */
};

/* +0 and -0 are equal; NaN becomes 0, below minus infinity. */
DEVICE uint64_t rank_of(float logit, uint32_t id)
{
    const uint32_t bits = float_bits(logit == 0 ? 0.f : logit);
    const uint32_t key = !(logit == logit) ? 0 : bits >> 31 ? ~bits : bits | 0x80000000u;
    return (uint64_t)key << 32 | (uint32_t)~id;
}

/* ---- selection ---- */

/* Counts the values of digit `shift` among the ranks that begin with prefix. */
DEVICE void count_digits(const float *row, uint32_t n, uint64_t prefix, uint32_t shift,
                         uint32_t *counts)
{
    const uint64_t mask = shift == 56 ? 0 : ~0ull << (shift + 8);
    for (uint32_t i = threadIdx.x; i < 256; i += blockDim.x)
        counts[i] = 0;
    cta_sync();
    for (uint32_t id = threadIdx.x; id < n; id += blockDim.x) {
        const uint64_t rank = rank_of(row[id], id);
        if (((rank ^ prefix) & mask) == 0)
            shared_add(&counts[rank >> shift & 255], 1);
    }
    cta_sync();
}

/* The last of the first k of n ranks: all numbers from it on are wanted. k > 0, k <= n. */
DEVICE uint64_t last_rank(const float *row, uint32_t n, uint32_t k, struct sampling_shared *shared)
{
    uint64_t prefix = 0;
    for (uint32_t shift = 56;; shift -= 8) {
        count_digits(row, n, prefix, shift, shared->counts);
        if (threadIdx.x == 0) {
            uint32_t digit = 255, wanted = k;
            for (; shared->counts[digit] < wanted; digit--)
                wanted -= shared->counts[digit];
            shared->words[0] = digit;
            shared->words[1] = wanted;
        }
        cta_sync();
        const uint32_t digit = shared->words[0];
        const bool is_whole = shared->counts[digit] == shared->words[1];
        prefix |= (uint64_t)digit << shift;
        k = shared->words[1];
        cta_sync();
        if (is_whole || shift == 0)
            return prefix;
    }
}

/* Collects the k ranks from last on into ranks, first rank first. The rest up to SAMPLING_BEST is 0. */
DEVICE void collect_ranks(const float *row, uint32_t n, uint64_t last,
                          struct sampling_shared *shared)
{
    if (threadIdx.x == 0)
        shared->words[2] = 0;
    for (uint32_t i = threadIdx.x; i < SAMPLING_BEST; i += blockDim.x)
        shared->ranks[i] = 0;
    cta_sync();
    for (uint32_t id = threadIdx.x; id < n; id += blockDim.x) {
        const uint64_t rank = rank_of(row[id], id);
        if (rank >= last)
            shared->ranks[shared_add(&shared->words[2], 1)] = rank;
    }
    cta_sync();
}

/* A bitonic sort; a thread for each pair. */
DEVICE void sort_ranks(uint64_t *ranks)
{
    for (uint32_t size = 2; size <= SAMPLING_BEST; size *= 2)
        for (uint32_t step = size / 2; step > 0; step /= 2) {
            for (uint32_t i = threadIdx.x; i < SAMPLING_BEST / 2; i += blockDim.x) {
                const uint32_t a = i / step * step * 2 + i % step, b = a + step;
                const bool is_down = (a & size) == 0;
                const uint64_t x = ranks[a], y = ranks[b];
                if (is_down ? x < y : x > y) {
                    ranks[a] = y;
                    ranks[b] = x;
                }
            }
            cta_sync();
        }
}

DEVICE void select_ranks(const float *row, uint32_t n, uint32_t k, struct sampling_shared *shared)
{
    collect_ranks(row, n, last_rank(row, n, k, shared), shared);
    sort_ranks(shared->ranks);
}

/* ---- sums ---- */

DEVICE float row_largest(const float *row, uint32_t n, struct sampling_shared *shared)
{
    float largest = bits_float(0x7fc00000u);
    for (uint32_t id = threadIdx.x; id < n; id += blockDim.x)
        largest = fmaxf(largest, row[id]); /* drops NaN */
    return cta_largest(largest, (float *)&shared->words[32]);
}

/* The sum of exp((logit - largest) scale). Terms below exp(-200) count as 0; NaN stays NaN. */
DEVICE float row_sum(const float *row, uint32_t n, float largest, float scale,
                     struct sampling_shared *shared)
{
    float sum = 0;
    for (uint32_t id = threadIdx.x; id < n; id += blockDim.x) {
        const float x = (row[id] - largest) * scale;
        sum += x <= -200 ? 0 : expf(x); /* NaN stays NaN */
    }
    return cta_sum(sum, (float *)&shared->words[32]);
}

DEVICE bool is_finite(float v)
{
    return fabsf(v) <= 3.402823466e38f;
}

/* ---- a row ---- */

/* The row after the penalties; the same row if there are none. */
DEVICE const float *penalised(const struct candidates_parameters &p, const struct sampling_row &row,
                              const float *raw)
{
    float *copy = p.scratch + (uint64_t)blockIdx.x * p.vocabulary;
    if (row.n_penalties == 0)
        return raw;
    for (uint32_t id = threadIdx.x; id < p.vocabulary; id += blockDim.x)
        copy[id] = raw[id];
    cta_sync();
    for (uint32_t i = threadIdx.x; i < row.n_penalties; i += blockDim.x) {
        const struct sampling_penalty &penalty = p.penalties[row.first_penalty + i];
        const float logit = raw[penalty.id];
        /* The host rounds the product before it subtracts. */
        copy[penalty.id] = multiply_add(
            -1, penalty.subtract, logit > 0 ? logit / penalty.factor : logit * penalty.factor);
    }
    cta_sync();
    return copy;
}

DEVICE void find_top(const struct candidates_parameters &p, const struct sampling_row &row,
                     const float *raw, struct sampling_shared *shared)
{
    struct sampling_result &result = p.results[blockIdx.x];
    const uint32_t n_top = min(min(row.n_top, SAMPLING_TOP_MAX), p.vocabulary);
    if (n_top > 0)
        select_ranks(raw, p.vocabulary, n_top, shared);
    for (uint32_t i = threadIdx.x; i < n_top; i += blockDim.x) {
        result.top_ids[i] = ~(uint32_t)shared->ranks[i];
        result.top_logits[i] = raw[~(uint32_t)shared->ranks[i]];
    }
    if (threadIdx.x == 0)
        result.n_top = n_top;
}

DEVICE void find_best(const struct candidates_parameters &p, const struct sampling_row &row,
                      const float *raw, const float *logits, struct sampling_shared *shared)
{
    struct sampling_result &result = p.results[blockIdx.x];
    const uint32_t n = min(min(row.n_best, SAMPLING_BEST), p.vocabulary);
    select_ranks(logits, p.vocabulary, n, shared);
    for (uint32_t i = threadIdx.x; i < n; i += blockDim.x) {
        const uint32_t id = ~(uint32_t)shared->ranks[i];
        result.ids[i] = id;
        result.logits[i] = logits[id];
        result.raw[i] = raw[id];
    }
    if (threadIdx.x == 0)
        result.n = n;
}

DEVICE void find_sums(const struct candidates_parameters &p, const struct sampling_row &row,
                      const float *raw, const float *logits, struct sampling_shared *shared)
{
    struct sampling_result &result = p.results[blockIdx.x];
    const float raw_largest = row_largest(raw, p.vocabulary, shared);
    const float largest = row_largest(logits, p.vocabulary, shared);
    const float scale = fminf(1 / row.temperature, 3.402823466e38f);
    const bool has_sum = row.temperature > 0 && is_finite(largest);
    const float raw_sum = is_finite(raw_largest)
                              ? row_sum(raw, p.vocabulary, raw_largest, 1, shared)
                              : 1;
    const float sum = has_sum ? row_sum(logits, p.vocabulary, largest, scale, shared) : 0;
    if (threadIdx.x > 0)
        return;
    result.log_sum_exp = raw_largest + logf(raw_sum);
    result.largest = largest;
    result.sum = sum;
}

DEVICE void candidates_body(const struct candidates_parameters &p)
{
    SHARED_MEMORY(memory);
    struct sampling_shared *shared = (struct sampling_shared *)memory;
    const struct sampling_row row = p.rows[blockIdx.x];
    const float *raw = p.logits + blockIdx.x * p.logits_stride;
    if (row.n_best == 0)
        return;
    const float *logits = penalised(p, row, raw);
    find_sums(p, row, raw, logits, shared);
    find_top(p, row, raw, shared);
    find_best(p, row, raw, logits, shared);
}
