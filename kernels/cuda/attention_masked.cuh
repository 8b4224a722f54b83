/*
 * attention_masked - softmax(scores) V on CUDA cores, with everything that the operator does, in both phases.
 *
 * Grid: x a tile of queries (cuda_tile), y heads of a group, z a range of keys where partial sums are wanted. A CTA has up
 * to ATTENTION_TILE_ROWS rows, queries times heads that share a kv head, and walks the keys that any of them sees; a tile of
 * keys is loaded once for all rows, widened to float32 in shared memory, K and V by turns in the same place:
 *
 *     queries  [rows][head_dim]    keys  [ATTENTION_TILE_KEYS][chunk + 1]    weights  [rows][ATTENTION_TILE_KEYS]
 *
 * IS_INT8: contexts of MATH_INT8 and MATH_INT8_PV_FP8, whose queries and keys there are counts, and behind them
 *
 *     means  [head_dim]    farthest  [warps]    q_units  [rows]
 *
 * A warp has every fourth row. Lanes are keys while scores are made, elements of the head while they are summed. Bound: loads
 * of the cache. Oracle: attention_reference.cuh to the last bit, kernels/reference/attention_row.c within the dtype.
 */
#pragma once

#include "kernels/cuda/attention_int8.cuh"

#define MASKED_WARPS     4u
#define MASKED_WARP_ROWS (ATTENTION_TILE_ROWS / MASKED_WARPS)

/* Elements of a head that are in shared memory at a time; N of a lane in all. */
#define MASKED_CHUNK(N) ((N)*WARP < 128u ? (N)*WARP : 128u)

struct masked_tile {
    struct cuda_tile tile;
    const struct cuda_sequence *sequence;
    uint32_t kv_head, first_head, n_heads;
    uint32_t first_row, n_rows; /* of the tile's, those of the CTA */
    uint32_t math;
    float *queries, *keys, *weights;   /* shared */
    float *means, *farthest, *q_units; /* shared, IS_INT8: of the tile of K, and of the queries */
};

DEVICE struct row masked_row(const struct attention_parameters &p, const struct masked_tile &t,
                             uint32_t r)
{
    const uint32_t of_tile = t.first_row + r;
    return row_of(p, *t.sequence, t.tile.first_token + of_tile / t.n_heads,
                  t.first_head + of_tile % t.n_heads);
}

/* The rows of a tile of the step, and of a part of all heads: those of a kv head, p.n_parts of each. */
template <uint32_t N>
DEVICE struct masked_tile masked_tile_of(const struct attention_parameters &p, uint32_t tile,
                                         uint32_t part, float *memory)
{
    const uint32_t group = p.n_heads / p.n_kv_heads;
    const uint32_t first = part % p.n_parts * p.tile_heads;
    struct masked_tile t;
    t.tile = p.tiles[tile];
    t.kv_head = part / p.n_parts;
    t.first_head = t.kv_head * group + first;
    t.n_heads = group - first < p.tile_heads ? group - first : p.tile_heads;
    t.first_row = 0;
    t.n_rows = t.tile.n_tokens * t.n_heads;
    t.sequence = &p.sequences[t.tile.sequence];
    t.math = math_of(p, *t.sequence);
    t.queries = memory;
    t.keys = t.queries + ATTENTION_TILE_ROWS * p.head_dim;
    t.weights = t.keys + ATTENTION_TILE_KEYS * (MASKED_CHUNK(N) + 1);
    t.means = t.weights + ATTENTION_TILE_ROWS * ATTENTION_TILE_KEYS;
    t.farthest = t.means + p.head_dim;
    t.q_units = t.farthest + MASKED_WARPS;
    return t;
}

DEVICE void load_queries(const struct attention_parameters &p, const struct masked_tile &t)
{
    for (uint32_t i = threadIdx.x; i < t.n_rows * p.head_dim; i += blockDim.x) {
        const struct row row = masked_row(p, t, i / p.head_dim);
        const uint64_t at = (uint64_t)row.token * p.n_heads + row.head;
        t.queries[i] = p.queries[at * p.head_dim + i % p.head_dim];
    }
}

/* IS_INT8: a warp a row. */
DEVICE void load_counts(const struct attention_parameters &p, const struct masked_tile &t)
{
    for (uint32_t r = threadIdx.x / WARP; r < t.n_rows; r += MASKED_WARPS) {
        const float *q = query_of(p, masked_row(p, t, r));
        const float unit = count_query(p, q, t.queries + r * p.head_dim);
        if (threadIdx.x % WARP == 0)
            t.q_units[r] = unit;
    }
}

