/*
 * workspace - the memory of a step, allocated with its metadata. Nothing is allocated afterwards. Parts that a layer
 * does not use are never touched, and cost no memory.
 */
#pragma once

#include "kernels/cpu/attention/attend_state.h"

#include <stdatomic.h>

#define workspace_create  REST(workspace_create)
#define workspace_destroy REST(workspace_destroy)
#define workspace_scratch REST(workspace_scratch)

enum { SPLIT_ROWS_MAX = 256 }; /* about the number of rows of a step that AUTO may split */

struct attention_workspace {
    char *memory;
    size_t scratch_bytes; /* of one thread */
    char *scratches;      /* [n_threads] */
    float *partials;      /* ranges side by side: [n_partials] rows, the last for multi_block ON */
    char *staged;         /* see kv_update_step.h; NULL: nothing is ever staged */
    uint32_t n_threads;
    uint32_t n_partials, n_shared_partials; /* blocks that AUTO splits use only the first ones */
    struct row_block *blocks;               /* [n_blocks_max] of the running call */
    atomic_uint *tasks_left;                /* [n_blocks_max] */
    uint32_t n_blocks_max;
};

/* INVALID_ARGUMENT: has_multi_block needs more partials than can be counted. NO_MEMORY. */
MUST_CHECK enum status workspace_create(const struct attention_limits *limits, uint32_t n_threads,
                                        struct attention_workspace **workspace_out,
                                        struct error *error);
void workspace_destroy(struct attention_workspace *workspace); /* NULL is fine */

/* index: the number of the thread, below n_threads. */
struct attend_scratch workspace_scratch(const struct attention_metadata *metadata, uint32_t index);
