/*
 * attention_row - which keys a row sees and with which score (the formulas of attention.h, one key at a time), and the sums
 * of a row over ranges of keys.
 *
 *     tile    ATTENTION_TILE_KEYS keys are scored, then weighted relative to the largest score so far
 *     range   ATTENTION_RANGE_KEYS keys have sums of their own; ranges are merged in order
 *
 * Both begin at multiples of their size, counted in the cache. So the bits of a row depend only on its keys, not on other
 * sequences of the step, and not on whether one CTA or several compute its ranges.
 */
#pragma once

#include "kernels/cuda/attention_keys.cuh"

#define LOG_2 0.693147180559945309f

/* enum attention_mask, enum attention_mask_input */
enum { MASK_IS_CAUSAL, MASK_IS_UPPER_LEFT, MASK_IS_BIDIRECTIONAL };
enum { INPUT_IS_NONE, INPUT_IS_BOOL, INPUT_IS_FLOAT };

/* One query head. */
struct row {
    uint32_t token, head;
    uint32_t query; /* number of the query in the step, of its beam */
    uint32_t index; /* index of the query in its sequence */
};

DEVICE uint32_t math_of(const struct attention_parameters &p, const struct cuda_sequence &s)
{
    return s.kind == SEQUENCE_IS_CONTEXT ? p.math : (uint32_t)MATH_IS_COMPUTE;
}

DEVICE uint32_t beam_of(const struct cuda_sequence &s, uint32_t token)
{
    return (token - s.first_token) / s.query_len;
}

DEVICE struct row row_of(const struct attention_parameters &p, const struct cuda_sequence &s,
                         uint32_t token, uint32_t head)
{
    return {token, head, (token - s.first_token) % s.query_len, p.indices[token]};
}

/* The query as the products use it. */
DEVICE const float *query_of(const struct attention_parameters &p, const struct row &row)
{
    return p.queries + ((uint64_t)row.token * p.n_heads + row.head) * p.head_dim;
}

/* A24, A33: key is an index in the sequence. */
DEVICE bool mask_shows(const struct attention_parameters &p, const struct cuda_sequence &s,
                       const struct row &row, uint32_t key)
{
    const uint32_t first = row.index - row.query;
    if (s.first_draft != ATTENTION_NONE && key >= first)
        return key - first < s.query_len &&
               (p.draft_masks[s.first_draft + row.query] >> (key - first) & 1);
    if (p.mask_kind == MASK_IS_BIDIRECTIONAL)
        return true;
    return key <= (p.mask_kind == MASK_IS_CAUSAL ? row.index : row.query);
}

/* A13: the last window keys. A16: the sinks and the last window - sink_tokens keys; in a context all keys. */
DEVICE bool window_shows(const struct attention_parameters &p, const struct cuda_sequence &s,
                         const struct row &row, uint32_t key)
{
    if (p.window == 0 || (p.sink_tokens != 0 && s.kind == SEQUENCE_IS_CONTEXT))
        return true;
    if (key < p.sink_tokens || key > row.index)
        return true;
    return row.index - key < p.window - p.sink_tokens;
}

/* A24: the summand of the given mask; -inf hides the key. */
DEVICE float mask_input(const struct attention_parameters &p, const struct cuda_sequence &s,
                        const struct row &row, uint32_t key)
{
    if (p.mask_input == INPUT_IS_NONE)
        return 0;
    const uint64_t sequence = p.token_sequences[row.token];
    const uint64_t at = sequence * p.mask_sequence_stride +
                        (row.token - s.first_token) * p.mask_query_stride + key;
    if (p.mask_input == INPUT_IS_BOOL)
        return ((const uint8_t *)p.mask)[at] ? 0 : -INFINITY;
    return ((const float *)p.mask)[at];
}

/* A23: the last bucket whose start is at most the distance. */
DEVICE uint32_t bucket_of(const struct attention_parameters &p, int64_t distance)
{
    const uint32_t n = p.is_bidirectional ? p.n_buckets / 2 : p.n_buckets;
    const uint32_t away = (uint32_t)(distance < 0 ? -distance : distance);
    uint32_t low = 0, high = n;
    if (!p.is_bidirectional && distance > 0)
        return 0;
    while (high - low > 1) {
        const uint32_t middle = (low + high) / 2;
        if (p.bucket_starts[middle] <= away)
            low = middle;
        else
            high = middle;
    }
    return low + (p.is_bidirectional && distance > 0 ? n : 0);
}

/* A19, A22, A23 */
DEVICE float position_bias(const struct attention_parameters &p, const struct row &row,
                           uint32_t key)
{
    const int64_t distance = (int64_t)key - (int64_t)row.index;
    float sum = 0;
    if (p.slopes)
        sum += p.slopes[row.head] * (float)distance;
    if (p.table)
        sum += p.table[((uint64_t)row.head * p.table_queries + row.index) * p.table_keys + key];
    if (p.buckets)
        sum += p.buckets[(uint64_t)row.head * p.n_buckets + bucket_of(p, distance)];
    return sum;
}

/* The summand for the capped score of the key with this index in the cache; -inf: not seen. */
DEVICE float added_to_score(const struct attention_parameters &p, const struct cuda_sequence &s,
                            const struct row &row, uint32_t index)
{
    const uint32_t key = s.key_index + index;
    if (index >= s.kv_len || !mask_shows(p, s, row, key) || !window_shows(p, s, row, key))
        return -INFINITY;
    const float mask = mask_input(p, s, row, key);
    return mask == -INFINITY ? mask : position_bias(p, row, key) + mask;
}