/* IS_INT8: the means of the tile of K that has the key `first`; returns its unit. */
DEVICE float load_means(const struct attention_parameters &p, const struct masked_tile &t,
                        uint32_t first)
{
    const struct key_range keys = keys_of_tile(p, *t.sequence, first);
    float farthest = 0;
    for (uint32_t i = threadIdx.x; i < p.head_dim; i += blockDim.x) {
        const struct tile_element element = element_of_tile(p, *t.sequence, t.kv_head, keys, i);
        t.means[i] = element.mean;
        farthest = fmaxf(farthest, element.farthest);
    }
    farthest = largest_of_warp(farthest);
    if (threadIdx.x % WARP == 0)
        t.farthest[threadIdx.x / WARP] = farthest;
    cta_sync();
    for (uint32_t warp = 0; warp < MASKED_WARPS; warp++)
        farthest = fmaxf(farthest, t.farthest[warp]);
    return farthest / INT8_LARGEST;
}

/* Elements from `from` of K, or of V, of a tile of keys: a warp a key, zeros behind the last one. k_unit: IS_INT8. */
template <uint32_t N, bool IS_INT8>
DEVICE void load_keys(const struct attention_parameters &p, const struct masked_tile &t,
                      uint32_t first, uint32_t from, bool is_v, float k_unit)
{
    const struct cuda_sequence &s = *t.sequence;
    const uint32_t lane = threadIdx.x % WARP, query = p.indices[t.tile.first_token];
    for (uint32_t j = threadIdx.x / WARP; j < ATTENTION_TILE_KEYS; j += MASKED_WARPS) {
        const bool is_there = first + j < s.kv_len;
        struct key_place place = {nullptr, 0};
        if (is_there)
            place = find_key(p, s, t.tile.beam, t.kv_head, first + j);
        const uint32_t position = position_in_sight(p, s, query, s.key_index + first + j);
        float v_unit = 0;
        if (IS_INT8 && is_v && is_there)
            v_unit = unit_of_value(p, place.k + place.v_bytes, t.math);
        UNROLL
        for (uint32_t c = 0; c < MASKED_CHUNK(N) / WARP; c++) {
            const uint32_t i = from + c * WARP + lane;
            float x = 0;
            if (is_there && i < p.head_dim)
                x = is_v ? value_element(p, place.k + place.v_bytes, t.math, i)
                         : key_element(p, place.k, t.math, position, i);
            if (IS_INT8 && is_there && i < p.head_dim)
                x = is_v ? value_in_units(x, v_unit) : count_of(x - t.means[i], k_unit);
            t.keys[j * (MASKED_CHUNK(N) + 1) + c * WARP + lane] = x;
        }
    }
}

/* q k of the lane's key and each row of the warp: dots[row] has four sums, in the order of attention_reference. */
template <uint32_t N, uint32_t ROWS>
DEVICE void dot_chunk(const struct attention_parameters &p, const struct masked_tile &t,
                      uint32_t from, float (&dots)[ROWS][4])
{
    const uint32_t left = p.head_dim - from;
    const uint32_t n = left < MASKED_CHUNK(N) ? left : MASKED_CHUNK(N);
    const float *k = t.keys + threadIdx.x % WARP * (MASKED_CHUNK(N) + 1);
    const float *q = t.queries + threadIdx.x / WARP * p.head_dim + from;
    for (uint32_t i = 0; i < n; i += 4) {
        UNROLL
        for (uint32_t r = 0; r < ROWS; r++) {
            if (threadIdx.x / WARP + r * MASKED_WARPS >= t.n_rows)
                continue;
            UNROLL
            for (uint32_t c = 0; c < 4; c++)
                dots[r][c] = multiply_add(q[r * MASKED_WARPS * p.head_dim + i + c], k[i + c],
                                          dots[r][c]);
        }
    }
}

/* -inf: the row does not see the key, whose index in the cache is given. */
DEVICE float score_of(const struct attention_parameters &p, const struct masked_tile &t, uint32_t r,
                      uint32_t index, float dot)
{
    const float added = added_to_score(p, *t.sequence, masked_row(p, t, r), index);
    return added == -INFINITY ? added : capped(p, dot) + added;
}

