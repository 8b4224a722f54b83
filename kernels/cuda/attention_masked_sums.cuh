/*
 * attention_masked_sums - computes a tile of keys for attention_masked: its scores, their weights, and the sums of V of a range.
 */
#pragma once

#include "kernels/cuda/attention_masked_load.cuh"

/* ---- scores ---- */

/* Loads four floats from shared memory. */
DEVICE void load_four(float (&x)[4], uint32_t from)
{
    uint32_t words[4];
    load_shared16(words, from);
    UNROLL
    for (uint32_t i = 0; i < 4; i++)
        x[i] = bits_float(words[i]);
}

/* Computes quarter lane % 4 of q k, for the warp's rows and keys lane / 4 + 8 j, in the order of attention_reference. Zeros
 * after the last element add nothing. */
template <uint32_t N>
DEVICE void dot_chunk(const struct attention_parameters &p, const struct masked_tile &t,
                      uint32_t from, float (&dots)[MASKED_ROWS][4])
{
    const uint32_t lane = threadIdx.x % WARP, left = p.head_dim - from;
    const uint32_t n = left < MASKED_CHUNK(N) ? left : MASKED_CHUNK(N);
    const uint32_t quarter = lane % 4 * MASKED_QUARTER(N);
    const float *of_warp = shared_query<N>(t, t.warp * MASKED_ROWS) + place_of_k<N>(from);
    uint32_t k = shared_address(t.keys + lane / 4 * MASKED_PITCH(N) + quarter);
    uint32_t q = shared_address(of_warp + quarter);
    for (const uint32_t end = k + (n + 15) / 16 * 16; k < end; k += 16, q += 16) {
        float of_q[MASKED_ROWS][4];
        UNROLL
        for (uint32_t r = 0; r < MASKED_ROWS; r++)
            load_four(of_q[r], q + r * MASKED_CHUNKS(N) * MASKED_PITCH(N) * 4);
        UNROLL
        for (uint32_t j = 0; j < 4; j++) {
            float of_k[4];
            load_four(of_k, k + j * 8 * MASKED_PITCH(N) * 4);
            UNROLL
            for (uint32_t c = 0; c < 4; c++) {
                UNROLL
                for (uint32_t r = 0; r < MASKED_ROWS; r++)
                    dots[r][j] = multiply_add(of_q[r][c], of_k[c], dots[r][j]);
            }
        }
    }
}

/* The key of the lane in a tile after sum_quarters. */
DEVICE uint32_t key_of_lane()
{
    return threadIdx.x % WARP / 4 + threadIdx.x % 4 * 8;
}

/* The lane of a key: the inverse of key_of_lane. */
DEVICE uint32_t lane_of_key(uint32_t j)
{
    return j % 8 * 4 + j / 8;
}

/* Sums the quarters of the lane's key: (first + second) + (third + fourth). */
DEVICE float sum_quarters(const float (&dots)[4])
{
    const bool is_odd = threadIdx.x & 1, is_high = threadIdx.x & 2;
    float halves[2];
    UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        const float sent = is_odd ? dots[2 * i] : dots[2 * i + 1];
        halves[i] = (is_odd ? dots[2 * i + 1] : dots[2 * i]) + shuffle_xor(sent, 1);
    }
    const float sent = is_high ? halves[0] : halves[1];
    return (is_high ? halves[1] : halves[0]) + shuffle_xor(sent, 2);
}

/* The summands for the scores of the lane's key in the warp's rows; -inf: not seen, or no row. They go through the place of
 * the weights, one row at a time, because the computation needs many registers. */
DEVICE void added_to_scores(const struct attention_parameters &p, const struct masked_tile &t,
                            uint32_t index, float (&added)[MASKED_ROWS])
{
    float *of_lane = t.weights + threadIdx.x % WARP * MASKED_ROWS;
    for (uint32_t i = 0; i < MASKED_ROWS; i++) {
        const uint32_t r = t.warp * MASKED_ROWS + i;
        of_lane[i] = r < t.n_rows ? added_to_score(p, *t.sequence, masked_row(p, t, r), index)
                                  : -INFINITY;
    }
    load_four(added, shared_address(of_lane));
}

