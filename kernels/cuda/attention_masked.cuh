/*
 * attention_masked - softmax(scores) V on CUDA cores, with everything that the operator does, in both phases.
 *
 * Grid: x a tile of queries (cuda_tile), y heads of a group, z a range of keys where partial sums are wanted. A CTA has up
 * to ATTENTION_TILE_ROWS rows, queries times heads that share a kv head, and walks the keys that any of them sees. A warp has
 * MASKED_ROWS rows. Where half of the warps have them all, the CTA is two streams of warps, which take ranges by turns
 * (MASKED_STREAMS), else it is one. A stream's tile of keys is loaded once, widened to float32, K and V by turns in the same place; what is next is
 * under way, in registers, while the last one is multiplied:
 *
 *     keys     [streams][ATTENTION_TILE_KEYS][MASKED_PITCH]    behind a range: its sums [rows][MASKED_WIDTH]
 *     queries  [rows][chunks][MASKED_PITCH]    weights  [warps][ATTENTION_TILE_KEYS][MASKED_ROWS]
 *     sums     [rows][MASKED_WIDTH], of the ranges so far
 *
 * IS_INT8: contexts of MATH_INT8 and MATH_INT8_PV_FP8, whose queries and keys there are counts, and behind them
 *
 *     means  [head_dim]    farthest  [warps]    q_units  [rows]
 *
 * Scores: q k is four sums, of elements i, i + 4, ...; a lane has one of them, of four keys and the rows of its warp, for
 * which Q and K lie by quarters. Then lanes are keys, and then elements of the head, while they are summed. Bound: loads of
 * shared memory. Oracle: attention_reference.cuh to the last bit, kernels/reference/attention_row.c within the dtype.
 */
#pragma once

#include "kernels/cuda/attention_int8.cuh"

#define MASKED_WARPS 4u
#define MASKED_ROWS  4u /* of a warp */

/* Elements of a head that are in shared memory at a time, in a quarter of a row and in a row; N of a lane in all. Lanes that
 * read quarters of two keys, or write eight elements each, meet no bank twice. */
#define MASKED_CHUNK(N)   ((N)*WARP < 128u ? (N)*WARP : 128u)
#define MASKED_CHUNKS(N)  ((N)*WARP / MASKED_CHUNK(N))
#define MASKED_QUARTER(N) (MASKED_CHUNK(N) / 4 + 4)
#define MASKED_PITCH(N)   (4 * MASKED_QUARTER(N))
/* Of the sums of a row: elements, m, total; then, of the first row, where plain keys begin and end. */
#define MASKED_WIDTH(N) ((N)*WARP + 4)

/* Streams of a CTA at most: more elements leave no registers for what two warps would have under way. */
#define MASKED_STREAMS(N) ((N)*WARP <= 128u ? 2u : 1u)
/* Loads of a warp: of eight elements a lane, so many keys a load, so many loads of a tile at most. */
#define MASKED_LOAD_LANES(N) (MASKED_CHUNK(N) / 8)
#define MASKED_LOAD_KEYS(N)  (WARP / MASKED_LOAD_LANES(N))
#define MASKED_LOADS(N)                                                                            \
    (ATTENTION_TILE_KEYS / MASKED_LOAD_KEYS(N) * MASKED_STREAMS(N) / MASKED_WARPS)

