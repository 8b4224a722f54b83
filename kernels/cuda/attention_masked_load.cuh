/*
 * attention_masked_load - loads the queries of a CTA of attention_masked, and the tiles of keys of a stream, from any cache and
 * from new keys: widened to float32, or as counts of MATH_INT8.
 */
#pragma once

#include "kernels/cuda/attention_masked_tile.cuh"

/* ---- queries ---- */

/* The place of element i of a row of Q or K, which are stored by quarters. */
template <uint32_t N> DEVICE uint32_t place_of_k(uint32_t i)
{
    return i / MASKED_CHUNK(N) * MASKED_PITCH(N) + i % 4 * MASKED_QUARTER(N) +
           i % MASKED_CHUNK(N) / 4;
}

template <uint32_t N> DEVICE float *shared_query(const struct masked_tile &t, uint32_t r)
{
    return t.queries + r * MASKED_CHUNKS(N) * MASKED_PITCH(N);
}

/* Loads the queries, with zeros after the last element and the last row. IS_INT8: only the zeros; count_queries makes the
 * counts. */
template <uint32_t N, bool IS_INT8>
DEVICE void load_queries(const struct attention_parameters &p, const struct masked_tile &t)
{
    const uint32_t n_rows = (t.n_rows + MASKED_ROWS - 1) / MASKED_ROWS * MASKED_ROWS;
    for (uint32_t at = threadIdx.x; at < n_rows * N * WARP; at += blockDim.x) {
        const uint32_t r = at / (N * WARP), i = at % (N * WARP);
        const bool is_there = r < t.n_rows && i < p.head_dim;
        if (IS_INT8 && is_there)
            continue;
        shared_query<N>(t, r)[place_of_k<N>(i)] = is_there ? query_of(p, masked_row(p, t, r))[i]
                                                           : 0;
    }
}

/* IS_INT8: computes the counts of the queries, a warp a row. */
template <uint32_t N>
DEVICE void count_queries(const struct attention_parameters &p, const struct masked_tile &t)
{
    const uint32_t lane = threadIdx.x % WARP;
    for (uint32_t r = threadIdx.x / WARP; r < t.n_rows; r += MASKED_WARPS) {
        const float *q = query_of(p, masked_row(p, t, r));
        const float unit = unit_of_query(p, q);
        for (uint32_t i = lane; i < p.head_dim; i += WARP)
            shared_query<N>(t, r)[place_of_k<N>(i)] = count_of(q[i], unit);
        if (lane == 0)
            t.q_units[r] = unit;
    }
}

/* ---- tiles of keys ---- */

/* IS_INT8: computes the means of the tile of K that has the key `first`. Returns its unit. */
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

/* A chunk of K, or of V, of a tile of keys. */
struct masked_part {
    uint32_t first, from; /* key, element */
    bool is_v;
};

/* The place of element i of a chunk of V: of eight elements four are in one half, the others in the other half. */
template <uint32_t N> DEVICE uint32_t place_of_v(uint32_t i)
{
    return i / 4 % 2 * (MASKED_CHUNK(N) / 2) + i / 8 * 4 + i % 4;
}

/* The place of the lane's element c of a chunk of V: four side by side, or two with a distance of WARP. */
template <uint32_t N> DEVICE uint32_t place_in_v(uint32_t c)
{
    const uint32_t lane = threadIdx.x % WARP;
    return MASKED_CHUNK(N) == 4 * WARP ? lane * 4 + c : c * WARP + lane;
}

/* The inverse of place_of_v. */
template <uint32_t N> DEVICE uint32_t element_at(uint32_t place)
{
    constexpr uint32_t HALF = MASKED_CHUNK(N) / 2;
    return place % HALF / 4 * 8 + place / HALF * 4 + place % 4;
}

