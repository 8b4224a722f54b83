/*
 * attend - attention of up to ROWS_MAX query rows that share one kv head, over a range of keys.
 *
 * Keys are met in tiles of TILE_KEYS at absolute positions, and the running result is closed at
 * every multiple of RANGE_KEYS and merged in order. What happens to one row depends only on its
 * own position, so a row's bits are the same in a tile of one row or of ninety-six, in the context
 * or in the generation phase, with the ranges computed one after another or side by side.
 *
 *     source   where K and V of a tile lie
 *     tile     scores = Q K, one sum a score, dims in order; out += P V, keys in order
 *     score    what layers with caps, biases and masks do to the scores between
 *
 * Slots past the last key read are zeroed here: what the cache holds there reaches nothing.
 *
 * Thread: a scratch belongs to one running task.
 */
#pragma once

#include "kernels/cpu/attention/quantized.h"
#include "kernels/cpu/attention/query.h"
#include "kernels/cpu/attention/source.h"

enum { RANGE_KEYS = 256 }; /* a multiple of TILE_KEYS: what one thread takes of a long sequence */

/* Running softmax of rows: out is not yet divided by the sum. */
struct partial {
    float *largest; /* [rows] -inf: no key yet */
    float *sums;    /* [rows][LANES] lane sums of the weights */
    float *out;     /* [rows][dim_padded] */
};

/* Of a block and a tile in BF16 or FP16, where the set multiplies it: attend_half_packed.c. */
struct half_scratch {
    uint16_t *q; /* [ROWS_MAX][half_dim] */
    uint16_t *k; /* [half_dim / 2][TILE_KEYS][2] */
    uint16_t *v; /* [TILE_KEYS / 2][dim_padded][2] */
    uint16_t *p; /* [ROWS_MAX][TILE_KEYS] */
};

/* Dims of Q and K there: zeros behind head_dim. */
static inline uint32_t half_dim(uint32_t head_dim)
{
    return (head_dim + 31) / 32 * 32;
}

struct attend_scratch {
    float *k_t;    /* [head_dim][TILE_KEYS] */
    float *v;      /* [TILE_KEYS][dim_padded] */
    float *q;      /* [ROWS_MAX][head_dim] scaled */
    float *scores; /* [ROWS_MAX][TILE_KEYS], then the weights */
    float *stored; /* [stored rows][keys of a sequence, whole tiles]: see attend_whole.h */
    char *gathered;
    struct quantized_q quantized;
    struct half_scratch half;
    struct partial range, total;
};

struct half_math; /* attend_half.h */

/* A block of rows at work. */
struct attend {
    const struct attention_call *call;
    const struct row_block *block;
    const struct attend_scratch *scratch;
    struct source source;
    enum attention_math math;
    const struct half_math *half; /* NULL: another math */
    bool is_int8;
    uint32_t oldest; /* is_int8: no query of the step sees keys before */
    bool changes_scores;
    struct query_row rows[ROWS_MAX];
};

/* Keys first .. end - 1 of a tile that a row sees, counted from the tile's start. */
struct seen {
    uint32_t first, end; /* equal: none */
};

/* What some rows see together. */
static inline struct seen seen_together(const struct seen *seen, uint32_t n_rows)
{
    struct seen group = {TILE_KEYS, 0};
    for (uint32_t i = 0; i < n_rows; i++) {
        if (seen[i].first == seen[i].end)
            continue;
        group.first = seen[i].first < group.first ? seen[i].first : group.first;
        group.end = seen[i].end > group.end ? seen[i].end : group.end;
    }
    return group;
}

/* One copy an instruction set. */
#define attend_partial_floats  ISA(attend_partial_floats)
#define attend_partial_at      ISA(attend_partial_at)
#define attend_init            ISA(attend_init)
#define attend_seen            ISA(attend_seen)
#define attend_scores          ISA(attend_scores)
#define attend_outputs         ISA(attend_outputs)
#define attend_range           ISA(attend_range)
#define attend_clear           ISA(attend_clear)
#define attend_multiply_keys   ISA(attend_multiply_keys)
#define attend_multiply_values ISA(attend_multiply_values)
#define attend_merge           ISA(attend_merge)

size_t attend_partial_floats(uint32_t head_dim, size_t n_rows);
/* Lays a partial of n_rows into memory of that many floats. */
struct partial attend_partial_at(float *memory, uint32_t head_dim, size_t n_rows);

/* Finds the block's rows and keys, and loads Q. staged: see kv_update_step.h. */
void attend_init(const struct attention_call *call, const struct row_block *block,
                 const char *staged, const struct attend_scratch *scratch,
                 struct attend *attend_out);

/* Keys of range index (RANGE_KEYS each) into partial; rows without a key there stay empty. */
void attend_range(const struct attend *attend, uint32_t range, struct partial *partial);

/* What row r sees of the tile at start. */
struct seen attend_seen(const struct attend *attend, uint32_t r, uint32_t start);
/* The scores of the tile at start into scratch->scores, and what rows see of it into seen_out; what a
 * row does not see is undefined. False: no row sees any of it, and nothing was read. */
bool attend_scores(const struct attend *attend, uint32_t start, struct seen *seen_out,
                   struct tile *tile_out);
/* partial->out = partial->out * keep + P V of the tile at start, whose weights are in
 * scratch->scores. */
void attend_outputs(const struct attend *attend, uint32_t start, const struct seen *seen,
                    const float *keep, struct tile *tile, struct partial *partial);

/* The two products, by groups of rows: the columns of scratch->k_t that rows see; the weights and v. */
void attend_multiply_keys(const struct attend *attend, const struct seen *seen,
                          struct tile_ahead *ahead);
void attend_multiply_values(const struct attend *attend, const struct seen *seen, const float *keep,
                            const struct tile_rows *v, struct tile_ahead *ahead,
                            struct partial *partial);

void attend_clear(uint32_t n_rows, uint32_t head_dim, struct partial *partial);
/* total and then next, keys in order. */
void attend_merge(uint32_t n_rows, uint32_t head_dim, const struct partial *next,
                  struct partial *total);
