/*
 * each_row - runs an operator with independent rows on the pool, several rows a task.
 */
#pragma once

#include "kernels/cpu/parallel.h"

enum { ROWS_PER_TASK = 16, WORK_PER_ELEMENT = 4 };

struct rows_task {
    const void *op;
    uint32_t n_rows;
    void (*row)(const void *op, uint32_t row);
};

static inline void run_rows(void *arg, uint32_t index)
{
    const struct rows_task *task = arg;
    uint32_t end = (index + 1) * ROWS_PER_TASK;
    for (uint32_t row = index * ROWS_PER_TASK; row < end && row < task->n_rows; row++)
        task->row(task->op, row);
}

/* n: the elements of a row, or their cost in elements. */
static inline void each_row(struct thread_pool *pool, struct rows_task *task, uint64_t n)
{
    parallel_run(pool, task->n_rows * n * WORK_PER_ELEMENT,
                 (task->n_rows + ROWS_PER_TASK - 1) / ROWS_PER_TASK, run_rows, task);
}
