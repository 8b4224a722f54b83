/*
 * attention_call - the data of a layer and of a call of forward, for all files of this back end.
 */
#pragma once

#include "kernels/backend/attention_layer.h"
#include "kernels/cpu/cpu.h"

struct thread_pool;

struct attention {
    struct attention_layer host;
    struct thread_pool *pool;
    /* T5: the bias of each head by distance, from -bias.distance_max to it. NULL: none. */
    float *distance_biases; /* [n_heads][2 distance_max + 1] */
};

/* One call of forward. */
struct attention_call {
    const struct attention *attention;
    const struct attention_metadata *metadata;
    const struct attention_io *io;
};

/* The query rows of one task: consecutive (query, head) pairs of a beam. All rows of a block use the same
 * kv head. */
struct row_block {
    uint32_t sequence, beam, kv_head;
    uint32_t first_head, n_heads; /* query heads of the block */
    uint32_t row, n_rows;         /* row = query of the beam x n_heads + head */
    uint32_t first_key, end_key;  /* in the cache: no row sees a key outside */
    uint32_t first_task;          /* of the call */
    uint32_t first_partial;       /* is_split: row in the partials of the workspace */
    bool is_split;                /* a task has task_ranges ranges, else all */
    uint32_t task_ranges;
};

/* The math of the block's phase. */
static inline enum attention_math block_math(const struct attention_call *call,
                                             const struct row_block *block)
{
    return call->metadata->sequences[block->sequence].phase == PHASE_CONTEXT
               ? call->attention->host.config.math
               : MATH_COMPUTE;
}

static inline bool is_staged(const struct attention_call *call, uint32_t sequence)
{
    return call->attention->host.config.is_cyclic &&
           call->metadata->sequences[sequence].query_len > 1;
}
