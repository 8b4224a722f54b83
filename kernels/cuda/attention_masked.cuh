/*
 * attention_masked - computes softmax(scores) V on CUDA cores, with every feature of the operator, in both phases.
 *
 * Grid: x a tile of queries (cuda_tile), y heads of a group, z a range of keys if partial sums are wanted. A CTA has up
 * to ATTENTION_TILE_ROWS rows (queries times heads with the same kv head) and walks the keys that any row sees. A warp has
 * MASKED_ROWS rows. If half of the warps can hold all rows, the CTA has two streams of warps, which take ranges in turn
 * (MASKED_STREAMS), else one. A tile of keys is loaded once for a stream and widened to float32; K and V take turns in the
 * same place. The next part is loaded into registers while the current one is multiplied:
 *
 *     keys     [streams][ATTENTION_TILE_KEYS][MASKED_PITCH]    after a range: its sums [rows][MASKED_WIDTH]
 *     queries  [rows][chunks][MASKED_PITCH]    weights  [warps][ATTENTION_TILE_KEYS][MASKED_ROWS]
 *     sums     [rows][MASKED_WIDTH], those of the ranges so far
 *
 * IS_INT8: for contexts of MATH_INT8 and MATH_INT8_PV_FP8. Queries and keys are INT8 counts, followed by
 *
 *     means  [head_dim]    farthest  [warps]    q_units  [rows]
 *
 * Scores: q k is four sums, of elements i, i + 4, ...; a lane computes one of them, for four keys and the rows of its warp;
 * for this Q and K are stored by quarters. For the softmax a lane is a key, for the sums of V a lane is an element of the
 * head. Bound: loads of shared memory. Oracle: attention_reference.cuh to the last bit, kernels/reference/attention_row.c
 * within the dtype.
 */
#pragma once

#include "kernels/cuda/attention_masked_sums.cuh"

/* ---- partial sums of one range ---- */

DEVICE float *partial_of(const struct attention_parameters &p, const struct row &row,
                         uint32_t range)
{
    const uint64_t at = ((uint64_t)(row.token - p.first_token) * p.n_heads + row.head) *
                            p.n_ranges +
                        range;
    return p.partials + at * (2 + p.head_dim);
}

template <uint32_t N>
DEVICE void store_partial(const struct attention_parameters &p, const struct row &row,
                          uint32_t range, const struct row_sums<N> &sums)
{
    const uint32_t lane = threadIdx.x % WARP;
    float *partial = partial_of(p, row, range);
    if (lane == 0) {
        partial[0] = sums.m;
        partial[1] = sums.total;
    }
    UNROLL
    for (uint32_t c = 0; c < N; c++)
        if (c * WARP + lane < p.head_dim)
            partial[2 + c * WARP + lane] = sums.sums[c];
}

/* ---- ranges of a CTA ---- */

/* Writes the sums of the stream's rows over its keys. */
template <uint32_t N>
DEVICE void share_sums(const struct masked_tile &t, const struct row_sums<N> (&sums)[MASKED_ROWS])
{
    constexpr uint32_t n = MASKED_CHUNK(N) / WARP;
    const uint32_t lane = threadIdx.x % WARP;
    UNROLL
    for (uint32_t i = 0; i < MASKED_ROWS; i++) {
        const uint32_t r = t.warp * MASKED_ROWS + i;
        float *row = t.keys + r * MASKED_WIDTH(N);
        if (r >= t.n_rows)
            continue;
        UNROLL
        for (uint32_t c = 0; c < N; c++)
            row[c / n * MASKED_CHUNK(N) + element_at<N>(place_in_v<N>(c % n))] = sums[i].sums[c];
        if (lane == 0) {
            row[N * WARP] = sums[i].m;
            row[N * WARP + 1] = sums[i].total;
        }
    }
}

template <uint32_t N> DEVICE void load_sums(const float *row, struct row_sums<N> &sums)
{
    UNROLL
    for (uint32_t c = 0; c < N; c++)
        sums.sums[c] = row[c * WARP + threadIdx.x % WARP];
    sums.m = row[N * WARP];
    sums.total = row[N * WARP + 1];
}

/* The lanes synchronize before they read what lane 0 has written. */
template <uint32_t N> DEVICE void store_sums(float *row, const struct row_sums<N> &sums)
{
    warp_sync();
    UNROLL
    for (uint32_t c = 0; c < N; c++)
        row[c * WARP + threadIdx.x % WARP] = sums.sums[c];
    if (threadIdx.x % WARP == 0) {
        row[N * WARP] = sums.m;
        row[N * WARP + 1] = sums.total;
    }
    warp_sync();
}