/* Loads a part in the general way: a warp a key, an element a lane. k_unit: only with IS_INT8. */
template <uint32_t N, bool IS_INT8>
DEVICE void load_elements(const struct attention_parameters &p, const struct masked_tile &t,
                          const struct masked_part &part, float k_unit)
{
    const struct cuda_sequence &s = *t.sequence;
    const uint32_t lane = threadIdx.x % WARP, query = p.indices[t.tile.first_token];
    for (uint32_t j = t.warp; j < ATTENTION_TILE_KEYS; j += t.n_warps) {
        const bool is_there = part.first + j < s.kv_len;
        struct key_place place = {nullptr, 0};
        if (is_there)
            place = find_key(p, s, t.tile.beam, t.kv_head, part.first + j);
        const uint32_t position = position_in_sight(p, s, query, s.key_index + part.first + j);
        float *row = t.keys + j * MASKED_PITCH(N), v_unit = 0;
        if (IS_INT8 && part.is_v && is_there)
            v_unit = unit_of_value(p, place.k + place.v_bytes, t.math);
        UNROLL
        for (uint32_t c = 0; c < MASKED_CHUNK(N); c += WARP) {
            const uint32_t i = part.from + c + lane;
            float x = 0;
            if (is_there && i < p.head_dim)
                x = part.is_v ? value_element(p, place.k + place.v_bytes, t.math, i)
                              : key_element(p, place.k, t.math, position, i);
            if (IS_INT8 && is_there && i < p.head_dim)
                x = part.is_v ? value_in_units(x, v_unit) : count_of(x - t.means[i], k_unit);
            row[part.is_v ? place_of_v<N>(lane) + c / 2 : place_of_k<N>(lane) + c / 4] = x;
        }
    }
}

/* The place of a key: the distance of its K from the first byte of the cache, and whether V has the usual distance from K. */
struct masked_place {
    uint64_t k;
    bool is_cached;
};

/* The place of the lane's key of a tile. After the last key it is that of the last key: a key that no row sees enters no sum. */
DEVICE struct masked_place place_of_lane(const struct attention_parameters &p,
                                         const struct masked_tile &t, uint32_t first)
{
    const uint32_t index = first + threadIdx.x % WARP, last = t.sequence->kv_len - 1;
    const struct key_place place = find_key(p, *t.sequence, t.tile.beam, t.kv_head,
                                            index < last ? index : last);
    return {(uint64_t)(uintptr_t)place.k - (uint64_t)(uintptr_t)p.kv_base,
            place.v_bytes == p.kv_bytes};
}

/* The distance of K, or of V, from the first byte of the cache. */
DEVICE uint64_t distance_of(const struct attention_parameters &p, const struct masked_place &place,
                            bool is_v)
{
    const uint64_t of_new = (uint64_t)p.head_dim * element_bytes(p.cache);
    return place.k + (!is_v ? 0 : place.is_cached ? p.kv_bytes : of_new);
}

/* Eight elements a lane, in their stored form, for each load of the warp. */
template <uint32_t N> struct masked_words {
    uint32_t words[MASKED_LOADS(N)][4];
};

/* The key of the lane in a load of its warp. The keys of a load are neighbours. */
template <uint32_t N> DEVICE uint32_t key_of_load(const struct masked_tile &t, uint32_t load)
{
    return t.warp * (ATTENTION_TILE_KEYS / t.n_warps) + threadIdx.x % WARP / MASKED_LOAD_LANES(N) +
           load * MASKED_LOAD_KEYS(N);
}

/* Whether the warp has a second half of loads: not if four warps share the loads instead of two. */
template <uint32_t N> DEVICE bool has_more_loads(const struct masked_tile &t)
{
    return MASKED_STREAMS(N) == 1 || t.n_warps < MASKED_WARPS;
}