/* The lane's key in one row: its weight goes to shared memory, the row's sums are weighed by the new m. */
template <uint32_t N>
DEVICE void weigh_key(const struct masked_tile &t, uint32_t r, float score,
                      struct row_sums<N> &sums)
{
    float largest = score, weight = 0;
    for (int mask = 16; mask > 0; mask /= 2)
        largest = fmaxf(largest, shuffle_xor(largest, mask));
    if (largest != -INFINITY)
        weigh_sums(t.math, fmaxf(sums.m, m_of(t.math, largest)), sums);
    if (score != -INFINITY)
        weight = weight_of(t.math, score, sums.m);
    t.weights[r * ATTENTION_TILE_KEYS + threadIdx.x % WARP] = weight;
}

/* p V of one row and a chunk of elements; the first chunk adds up p, too. */
template <uint32_t N>
DEVICE void add_chunk(const struct masked_tile &t, uint32_t r, uint32_t chunk,
                      struct row_sums<N> &sums)
{
    constexpr uint32_t n = MASKED_CHUNK(N) / WARP;
    const float *weights = t.weights + r * ATTENTION_TILE_KEYS;
    for (uint32_t j = 0; j < ATTENTION_TILE_KEYS; j++) {
        const float *v = t.keys + j * (MASKED_CHUNK(N) + 1) + threadIdx.x % WARP;
        const float weight = round_weight(t.math, weights[j]);
        if (chunk == 0)
            sums.total += weights[j];
        if (weight == 0) /* V of a key that is not seen may be anything */
            continue;
        UNROLL
        for (uint32_t c = 0; c < N; c++)
            if (c / n == chunk)
                sums.sums[c] = multiply_add(weight, v[c % n * WARP], sums.sums[c]);
    }
}

template <uint32_t N, bool IS_INT8>
DEVICE void add_keys(const struct attention_parameters &p, const struct masked_tile &t,
                     uint32_t first, float k_unit, struct row_sums<N> (&sums)[MASKED_WARP_ROWS])
{
    const uint32_t warp = threadIdx.x / WARP;
    float dots[MASKED_WARP_ROWS][4] = {};
    for (uint32_t from = 0; from < p.head_dim; from += MASKED_CHUNK(N)) {
        load_keys<N, IS_INT8>(p, t, first, from, false, k_unit);
        cta_sync();
        dot_chunk<N>(p, t, from, dots);
        cta_sync();
    }
    UNROLL
    for (uint32_t r = 0; r < MASKED_WARP_ROWS; r++) {
        const uint32_t of_tile = warp + r * MASKED_WARPS;
        float dot = (dots[r][0] + dots[r][1]) + (dots[r][2] + dots[r][3]);
        if (IS_INT8 && of_tile < t.n_rows)
            dot = multiply_add(dot, t.q_units[of_tile] * k_unit,
                               query_with_mean(p, query_of(p, masked_row(p, t, of_tile)), t.means));
        if (of_tile < t.n_rows)
            weigh_key(t, of_tile, score_of(p, t, of_tile, first + threadIdx.x % WARP, dot),
                      sums[r]);
    }
    for (uint32_t from = 0, chunk = 0; from < p.head_dim; from += MASKED_CHUNK(N), chunk++) {
        load_keys<N, IS_INT8>(p, t, first, from, true, k_unit);
        cta_sync();
        UNROLL
        for (uint32_t r = 0; r < MASKED_WARP_ROWS; r++)
            if (warp + r * MASKED_WARPS < t.n_rows)
                add_chunk<N>(t, warp + r * MASKED_WARPS, chunk, sums[r]);
        cta_sync();
    }
}

/* The keys of one range up to end. */
template <uint32_t N, bool IS_INT8>
DEVICE uint32_t add_range(const struct attention_parameters &p, const struct masked_tile &t,
                          struct key_range keys, struct row_sums<N> (&sums)[MASKED_WARP_ROWS])
{
    const uint32_t first = keys.begin;
    const uint32_t end = (first / ATTENTION_RANGE_KEYS + 1) * ATTENTION_RANGE_KEYS;
    float k_unit = 0;
    UNROLL
    for (uint32_t r = 0; r < MASKED_WARP_ROWS; r++)
        clear_sums(sums[r]);
    for (; keys.begin < end && keys.begin < keys.end; keys.begin += ATTENTION_TILE_KEYS) {
        if (IS_INT8 && (keys.begin == first || keys.begin % INT8_TILE_KEYS == 0))
            k_unit = load_means(p, t, keys.begin);
        add_keys<N, IS_INT8>(p, t, keys.begin, k_unit, sums);
    }
    return keys.begin;
}

