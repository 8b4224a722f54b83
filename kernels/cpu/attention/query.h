/*
 * query - the rows of a block: their Q, and which keys they see.
 *
 * Keys are counted as in the cache: 0 is the first that it holds.
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
    uint32_t first, end;      /* keys seen, without those between absent and present */
    uint32_t absent, present; /* StreamingLLM: equal if nothing is absent */
    int64_t draft;            /* key that bit 0 of draft_mask decides; end if there is no mask */
    uint64_t draft_mask;
};

/* Row r of the block. */
struct query_row query_row_at(const struct attention_call *call, const struct row_block *block,
                              uint32_t r);

/* Bias, norm and RoPE of a row's Q, times the factor of the scores: [head_dim]. */
void query_load(const struct attention_call *call, const struct row_block *block,
                const struct query_row *row, float *q_out);