/* BYTES: the bytes of an element; row: that of the lane's key. Zeros after the last element. */
template <uint32_t N, uint32_t BYTES, uint32_t FIRST>
DEVICE void fetch_half(const struct attention_parameters &p, const struct masked_tile &t,
                       uint64_t row, uint32_t from, struct masked_words<N> &fetched)
{
    const uint32_t i = from + threadIdx.x % MASKED_LOAD_LANES(N) * 8;
    const bool is_there = i < p.head_dim;
    const uint8_t *base = (const uint8_t *)p.kv_base + i * BYTES;
    UNROLL
    for (uint32_t load = FIRST; load < FIRST + MASKED_LOADS(N) / 2; load++) {
        const uint32_t j = key_of_load<N>(t, load);
        const uint64_t high = shuffle((uint32_t)(row >> 32), j);
        const uint64_t distance = high << 32 | shuffle((uint32_t)row, j);
        uint32_t(&words)[4] = fetched.words[load];
        words[0] = words[1] = words[2] = words[3] = 0;
        if (is_there) {
            if constexpr (BYTES == 1) {
                uint32_t two[2];
                load_vector8(two, base + distance);
                words[0] = two[0], words[1] = two[1];
            } else {
                load_vector16(words, base + distance);
            }
        }
    }
}

/* Issues half of the warp's loads of K or V, from element `from` on. Not for F32, which has twice the words: load_floats. */
template <uint32_t N, uint32_t HALF>
DEVICE void fetch_words(const struct attention_parameters &p, const struct masked_tile &t,
                        const struct masked_place &place, uint32_t from, bool is_v,
                        struct masked_words<N> &fetched)
{
    constexpr uint32_t FIRST = HALF * MASKED_LOADS(N) / 2;
    const uint64_t row = distance_of(p, place, is_v);
    if (!t.is_by_eight || p.cache == DTYPE_F32 || (HALF == 1 && !has_more_loads<N>(t))) {
        UNROLL
        for (uint32_t load = FIRST; load < FIRST + MASKED_LOADS(N) / 2; load++) /* not used */
            for (uint32_t i = 0; i < 4; i++)
                fetched.words[load][i] = 0;
    } else if (is_8bit(p.cache)) {
        fetch_half<N, 1, FIRST>(p, t, row, from, fetched);
    } else {
        fetch_half<N, 2, FIRST>(p, t, row, from, fetched);
    }
}

template <uint32_t DTYPE> DEVICE void widen(const uint32_t (&words)[4], float (&x)[8])
{
    UNROLL
    for (uint32_t i = 0; i < 8; i++) {
        if (DTYPE == DTYPE_BF16)
            x[i] = bits_float(i % 2 ? words[i / 2] & 0xffff0000u : words[i / 2] << 16);
        if (DTYPE == DTYPE_F16)
            x[i] = f16_to_float((uint16_t)(words[i / 2] >> i % 2 * 16));
        if (DTYPE == DTYPE_INT8)
            x[i] = (float)(int8_t)(words[i / 4] >> i % 4 * 8);
    }
    if (DTYPE == DTYPE_E4M3) {
        UNROLL
        for (uint32_t i = 0; i < 8; i += 2) {
            const uint32_t pair = e4m3x2_to_f16x2(words[i / 4] >> i % 4 * 8 & 0xffffu);
            x[i] = f16_to_float((uint16_t)pair);
            x[i + 1] = f16_to_float((uint16_t)(pair >> 16));
        }
    }
}

/* Stores elements 8 i ... of a row of a chunk. */
template <uint32_t N>
DEVICE void store_eight(float *row, uint32_t i, bool is_v, const float (&x)[8])
{
    if (is_v) {
        UNROLL
        for (uint32_t c = 0; c < 2; c++) {
            const uint32_t four[4] = {float_bits(x[c * 4]), float_bits(x[c * 4 + 1]),
                                      float_bits(x[c * 4 + 2]), float_bits(x[c * 4 + 3])};
            store_vector16(row + c * (MASKED_CHUNK(N) / 2) + i * 4, four);
        }
    } else {
        UNROLL
        for (uint32_t c = 0; c < 4; c++) {
            const uint32_t two[2] = {float_bits(x[c]), float_bits(x[c + 4])};
            store_vector8(row + c * MASKED_QUARTER(N) + i * 2, two);
        }
    }
}