/* ---- a range by itself, and its merge ---- */

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

template <uint32_t N>
DEVICE void attend_range(const struct attention_parameters &p, const struct masked_tile &t,
                         struct key_range keys)
{
    const uint32_t begin = blockIdx.z * ATTENTION_RANGE_KEYS;
    struct row_sums<N> sums[MASKED_WARP_ROWS];
    keys.begin = keys.begin > begin ? keys.begin : begin;
    keys.end = keys.end < begin + ATTENTION_RANGE_KEYS ? keys.end : begin + ATTENTION_RANGE_KEYS;
    (void)add_range<N, false>(p, t, keys, sums);
    UNROLL
    for (uint32_t r = 0; r < MASKED_WARP_ROWS; r++)
        if (threadIdx.x / WARP + r * MASKED_WARPS < t.n_rows)
            store_partial(p, masked_row(p, t, threadIdx.x / WARP + r * MASKED_WARPS), blockIdx.z,
                          sums[r]);
}

template <uint32_t N, bool IS_INT8>
DEVICE void attend_all(const struct attention_parameters &p, const struct masked_tile &t,
                       struct key_range keys)
{
    const uint32_t warp = threadIdx.x / WARP;
    struct row_sums<N> sums[MASKED_WARP_ROWS], range[MASKED_WARP_ROWS];
    UNROLL
    for (uint32_t r = 0; r < MASKED_WARP_ROWS; r++) {
        clear_sums(sums[r]);
        if (warp + r * MASKED_WARPS < t.n_rows && t.sequence->kind != SEQUENCE_IS_DUMMY)
            begin_sums(p, t.math, masked_row(p, t, warp + r * MASKED_WARPS).head, sums[r]);
    }
    while (keys.begin < keys.end) {
        keys.begin = add_range<N, IS_INT8>(p, t, keys, range);
        UNROLL
        for (uint32_t r = 0; r < MASKED_WARP_ROWS; r++)
            merge_range(t.math, range[r], sums[r]);
    }
    UNROLL
    for (uint32_t r = 0; r < MASKED_WARP_ROWS; r++)
        if (warp + r * MASKED_WARPS < t.n_rows)
            store_row(p, t.math, masked_row(p, t, warp + r * MASKED_WARPS), sums[r]);
}

/* N: elements of a lane, heads of up to 32 N. */
template <uint32_t N, bool IS_INT8>
DEVICE void attention_masked_body(const struct attention_parameters &p)
{
    SHARED_MEMORY(memory);
    if (p.first_tile + blockIdx.x >= p.counts->n_tiles)
        return;
    const struct masked_tile t = masked_tile_of<N>(p, p.first_tile + blockIdx.x, blockIdx.y,
                                                   (float *)memory);
    const struct cuda_sequence &s = *t.sequence;
    struct key_range keys = {0, 0};
    if (s.kind != SEQUENCE_IS_DUMMY) {
        if (IS_INT8)
            load_counts(p, t);
        else
            load_queries(p, t);
        keys = keys_in_sight(p, s, masked_row(p, t, 0), masked_row(p, t, t.n_rows - 1));
    }
    if (IS_INT8 || p.n_ranges == 0)
        attend_all<N, IS_INT8>(p, t, keys);
    else if (s.kind != SEQUENCE_IS_DUMMY && blockIdx.z * ATTENTION_RANGE_KEYS < s.kv_len)
        attend_range<N>(p, t, keys);
}

/* Of a lane's range, behind those before it: what weighs the sums so far, and its own. */
struct merge_factors {
    float of_sums, of_range, total;
};

/* Ranges from first to end, one of each lane; m: of all before, then of these, too. As merge_range. */
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

/* Grid: x a token from first_token, y a head, z 32 of its elements, one a lane; one warp. The ranges of a row in their order. */
DEVICE void attention_merge_body(const struct attention_parameters &p)
{
    const uint32_t token = p.first_token + blockIdx.x, lane = threadIdx.x % WARP;
    const uint32_t element = blockIdx.z * WARP + lane;
    const uint32_t sequence = p.token_sequences[token]; /* under way with the counts */
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
        float parts[WARP]; /* all are under way before the first is waited for */
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
            if (total == 0)
                continue;
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
