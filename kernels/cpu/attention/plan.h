/*
 * plan - divides a step's rows into blocks, and the blocks into tasks.
 *
 * With enough row blocks for all threads, a task is a block, and computes its ranges one after another. With fewer
 * blocks, as in a small batch over long sequences, a task is some neighbouring ranges of a block, an equal share of
 * the step. The thread that finishes the last task of a block merges its ranges, in order. The bits are the same.
 */
#pragma once

#include "kernels/cpu/attention/workspace.h"

#define plan_make REST(plan_make)

struct plan {
    uint32_t n_blocks, n_tasks;
    uint32_t n_partials; /* the partials of the workspace that split blocks use */
    uint64_t work;       /* multiply-adds */
};

/* Ranges first .. end - 1 hold the keys of a block. */
static inline uint32_t block_first_range(const struct row_block *block)
{
    return block->first_key / RANGE_KEYS;
}
static inline uint32_t block_n_ranges(const struct row_block *block)
{
    if (block->first_key >= block->end_key)
        return 0;
    return (block->end_key + RANGE_KEYS - 1) / RANGE_KEYS - block_first_range(block);
}

/* Fills the workspace's blocks and tasks_left. */
struct plan plan_make(const struct attention_call *call);