/* Merges the ranges that the streams have shared, in their order, into the sums. With partials it only stores the range. */
template <uint32_t N, bool IS_INT8>
DEVICE void merge_shared(const struct attention_parameters &p, const struct masked_tile &t)
{
    const float *keys = t.keys - t.stream * ATTENTION_TILE_KEYS * MASKED_PITCH(N);
    for (uint32_t r = threadIdx.x / WARP; r < t.n_rows; r += MASKED_WARPS) {
        struct row_sums<N> range, sums;
        load_sums(keys + r * MASKED_WIDTH(N), range);
        if (!IS_INT8 && p.n_ranges != 0) {
            store_partial(p, masked_row(p, t, r), blockIdx.z, range);
            continue;
        }
        load_sums(t.sums + r * MASKED_WIDTH(N), sums);
        merge_range(t.math, range, sums);
        if (MASKED_STREAMS(N) == 2 && t.n_streams == 2) {
            load_sums(keys + ATTENTION_TILE_KEYS * MASKED_PITCH(N) + r * MASKED_WIDTH(N), range);
            merge_range(t.math, range, sums);
        }
        store_sums(t.sums + r * MASKED_WIDTH(N), sums);
    }
}

/* Sets the sums of each row before its first range. */
template <uint32_t N>
DEVICE void begin_rows(const struct attention_parameters &p, const struct masked_tile &t)
{
    for (uint32_t r = threadIdx.x / WARP; r < t.n_rows; r += MASKED_WARPS) {
        struct row_sums<N> sums;
        clear_sums(sums);
        if (t.sequence->kind != SEQUENCE_IS_DUMMY)
            begin_sums(p, t.math, masked_row(p, t, r).head, sums);
        store_sums(t.sums + r * MASKED_WIDTH(N), sums);
    }
}

template <uint32_t N>
DEVICE void store_rows(const struct attention_parameters &p, const struct masked_tile &t)
{
    for (uint32_t r = threadIdx.x / WARP; r < t.n_rows; r += MASKED_WARPS) {
        struct row_sums<N> sums;
        load_sums(t.sums + r * MASKED_WIDTH(N), sums);
        store_row(p, t.math, masked_row(p, t, r), sums);
    }
}

/* Attends to the keys of a CTA: the streams take ranges in turn. */
template <uint32_t N, bool IS_INT8>
DEVICE void attend(const struct attention_parameters &p, const struct masked_tile &t,
                   struct key_range keys)
{
    constexpr uint32_t RANGE = ATTENTION_RANGE_KEYS;
    if (t.stream != 0)
        keys.begin = (keys.begin / RANGE + t.stream) * RANGE;
    do {
        const uint32_t end = (keys.begin / RANGE + 1) * RANGE;
        struct row_sums<N> sums[MASKED_ROWS];
        add_range<N, IS_INT8>(p, t, {keys.begin, keys.end < end ? keys.end : end}, sums);
        share_sums<N>(t, sums);
        cta_sync();
        merge_shared<N, IS_INT8>(p, t);
        cta_sync();
        keys.begin = (keys.begin / RANGE + t.n_streams) * RANGE;
    } while (keys.begin - t.stream * RANGE < keys.end);
}

/* N: elements of a lane, for heads of up to 32 N. */
template <uint32_t N, bool IS_INT8>
DEVICE void attention_masked_body(const struct attention_parameters &p)
{
    SHARED_MEMORY(memory);
    if (p.first_tile + blockIdx.x >= p.counts->n_tiles)
        return;
    struct masked_tile t = masked_tile_of(p, p.first_tile + blockIdx.x, blockIdx.y);
    const struct cuda_sequence &s = *t.sequence;
    const bool is_part = !IS_INT8 && p.n_ranges != 0, is_dummy = s.kind == SEQUENCE_IS_DUMMY;
    if (is_part && (is_dummy || blockIdx.z * ATTENTION_RANGE_KEYS >= s.kv_len))
        return;
    share_out<N>(p, t, (float *)memory);
    begin_rows<N>(p, t);
    if (!is_dummy) {
        const struct row first = masked_row(p, t, 0), last = masked_row(p, t, t.n_rows - 1);
        struct key_range keys = keys_in_sight(p, s, first, last);
        if (is_part) {
            const uint32_t begin = blockIdx.z * ATTENTION_RANGE_KEYS;
            const uint32_t end = begin + ATTENTION_RANGE_KEYS;
            keys.begin = keys.begin > begin ? keys.begin : begin;
            keys.end = keys.end < end ? keys.end : end;
        }
        t.is_by_eight = !IS_INT8 && is_by_eight(p, t.math);
        if (threadIdx.x == 0)
            share_plain_keys<N>(t, plain_keys(p, s, first, last));
        load_queries<N, IS_INT8>(p, t);
        if (IS_INT8)
            count_queries<N>(p, t);
        cta_sync();
        attend<N, IS_INT8>(p, t, keys);
    }
    if (!is_part)
        store_rows<N>(p, t);
}