/* The scores of the lane's key in the warp's rows. */
template <uint32_t N, bool IS_INT8>
DEVICE void score_rows(const struct attention_parameters &p, const struct masked_tile &t,
                       uint32_t first, float k_unit, const float (&dots)[MASKED_ROWS][4],
                       float (&scores)[MASKED_ROWS])
{
    float added[MASKED_ROWS] = {};
    UNROLL
    for (uint32_t i = 0; i < MASKED_ROWS; i++) {
        const uint32_t r = t.warp * MASKED_ROWS + i;
        scores[i] = sum_quarters(dots[i]);
        if (IS_INT8 && r < t.n_rows)
            scores[i] = multiply_add(scores[i], t.q_units[r] * k_unit,
                                     query_with_mean(p, query_of(p, masked_row(p, t, r)), t.means));
    }
    if (!is_plain<N>(t, first))
        added_to_scores(p, t, first + key_of_lane(), added);
    UNROLL
    for (uint32_t i = 0; i < MASKED_ROWS; i++)
        scores[i] = added[i] == -INFINITY ? added[i] : capped(p, scores[i]) + added[i];
}

/* Turns scores into weights, in shared memory, and scales the sums for the new m. */
template <uint32_t N>
DEVICE void weigh_rows(const struct masked_tile &t, const float (&scores)[MASKED_ROWS],
                       struct row_sums<N> (&sums)[MASKED_ROWS])
{
    float largest[MASKED_ROWS];
    uint32_t weights[MASKED_ROWS];
    UNROLL
    for (uint32_t i = 0; i < MASKED_ROWS; i++)
        largest[i] = scores[i];
    UNROLL
    for (int mask = 16; mask > 0; mask /= 2) {
        UNROLL
        for (uint32_t i = 0; i < MASKED_ROWS; i++)
            largest[i] = fmaxf(largest[i], shuffle_xor(largest[i], mask));
    }
    UNROLL
    for (uint32_t i = 0; i < MASKED_ROWS; i++) {
        const float m = largest[i] == -INFINITY ? sums[i].m
                                                : fmaxf(sums[i].m, m_of(t.math, largest[i]));
        if (m != sums[i].m) /* else the factor is 1 */
            weigh_sums(t.math, m, sums[i]);
        const float weight = scores[i] == -INFINITY ? 0 : weight_of(t.math, scores[i], m);
        weights[i] = float_bits(weight);
    }
    store_vector16(t.weights + threadIdx.x % WARP * MASKED_ROWS, weights);
    warp_sync();
}

/* ---- sums ---- */

/* Adds p V for the warp's rows and a chunk of elements. The first chunk also sums p. */
template <uint32_t N, bool IS_ROUNDED>
DEVICE void add_chunk(const struct masked_tile &t, uint32_t chunk,
                      struct row_sums<N> (&sums)[MASKED_ROWS])
{
    constexpr uint32_t n = MASKED_CHUNK(N) / WARP, KEYS = IS_ROUNDED ? 1 : 8;
    uint32_t v = shared_address(t.keys + place_in_v<N>(0)), w = shared_address(t.weights);
    for (uint32_t j = 0; j < ATTENTION_TILE_KEYS; j += KEYS) {
        UNROLL
        for (uint32_t i = 0; i < KEYS; i++, v += MASKED_PITCH(N) * 4) {
            const uint32_t lane = lane_of_key(j + i);
            float weights[MASKED_ROWS], x[n];
            load_four(weights, w + lane * MASKED_ROWS * 4);
            if constexpr (n == 4) {
                load_four(x, v);
            } else {
                x[0] = bits_float(load_shared(v));
                x[1] = bits_float(load_shared(v + WARP * 4));
            }
            UNROLL
            for (uint32_t r = 0; r < MASKED_ROWS; r++) {
                const float weight = IS_ROUNDED ? round_weight(t.math, weights[r]) : weights[r];
                if (chunk == 0)
                    sums[r].total += weights[r];
                if (weight == 0) /* V of a hidden key may be NaN */
                    continue;
                UNROLL
                for (uint32_t c = 0; c < N; c++)
                    if (c / n == chunk)
                        sums[r].sums[c] = multiply_add(weight, x[c % n], sums[r].sums[c]);
            }
        }
    }
}