struct masked_tile {
    struct cuda_tile tile;
    const struct cuda_sequence *sequence;
    uint32_t kv_head, first_head, n_heads;
    uint32_t first_row, n_rows; /* of the tile's, those of the CTA */
    uint32_t math;
    uint32_t n_streams, stream, n_warps; /* of the stream */
    uint32_t warp;                       /* of the stream: of its rows, from MASKED_ROWS warp on */
    bool is_by_eight;                    /* rows of the cache come eight elements at a time */
    float *queries, *keys, *weights, *sums; /* shared; keys: the stream's, weights: the warp's */
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
DEVICE struct masked_tile masked_tile_of(const struct attention_parameters &p, uint32_t tile,
                                         uint32_t part)
{
    const uint32_t group = p.n_heads / p.n_kv_heads;
    const uint32_t first = part % p.n_parts * p.tile_heads;
    struct masked_tile t = {};
    t.tile = p.tiles[tile];
    t.kv_head = part / p.n_parts;
    t.first_head = t.kv_head * group + first;
    t.n_heads = group - first < p.tile_heads ? group - first : p.tile_heads;
    t.first_row = 0;
    t.n_rows = t.tile.n_tokens * t.n_heads;
    t.sequence = &p.sequences[t.tile.sequence];
    t.math = math_of(p, *t.sequence);
    return t;
}

/* -inf: the row does not see the key, whose index in the cache is given. */
DEVICE float score_of(const struct attention_parameters &p, const struct masked_tile &t, uint32_t r,
                      uint32_t index, float dot)
{
    const float added = added_to_score(p, *t.sequence, masked_row(p, t, r), index);
    return added == -INFINITY ? added : capped(p, dot) + added;
}

/* ---- what a CTA is ---- */

template <uint32_t N>
DEVICE void share_out(const struct attention_parameters &p, struct masked_tile &t, float *memory)
{
    const uint32_t warp = threadIdx.x / WARP;
    const bool is_one = MASKED_STREAMS(N) == 1 || p.n_ranges != 0 ||
                        t.n_rows > MASKED_ROWS * MASKED_WARPS / 2;
    const uint32_t n_rows = is_one ? ATTENTION_TILE_ROWS : ATTENTION_TILE_ROWS / 2;
    t.n_streams = is_one ? 1 : 2;
    t.n_warps = MASKED_WARPS / t.n_streams;
    t.stream = warp / t.n_warps;
    t.warp = warp % t.n_warps;
    t.keys = memory + t.stream * ATTENTION_TILE_KEYS * MASKED_PITCH(N);
    t.queries = memory + t.n_streams * ATTENTION_TILE_KEYS * MASKED_PITCH(N);
    t.weights = t.queries + n_rows * MASKED_CHUNKS(N) * MASKED_PITCH(N);
    t.sums = t.weights + MASKED_WARPS * ATTENTION_TILE_KEYS * MASKED_ROWS;
    t.means = t.sums + n_rows * MASKED_WIDTH(N);
    t.farthest = t.means + p.head_dim;
    t.q_units = t.farthest + MASKED_WARPS;
    t.weights += warp * ATTENTION_TILE_KEYS * MASKED_ROWS;
}

/* Whether eight elements of any row may be loaded at once, and are multiplied as they are stored. */
DEVICE bool is_by_eight(const struct attention_parameters &p, uint32_t math)
{
    const uint64_t all = (uint64_t)(uintptr_t)p.kv_base | p.block_bytes | p.kv_bytes |
                         p.head_bytes | p.token_bytes;
    const bool is_rounded = math == MATH_IS_FP8 || math == MATH_IS_BF16 || math == MATH_IS_FP16;
    return all % (is_8bit(p.cache) ? 8 : 16) == 0 && p.sink_tokens == 0 && !is_rounded;
}

/* Tiles of these are seen by all rows, with nothing added to a score. A row's index is never below that of a row before it. */
DEVICE struct key_range plain_keys(const struct attention_parameters &p,
                                   const struct cuda_sequence &s, const struct row &first,
                                   const struct row &last)
{
    struct key_range plain = {0, s.kv_len};
    if (p.mask_input != INPUT_IS_NONE || p.slopes || p.table || p.buckets ||
        s.first_draft != ATTENTION_NONE)
        return {0, 0};
    if (p.mask_kind != MASK_IS_BIDIRECTIONAL) {
        const uint32_t seen = p.mask_kind == MASK_IS_CAUSAL ? first.index : first.query;
        const uint32_t n = seen < s.key_index ? 0 : seen - s.key_index + 1;
        plain.end = n < plain.end ? n : plain.end;
    }
    if (p.window != 0 && (p.sink_tokens == 0 || s.kind != SEQUENCE_IS_CONTEXT)) {
        const uint32_t n = p.window - p.sink_tokens;
        const uint32_t oldest = last.index < n ? 0 : last.index - n + 1;
        plain.begin = oldest < s.key_index ? 0 : oldest - s.key_index;
    }
    return plain;
}

/* They are looked at once a tile, and registers are few. */
template <uint32_t N>
DEVICE void share_plain_keys(const struct masked_tile &t, const struct key_range &plain)
{
    t.sums[N * WARP + 2] = bits_float(plain.begin);
    t.sums[N * WARP + 3] = bits_float(plain.end);
}

template <uint32_t N> DEVICE bool is_plain(const struct masked_tile &t, uint32_t first)
{
    const uint32_t address = shared_address(t.sums + N * WARP + 2);
    return first >= load_shared(address) && first + ATTENTION_TILE_KEYS <= load_shared(address + 4);
}

/* Of the stream's warps. */
DEVICE void stream_sync(const struct masked_tile &t)
{
    constexpr uint32_t ALL = MASKED_WARPS * WARP;
    if (t.n_streams == 1)
        barrier_sync<1, ALL>();
    else if (t.stream == 0)
        barrier_sync<1, ALL / 2>();
    else
        barrier_sync<2, ALL / 2>();
}

/* ---- queries ---- */

/* Where element i of a row of Q or K lies: by quarters. */
template <uint32_t N> DEVICE uint32_t place_of_k(uint32_t i)
{
    return i / MASKED_CHUNK(N) * MASKED_PITCH(N) + i % 4 * MASKED_QUARTER(N) +
           i % MASKED_CHUNK(N) / 4;
}

template <uint32_t N> DEVICE float *shared_query(const struct masked_tile &t, uint32_t r)
{
    return t.queries + r * MASKED_CHUNKS(N) * MASKED_PITCH(N);
}

/* Zeros behind the last element and the last row; IS_INT8: those, and the counts are count_queries'. */
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

/* IS_INT8: a warp a row. */
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

/* A chunk of K, or of V, of a tile of keys. */
struct masked_part {
    uint32_t first, from; /* key, element */
    bool is_v;
};

/* Where element i of a chunk of V lies: fours of eight elements in one half, the others in the other one. */
template <uint32_t N> DEVICE uint32_t place_of_v(uint32_t i)
{
    return i / 4 % 2 * (MASKED_CHUNK(N) / 2) + i / 8 * 4 + i % 4;
}

/* Where the lane's element c of a chunk of V lies: four side by side, or two a warp apart. */
template <uint32_t N> DEVICE uint32_t place_in_v(uint32_t c)
{
    const uint32_t lane = threadIdx.x % WARP;
    return MASKED_CHUNK(N) == 4 * WARP ? lane * 4 + c : c * WARP + lane;
}

/* place_of_v, the other way round. */
template <uint32_t N> DEVICE uint32_t element_at(uint32_t place)
{
    constexpr uint32_t HALF = MASKED_CHUNK(N) / 2;
    return place % HALF / 4 * 8 + place / HALF * 4 + place % 4;
}

/* A warp a key, an element a lane: everything. k_unit: IS_INT8. */
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

/* Of a key: how far its K is from the cache's first byte, and whether V is as far from K as in the cache. */
struct masked_place {
    uint64_t k;
    bool is_cached;
};

/* Of the lane's key of a tile; of the last key where there is none, for nothing that no row sees enters a sum. */
DEVICE struct masked_place place_of_lane(const struct attention_parameters &p,
                                         const struct masked_tile &t, uint32_t first)
{
    const uint32_t index = first + threadIdx.x % WARP, last = t.sequence->kv_len - 1;
    const struct key_place place = find_key(p, *t.sequence, t.tile.beam, t.kv_head,
                                            index < last ? index : last);
    return {(uint64_t)(uintptr_t)place.k - (uint64_t)(uintptr_t)p.kv_base,
            place.v_bytes == p.kv_bytes};
}

/* How far K, or V, is from the cache's first byte. */
DEVICE uint64_t distance_of(const struct attention_parameters &p, const struct masked_place &place,
                            bool is_v)
{
    const uint64_t of_new = (uint64_t)p.head_dim * element_bytes(p.cache);
    return place.k + (!is_v ? 0 : place.is_cached ? p.kv_bytes : of_new);
}

/* Eight elements a lane, as they are stored, of each load of the warp. */
template <uint32_t N> struct masked_words {
    uint32_t words[MASKED_LOADS(N)][4];
};

/* The key of the lane in a load of its warp, whose keys lie side by side. */
template <uint32_t N> DEVICE uint32_t key_of_load(const struct masked_tile &t, uint32_t load)
{
    return t.warp * (ATTENTION_TILE_KEYS / t.n_warps) + threadIdx.x % WARP / MASKED_LOAD_LANES(N) +
           load * MASKED_LOAD_KEYS(N);
}

/* Whether the warp has the second half of its loads, which four warps in the place of two have not. */
template <uint32_t N> DEVICE bool has_more_loads(const struct masked_tile &t)
{
    return MASKED_STREAMS(N) == 1 || t.n_warps < MASKED_WARPS;
}

/* BYTES: of an element; row: of the lane's key. Zeros behind the last element. */
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

/* Half of the warp's loads, of elements of K or of V from `from` on. F32, of twice the words, is not under way: load_floats. */
template <uint32_t N, uint32_t HALF>
DEVICE void fetch_words(const struct attention_parameters &p, const struct masked_tile &t,
                        const struct masked_place &place, uint32_t from, bool is_v,
                        struct masked_words<N> &fetched)
{
    constexpr uint32_t FIRST = HALF * MASKED_LOADS(N) / 2;
    const uint64_t row = distance_of(p, place, is_v);
    if (!t.is_by_eight || p.cache == DTYPE_F32 || (HALF == 1 && !has_more_loads<N>(t))) {
        UNROLL
        for (uint32_t load = FIRST; load < FIRST + MASKED_LOADS(N) / 2; load++) /* of no use */
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

/* Elements 8 i ... of a row of a chunk. */
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

/* What was fetched of a part, to shared memory. */
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

/* ---- scores ---- */

/* Of shared memory. */
DEVICE void load_four(float (&x)[4], uint32_t from)
{
    uint32_t words[4];
    load_shared16(words, from);
    UNROLL
    for (uint32_t i = 0; i < 4; i++)
        x[i] = bits_float(words[i]);
}

/* Quarter lane % 4 of q k, of the warp's rows and keys lane / 4 + 8 j, each in the order of attention_reference. Zeros behind
 * the last element add nothing. */
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

/* The lane's key of a tile, once quarters are summed. */
DEVICE uint32_t key_of_lane()
{
    return threadIdx.x % WARP / 4 + threadIdx.x % 4 * 8;
}

/* The other way round. */
DEVICE uint32_t lane_of_key(uint32_t j)
{
    return j % 8 * 4 + j / 8;
}

/* (first + second) + (third + fourth), of key_of_lane. */
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

/* What is added to the scores of the lane's key in the warp's rows; -inf: not seen, or no row. By way of the weights' place,
 * for what it takes is much for one row. */
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

/* Of the lane's key in the warp's rows. */
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

/* The scores become weights, in shared memory; the sums are weighed by the new m. */
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
        if (m != sums[i].m) /* else their factor is 1 */
            weigh_sums(t.math, m, sums[i]);
        const float weight = scores[i] == -INFINITY ? 0 : weight_of(t.math, scores[i], m);
        weights[i] = float_bits(weight);
    }
    store_vector16(t.weights + threadIdx.x % WARP * MASKED_ROWS, weights);
    warp_sync();
}

/* ---- sums ---- */

/* p V of the warp's rows and a chunk of elements; the first chunk adds up p, too. */
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
                if (weight == 0) /* V of a key that is not seen may be anything */
                    continue;
                UNROLL
                for (uint32_t c = 0; c < N; c++)
                    if (c / n == chunk)
                        sums[r].sums[c] = multiply_add(weight, x[c % n], sums[r].sums[c]);
            }
        }
    }
}

/* A tile's keys into the sums, and the first chunk of the next one under way, if there is one before `end`; place: of the
 * lane's key. */
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
    if (MASKED_CHUNKS(N) == 1) { /* now registers are free */
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

/* The keys of one range. */
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

/* ---- ranges of a CTA ---- */

/* Those of the stream's rows, in the place of its keys. */
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

/* The lanes meet before each reads what lane 0 has written. */
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

/* What the streams have shared, in their order, behind the ranges before; or, of a range by itself, to the partials. */
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

/* What a row has before its first range. */
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

/* The keys of a CTA: the streams' ranges by turns. */
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

/* N: elements of a lane, heads of up to 32 N. */
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
