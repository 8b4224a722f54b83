/*
 * attention_masked_tile - the state of a CTA of attention_masked: its rows, its streams of warps, its parts of shared memory,
 * and the keys that it sees.
 */
#pragma once

#include "kernels/cuda/attention_int8.cuh"

#define MASKED_WARPS 4u
#define MASKED_ROWS  4u /* rows of a warp */

/* The elements of a head in shared memory at a time (a chunk), the chunks of a head, and the pitches of a quarter and of a row.
 * N: elements of a lane in all. Lanes that read quarters of two keys, or write eight elements each, have no bank conflicts. */
#define MASKED_CHUNK(N)   ((N)*WARP < 128u ? (N)*WARP : 128u)
#define MASKED_CHUNKS(N)  ((N)*WARP / MASKED_CHUNK(N))
#define MASKED_QUARTER(N) (MASKED_CHUNK(N) / 4 + 4)
#define MASKED_PITCH(N)   (4 * MASKED_QUARTER(N))
/* The width of a row of sums: elements, m, total; the first row also has the begin and end of the plain keys. */
#define MASKED_WIDTH(N) ((N)*WARP + 4)

/* The most streams of a CTA. With more elements there are not enough registers for the loads of two streams. */
#define MASKED_STREAMS(N) ((N)*WARP <= 128u ? 2u : 1u)
/* Loads of a warp: lanes for a key (eight elements a lane), keys of a load, and the most loads of a tile. */
#define MASKED_LOAD_LANES(N) (MASKED_CHUNK(N) / 8)
#define MASKED_LOAD_KEYS(N)  (WARP / MASKED_LOAD_LANES(N))
#define MASKED_LOADS(N)                                                                            \
    (ATTENTION_TILE_KEYS / MASKED_LOAD_KEYS(N) * MASKED_STREAMS(N) / MASKED_WARPS)

struct masked_tile {
    struct cuda_tile tile;
    const struct cuda_sequence *sequence;
    uint32_t kv_head, first_head, n_heads;
    uint32_t first_row, n_rows; /* the CTA's rows of the tile */
    uint32_t math;
    uint32_t n_streams, stream, n_warps; /* n_warps: those of the stream */
    uint32_t warp;                       /* in the stream: it has rows from MASKED_ROWS warp on */
    bool is_by_eight;                    /* rows of the cache are read eight elements at a time */
    float *queries, *keys, *weights, *sums; /* shared; keys: of the stream, weights: of the warp */
    float *means, *farthest, *q_units; /* shared, IS_INT8: of the tile of K, and of the queries */
};

DEVICE struct row masked_row(const struct attention_parameters &p, const struct masked_tile &t,
                             uint32_t r)
{
    const uint32_t of_tile = t.first_row + r;
    return row_of(p, *t.sequence, t.tile.first_token + of_tile / t.n_heads,
                  t.first_head + of_tile % t.n_heads);
}

/* The rows of a tile of the step, for one part of the heads: the heads of a kv head are in p.n_parts parts. */
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

/* The score of the key with this index in the cache. -inf: the row does not see it. */
DEVICE float score_of(const struct attention_parameters &p, const struct masked_tile &t, uint32_t r,
                      uint32_t index, float dot)
{
    const float added = added_to_score(p, *t.sequence, masked_row(p, t, r), index);
    return added == -INFINITY ? added : capped(p, dot) + added;
}

/* ---- the state of a CTA ---- */

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

/* Whether eight elements of any row can be loaded at once and are multiplied without a change. */
DEVICE bool is_by_eight(const struct attention_parameters &p, uint32_t math)
{
    const uint64_t all = (uint64_t)(uintptr_t)p.kv_base | p.block_bytes | p.kv_bytes |
                         p.head_bytes | p.token_bytes;
    const bool is_rounded = math == MATH_IS_FP8 || math == MATH_IS_BF16 || math == MATH_IS_FP16;
    return all % (is_8bit(p.cache) ? 8 : 16) == 0 && p.sink_tokens == 0 && !is_rounded;
}

/* The keys that all rows see, with nothing added to their scores. The index of a row is never below that of a row before it. */
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

/* Plain keys are kept in shared memory: they are read once a tile, and registers are few. */
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

/* A barrier for the warps of the stream. */
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