DEVICE float capped(const struct attention_parameters &p, float dot)
{
    const float scaled = dot * p.scale;
    return p.soft_cap != 0 ? p.soft_cap * tanhf(scaled / p.soft_cap) : scaled;
}

/* The oldest key of the cache that the window lets a query with this index see. */
DEVICE uint32_t oldest_in_sight(const struct attention_parameters &p, const struct cuda_sequence &s,
                                uint32_t index)
{
    if (p.window == 0 || p.sink_tokens != 0 || index < p.window)
        return 0;
    const uint32_t oldest = index - p.window + 1;
    return oldest > s.key_index ? oldest - s.key_index : 0;
}

/* The keys of the cache that a row with an index from first to last may see, as whole tiles. */
struct key_range {
    uint32_t begin, end;
};

DEVICE struct key_range keys_in_sight(const struct attention_parameters &p,
                                      const struct cuda_sequence &s, const struct row &first,
                                      const struct row &last)
{
    struct key_range range = {oldest_in_sight(p, s, first.index), s.kv_len};
    if (p.mask_kind != MASK_IS_BIDIRECTIONAL && s.first_draft == ATTENTION_NONE) {
        const uint32_t seen = p.mask_kind == MASK_IS_CAUSAL ? last.index : last.query;
        const uint32_t n = seen < s.key_index ? 0 : seen - s.key_index + 1;
        range.end = n < range.end ? n : range.end;
    }
    range.begin = range.begin / ATTENTION_TILE_KEYS * ATTENTION_TILE_KEYS;
    return range;
}

/* ---- sums ---- */

/* Whether m is a multiple of log(2) and not a score: where p is rounded, so that a larger m changes no rounding. */
DEVICE bool has_whole_m(uint32_t math)
{
    return rounds_weights_to_e4m3(math) || math == MATH_IS_BF16 || math == MATH_IS_FP16;
}

DEVICE float m_of(uint32_t math, float score)
{
    return has_whole_m(math) ? ceilf(score / LOG_2) : score;
}

DEVICE float weight_of(uint32_t math, float score, float m)
{
    return expf(has_whole_m(math) ? score - m * LOG_2 : score - m);
}

/* The factor that changes sums relative to m = from into sums relative to m = to. to is not -inf. */
DEVICE float factor_between(uint32_t math, float from, float to)
{
    return has_whole_m(math) ? exp2f(from - to) : expf(from - to);
}

/* total 0: the row saw no key. A visible NaN gives NaN. */
DEVICE float lse_of(uint32_t math, float m, float total)
{
    return total == 0 ? -INFINITY : (has_whole_m(math) ? m * LOG_2 : m) + logf(total);
}

/* The sums of one row. A lane has elements lane, lane + 32, ... */
template <uint32_t N> struct row_sums {
    float m, total;
    float sums[N];
};

template <uint32_t N> DEVICE void clear_sums(struct row_sums<N> &sums)
{
    sums.m = -INFINITY;
    sums.total = 0;
    UNROLL
    for (uint32_t c = 0; c < N; c++)
        sums.sums[c] = 0;
}

/* Sets the sums of a row before its first range: its learned sink, or none. */
template <uint32_t N>
DEVICE void begin_sums(const struct attention_parameters &p, uint32_t math, uint32_t head,
                       struct row_sums<N> &sums)
{
    clear_sums(sums);
    if (!p.sinks || p.sinks[head] == -INFINITY)
        return;
    sums.m = m_of(math, p.sinks[head]);
    sums.total = weight_of(math, p.sinks[head], sums.m);
}

/* Scales the sums for a larger m. */
template <uint32_t N> DEVICE void weigh_sums(uint32_t math, float m, struct row_sums<N> &sums)
{
    const float factor = factor_between(math, sums.m, m);
    sums.m = m;
    sums.total *= factor;
    UNROLL
    for (uint32_t c = 0; c < N; c++)
        sums.sums[c] *= factor;
}

/* Merges the sums of a range into those of the ranges before. */
template <uint32_t N>
DEVICE void merge_range(uint32_t math, const struct row_sums<N> &range, struct row_sums<N> &sums)
{
    if (range.total == 0)
        return;
    weigh_sums(math, fmaxf(sums.m, range.m), sums);
    const float factor = factor_between(math, range.m, sums.m);
    sums.total = multiply_add(range.total, factor, sums.total);
    UNROLL
    for (uint32_t c = 0; c < N; c++)
        sums.sums[c] = multiply_add(range.sums[c], factor, sums.sums[c]);
}

/* Stores one element of a row's output. total 0: the row saw no key. */
DEVICE void store_element_of_output(const struct attention_parameters &p, const struct row &row,
                                    uint32_t i, float sum, float total)
{
    const uint64_t at = p.token_rows[row.token] * p.output_stride +
                        (uint64_t)row.head * p.head_dim + i;
    const float x = total == 0 ? 0 : sum / total;
    if (p.output_scale != 0)
        store_element(DTYPE_E4M3, p.output, at, x / p.output_scale);
    else
        store_element(p.compute, p.output, at, x);
}

template <uint32_t N>
DEVICE void store_row(const struct attention_parameters &p, uint32_t math, const struct row &row,
                      const struct row_sums<N> &sums)
{
    const uint32_t lane = threadIdx.x % WARP;
    UNROLL
    for (uint32_t c = 0; c < N; c++)
        if (c * WARP + lane < p.head_dim)
            store_element_of_output(p, row, c * WARP + lane, sums.sums[c], sums.total);
    if (lane == 0 && p.lse)
        p.lse[(uint64_t)p.token_rows[row.token] * p.n_heads + row.head] = lse_of(math, sums.m,
                                                                                 sums.total);
}
