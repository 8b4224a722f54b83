/*
 * attend_state - the state of a block of rows that is being computed. The attend*.c files share it.
 *
 * Thread: a scratch belongs to one running task.
 */
#pragma once

#include "kernels/cpu/attention/quantized.h"
#include "kernels/cpu/attention/query.h"
#include "kernels/cpu/attention/source.h"

enum { RANGE_KEYS = 256 }; /* a long sequence is split into ranges; a multiple of TILE_KEYS */

/* Running softmax of rows: out is not yet divided by the sum. */
struct partial {
    float *largest; /* [rows] -inf: no key yet */
    float *sums;    /* [rows][LANES] lane sums of the weights */
    float *out;     /* [rows][dim_padded] */
};

/* A block and a tile in BF16 or FP16, for sets with products of this type: attend_half_packed.c. */
struct half_scratch {
    uint16_t *q; /* [ROWS_MAX][half_dim] */
    uint16_t *k; /* [half_dim / 2][TILE_KEYS][2] */
    uint16_t *v; /* [TILE_KEYS / 2][dim_padded][2] */
    uint16_t *p; /* [ROWS_MAX][TILE_KEYS] */
};

/* The dims of Q and K in half_scratch; they are zero after head_dim. */
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

/* A block of rows that is being computed. */
struct attend {
    const struct attention_call *call;
    const struct row_block *block;
    const struct attend_scratch *scratch;
    struct source source;
    enum attention_math math;
    const struct half_math *half; /* NULL: another math */
    bool is_int8;
    uint32_t oldest; /* is_int8: no query of the step sees a key before this one */
    bool changes_scores;
    struct query_row rows[ROWS_MAX];
};

/* Keys first .. end - 1 of a tile that a row sees, counted from the tile's start. */
struct seen {
    uint32_t first, end; /* equal: none */
};

/* The smallest interval with all keys that at least one row sees. */
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
