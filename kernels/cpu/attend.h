/*
 * attend - attention of up to ROWS_MAX query rows that share one kv head, over a range of keys.
 *
 * Keys are met in tiles of TILE_KEYS at absolute positions, and the running result is closed at
 * every multiple of RANGE_KEYS and merged in order. What happens to one row depends only on its
 * own position, so a row's bits are the same in a tile of one row or of ninety-six, in the context
 * or in the generation phase, with the ranges computed one after another or side by side.
 *
 *     K tile -> k_t [dim][TILE_KEYS]   widened and transposed     scores = Q k_t, one sum a score
 *     V tile -> v   [TILE_KEYS][dim]   widened                    out   += P v, keys in order
 *
 * Slots past the last key read are zeroed here: what the cache holds there reaches nothing.
 *
 * Thread: a scratch belongs to one running task.
 */
#pragma once

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vec.h"
#include "kernels/host_attention.h"

enum {
    ROWS_MAX = 96,
    TILE_KEYS = 64,
    RANGE_KEYS = 256, /* a multiple of TILE_KEYS: what one thread takes of a long sequence */
};

/* Running softmax of rows: out is not yet divided by the sum. */
struct partial {
    float *largest; /* [rows] -inf: no key yet */
    float *sums;    /* [rows][LANES] lane sums of the weights */
    float *out;     /* [rows][dim_padded] */
};

struct attend_scratch {
    float *k_t;    /* [head_dim][TILE_KEYS] */
    float *v;      /* [TILE_KEYS][dim_padded] */
    float *q;      /* [ROWS_MAX][head_dim] scaled */
    float *scores; /* [ROWS_MAX][TILE_KEYS], then the weights */
    struct partial range, total;
};

/* The query rows of one task: consecutive (token, head of the group) pairs of a sequence. */
struct row_block {
    uint32_t sequence;
    uint32_t kv_head;
    uint32_t row, n_rows; /* row = token of the sequence x group + head of the group */
};

static inline uint32_t dim_padded(uint32_t head_dim)
{
    return (head_dim + LANES - 1) / LANES * LANES;
}

/* One copy an instruction set. */
#define attend_partial_floats ISA(attend_partial_floats)
#define attend_partial_at     ISA(attend_partial_at)
#define attend_scratch_floats ISA(attend_scratch_floats)
#define attend_scratch_at     ISA(attend_scratch_at)
#define attend_keys           ISA(attend_keys)
#define attend_load_q         ISA(attend_load_q)
#define attend_range          ISA(attend_range)
#define attend_clear          ISA(attend_clear)
#define attend_merge          ISA(attend_merge)
#define attend_store          ISA(attend_store)

size_t attend_partial_floats(uint32_t head_dim, size_t n_rows);
/* Lays a partial of n_rows into memory of that many floats. */
struct partial attend_partial_at(float *memory, uint32_t head_dim, size_t n_rows);

size_t attend_scratch_floats(uint32_t head_dim);
struct attend_scratch attend_scratch_at(float *memory, uint32_t head_dim);

/* First and one past the last key any row of the block sees. */
void attend_keys(const struct host_layer *layer, const struct attention_metadata *metadata,
                 const struct row_block *block, uint32_t *first_out, uint32_t *end_out);

/* Gathers and scales the block's Q rows into scratch->q. */
void attend_load_q(const struct host_layer *layer, const struct attention_metadata *metadata,
                   const struct attention_io *io, const struct row_block *block,
                   struct attend_scratch *scratch);
/* Keys of range index (RANGE_KEYS each) into partial; rows without a key there stay empty. */
void attend_range(const struct host_layer *layer, const struct attention_metadata *metadata,
                  const struct row_block *block, uint32_t range, struct attend_scratch *scratch,
                  struct partial *partial);
void attend_clear(uint32_t n_rows, uint32_t head_dim, struct partial *partial);
/* total and then next, keys in order. */
void attend_merge(uint32_t n_rows, uint32_t head_dim, const struct partial *next,
                  struct partial *total);
/* Divides and writes the block's output rows; rows without a key are zero. */
void attend_store(const struct host_layer *layer, const struct attention_metadata *metadata,
                  const struct attention_io *io, const struct row_block *block,
                  const struct partial *total);