template <uint32_t N, uint32_t DTYPE, uint32_t FIRST>
DEVICE void store_half(const struct masked_tile &t, bool is_v, float scale,
                       const struct masked_words<N> &fetched)
{
    UNROLL
    for (uint32_t load = FIRST; load < FIRST + MASKED_LOADS(N) / 2; load++) {
        float x[8];
        widen<DTYPE>(fetched.words[load], x);
        UNROLL
        for (uint32_t i = 0; i < 8; i++)
            x[i] = is_8bit(DTYPE) ? x[i] * scale : x[i];
        store_eight<N>(t.keys + key_of_load<N>(t, load) * MASKED_PITCH(N),
                       threadIdx.x % MASKED_LOAD_LANES(N), is_v, x);
    }
}

template <uint32_t N, uint32_t DTYPE>
DEVICE void store_all(const struct masked_tile &t, bool is_v, float scale,
                      const struct masked_words<N> &fetched)
{
    store_half<N, DTYPE, 0>(t, is_v, scale, fetched);
    if (has_more_loads<N>(t))
        store_half<N, DTYPE, MASKED_LOADS(N) / 2>(t, is_v, scale, fetched);
}

template <uint32_t N>
DEVICE void load_floats(const struct attention_parameters &p, const struct masked_tile &t,
                        const struct masked_part &part)
{
    const struct masked_place place = place_of_lane(p, t, part.first);
    const uint64_t row = distance_of(p, place, part.is_v);
    const uint32_t lane = threadIdx.x % MASKED_LOAD_LANES(N), i = part.from + lane * 8;
    const uint32_t n = has_more_loads<N>(t) ? MASKED_LOADS(N) : MASKED_LOADS(N) / 2;
    for (uint32_t load = 0; load < n; load++) {
        const uint32_t j = key_of_load<N>(t, load);
        const uint64_t high = shuffle((uint32_t)(row >> 32), j);
        const uint64_t distance = high << 32 | shuffle((uint32_t)row, j);
        const uint8_t *from = (const uint8_t *)p.kv_base + distance + i * sizeof(float);
        uint32_t words[2][4] = {};
        float x[8];
        if (i < p.head_dim) {
            load_vector16(words[0], from);
            load_vector16(words[1], from + sizeof words[0]);
        }
        UNROLL
        for (uint32_t c = 0; c < 8; c++)
            x[c] = bits_float(words[c / 4][c % 4]);
        store_eight<N>(t.keys + j * MASKED_PITCH(N), lane, part.is_v, x);
    }
}

/* Stores the fetched words of a part in shared memory. */
template <uint32_t N, bool IS_INT8>
DEVICE void store_words(const struct attention_parameters &p, const struct masked_tile &t,
                        const struct masked_part &part, float k_unit,
                        const struct masked_words<N> &fetched)
{
    const float scale = part.is_v ? p.v_scale : p.k_scale;
    if (IS_INT8 || !t.is_by_eight)
        load_elements<N, IS_INT8>(p, t, part, k_unit);
    else if (p.cache == DTYPE_BF16)
        store_all<N, DTYPE_BF16>(t, part.is_v, scale, fetched);
    else if (p.cache == DTYPE_F16)
        store_all<N, DTYPE_F16>(t, part.is_v, scale, fetched);
    else if (p.cache == DTYPE_INT8)
        store_all<N, DTYPE_INT8>(t, part.is_v, scale, fetched);
    else if (p.cache == DTYPE_E4M3)
        store_all<N, DTYPE_E4M3>(t, part.is_v, scale, fetched);
    else
        load_floats<N>(p, t, part);
}