/* Adds the keys of a tile to the sums, and starts to load the first chunk of the next tile if there is one before `end`.
 * place: that of the lane's key. */
template <uint32_t N, bool IS_INT8>
DEVICE void add_keys(const struct attention_parameters &p, const struct masked_tile &t,
                     uint32_t first, uint32_t end, float k_unit, struct masked_place &place,
                     struct masked_words<N> &fetched, struct row_sums<N> (&sums)[MASKED_ROWS])
{
    const bool has_rows = t.warp * MASKED_ROWS < t.n_rows;
    const uint32_t next = first + ATTENTION_TILE_KEYS;
    const uint32_t n_chunks = p.head_dim <= MASKED_CHUNK(N) ? 1 : MASKED_CHUNKS(N);
    float dots[MASKED_ROWS][4] = {};
    UNROLL
    for (uint32_t chunk = 0; chunk < MASKED_CHUNKS(N); chunk++) {
        const uint32_t from = chunk * MASKED_CHUNK(N);
        const bool is_last = chunk + 1 == n_chunks;
        const uint32_t from_next = is_last ? 0 : from + MASKED_CHUNK(N);
        if (chunk >= n_chunks)
            break;
        store_words<N, IS_INT8>(p, t, {first, from, false}, k_unit, fetched);
        fetch_words<N, 0>(p, t, place, from_next, is_last, fetched);
        stream_sync(t);
        if (has_rows)
            dot_chunk<N>(p, t, from, dots);
        if (MASKED_CHUNKS(N) > 1)
            fetch_words<N, 1>(p, t, place, from_next, is_last, fetched);
        stream_sync(t);
    }
    if (has_rows) {
        float scores[MASKED_ROWS];
        score_rows<N, IS_INT8>(p, t, first, k_unit, dots, scores);
        weigh_rows(t, scores, sums);
    }
    if (MASKED_CHUNKS(N) == 1) { /* registers are free again */
        fetch_words<N, 1>(p, t, place, 0, true, fetched);
        if (next < end)
            place = place_of_lane(p, t, next);
    }
    UNROLL
    for (uint32_t chunk = 0; chunk < MASKED_CHUNKS(N); chunk++) {
        const uint32_t from = chunk * MASKED_CHUNK(N);
        const bool is_last = chunk + 1 == n_chunks;
        const uint32_t from_next = is_last ? 0 : from + MASKED_CHUNK(N);
        if (chunk >= n_chunks)
            break;
        store_words<N, IS_INT8>(p, t, {first, from, true}, k_unit, fetched);
        if (MASKED_CHUNKS(N) > 1 && is_last && next < end)
            place = place_of_lane(p, t, next);
        if (!is_last || next < end) {
            fetch_words<N, 0>(p, t, place, from_next, !is_last, fetched);
            fetch_words<N, 1>(p, t, place, from_next, !is_last, fetched);
        }
        stream_sync(t);
        if (has_rows && has_whole_m(t.math))
            add_chunk<N, true>(t, chunk, sums);
        else if (has_rows)
            add_chunk<N, false>(t, chunk, sums);
        stream_sync(t);
    }
}

/* Adds the keys of one range. */
template <uint32_t N, bool IS_INT8>
DEVICE void add_range(const struct attention_parameters &p, const struct masked_tile &t,
                      struct key_range keys, struct row_sums<N> (&sums)[MASKED_ROWS])
{
    const uint32_t first = keys.begin;
    struct masked_words<N> fetched;
    float k_unit = 0;
    UNROLL
    for (uint32_t r = 0; r < MASKED_ROWS; r++)
        clear_sums(sums[r]);
    if (first >= keys.end)
        return;
    struct masked_place place = place_of_lane(p, t, first);
    fetch_words<N, 0>(p, t, place, 0, false, fetched);
    fetch_words<N, 1>(p, t, place, 0, false, fetched);
    for (; keys.begin < keys.end; keys.begin += ATTENTION_TILE_KEYS) {
        if (IS_INT8 && (keys.begin == first || keys.begin % INT8_TILE_KEYS == 0))
            k_unit = load_means(p, t, keys.begin);
        add_keys<N, IS_INT8>(p, t, keys.begin, keys.end, k_unit, place, fetched, sums);
    }
}