/* The factors for the range of a lane: that of the sums so far, and that of the range; 1 and 0 if the range is empty. */
struct merge_factors {
    float of_sums, of_range, total;
};

/* The factors of ranges from first to end, one range a lane, as in merge_range. m: the largest before, then including these. */
DEVICE struct merge_factors merge_factors_of(const struct attention_parameters &p, uint32_t math,
                                             const struct row &row, uint32_t first, uint32_t end,
                                             float &m)
{
    const uint32_t lane = threadIdx.x % WARP;
    struct merge_factors factors = {1, 0, 0};
    float own = -INFINITY, largest;
    if (first + lane < end) {
        const float *partial = partial_of(p, row, first + lane);
        factors.total = partial[1];
        own = factors.total == 0 ? -INFINITY : partial[0];
    }
    largest = lane == 0 ? fmaxf(m, own) : own;
    for (uint32_t n = 1; n < WARP; n *= 2) {
        const float other = shuffle(largest, lane >= n ? lane - n : lane);
        largest = fmaxf(other, largest);
    }
    const float before = shuffle(largest, lane == 0 ? 0 : lane - 1);
    if (factors.total != 0) {
        factors.of_sums = factor_between(math, lane == 0 ? m : before, largest);
        factors.of_range = factor_between(math, own, largest);
    }
    m = shuffle(largest, WARP - 1);
    return factors;
}

/* Merges the ranges of a row in order. Grid: x a token from first_token, y a head, z 32 of its elements, one a lane; one warp. */
DEVICE void attention_merge_body(const struct attention_parameters &p)
{
    const uint32_t token = p.first_token + blockIdx.x, lane = threadIdx.x % WARP;
    const uint32_t element = blockIdx.z * WARP + lane;
    const uint32_t sequence = p.token_sequences[token]; /* loaded together with the counts */
    if (token >= p.counts->n_tokens)
        return;
    const struct cuda_sequence &s = p.sequences[sequence];
    const uint32_t math = math_of(p, s);
    const struct row row = row_of(p, s, token, blockIdx.y);
    struct row_sums<1> sums;
    struct key_range keys = {0, 0};
    clear_sums(sums);
    if (s.kind != SEQUENCE_IS_DUMMY) {
        begin_sums(p, math, row.head, sums);
        keys = keys_in_sight(p, s, row, row);
    }
    const uint32_t end = (keys.end + ATTENTION_RANGE_KEYS - 1) / ATTENTION_RANGE_KEYS;
    for (uint32_t first = keys.begin / ATTENTION_RANGE_KEYS; first < end; first += WARP) {
        float parts[WARP]; /* all loads are issued before the first use */
        UNROLL
        for (uint32_t i = 0; i < WARP; i++) {
            parts[i] = 0;
            if (first + i < end && element < p.head_dim)
                parts[i] = partial_of(p, row, first + i)[2 + element];
        }
        const struct merge_factors factors = merge_factors_of(p, math, row, first, end, sums.m);
        UNROLL
        for (uint32_t i = 0; i < WARP; i++) {
            const float total = shuffle(factors.total, i);
            const float of_sums = shuffle(factors.of_sums, i);
            const float of_range = shuffle(factors.of_range, i);
            sums.total = multiply_add(total, of_range, sums.total * of_sums);
            sums.sums[0] = multiply_add(parts[i], of_range, sums.sums[0] * of_sums);
        }
    }
    if (element < p.head_dim)
        store_element_of_output(p, row, element, sums.sums[0], sums.total);
    if (element == 0 && p.lse)
        p.lse[(uint64_t)p.token_rows[token] * p.n_heads + row.head] = lse_of(math, sums.m,
                                                                             sums.total);
}
