/*
 * query - finds Q of the rows of a block, and the keys that they see.
 *
 * Keys are numbered as in the cache: 0 is the first that it holds.
 */
#pragma once

#include "kernels/cpu/attention/attention_call.h"
#include "kernels/cpu/attention/tile.h"

#define query_row_at REST(query_row_at)
#define query_load   REST(query_load)

enum { ROWS_MAX = 96 };

struct query_row {
    uint32_t token; /* of the metadata */
    uint32_t head;
    uint32_t query;           /* of the beam */
    uint32_t index;           /* in the sequence */
    uint32_t first, end;      /* visible keys, without absent .. present - 1 */
    uint32_t absent, present; /* StreamingLLM: equal if nothing is absent */
    int64_t draft;            /* the key for bit 0 of draft_mask; end if there is no mask */
    uint64_t draft_mask;
};

/* Row r of the block. */
struct query_row query_row_at(const struct attention_call *call, const struct row_block *block,
                              uint32_t r);

/* Loads Q of a row, with bias, norm, RoPE and the factor of the scores: [head_dim]. */
void query_load(const struct attention_call *call, const struct row_block *block,
                const struct query_row *row, float *q_out);
