/*
 * gemm - divides a list of products into tasks: rectangles of weight rows and token blocks.
 *
 * The division decides which thread computes a task, and changes no bit.
 */
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/products/gemm_path.h"

#include <assert.h>

enum { TASKS_PER_THREAD = 6 };

struct plan {
    const struct gemm *gemms;
    struct gemm_path paths[GEMMS_MAX];
    uint32_t rows[GEMMS_MAX];      /* weight rows of a task */
    uint32_t first[GEMMS_MAX + 1]; /* first task of each product */
};

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t divide_up(uint64_t n, uint64_t by)
{
    return (uint32_t)((n + by - 1) / by);
}

static struct gemm_path path_of(const struct gemm *gemm)
{
#ifdef HAS_AMX_BF16
    if (gemm->w_dtype == DTYPE_BF16)
        return gemm_amx_bf16_path();
#endif
    return gemm->w_is_packed ? gemm_int8_path(gemm) : gemm_f32_path(gemm);
}

static void run_task(void *arg, uint32_t index)
{
    const struct plan *plan = arg;
    uint32_t g = 0;
    while (index >= plan->first[g + 1])
        g++;
    const struct gemm *gemm = &plan->gemms[g];
    const struct gemm_path *path = &plan->paths[g];
    uint32_t n_blocks = divide_up(gemm->n_tokens, path->token_block);
    uint32_t task = index - plan->first[g];
    struct gemm_part part = {.gemm = gemm};
    part.row = task / n_blocks * plan->rows[g];
    part.row_end = least(part.row + plan->rows[g], gemm->n_out);
    part.token = task % n_blocks * path->token_block;
    part.token_end = least(part.token + path->token_block, gemm->n_tokens);
    assert(part.row < part.row_end && part.token < part.token_end);
    path->run(&part);
}

static uint64_t gemm_work(const struct gemm *gemm)
{
    return (uint64_t)gemm->n_tokens * gemm->n_in * gemm->n_out;
}

/* The rows of a task, so that product g has about n_tasks tasks. */
static uint32_t task_rows(const struct plan *plan, uint32_t g, uint64_t n_tasks)
{
    const struct gemm_path *path = &plan->paths[g];
    assert(path->run && path->token_block > 0 && path->row_step > 0);
    uint32_t n_row_tasks = divide_up(n_tasks,
                                     divide_up(plan->gemms[g].n_tokens, path->token_block));
    uint32_t rows = divide_up(plan->gemms[g].n_out, n_row_tasks);
    rows = rows > path->rows_min ? rows : path->rows_min;
    return divide_up(rows, path->row_step) * path->row_step;
}

void cpu_gemm(struct thread_pool *pool, const struct gemm *gemms, uint32_t n_gemms)
{
    struct plan plan = {.gemms = gemms};
    uint64_t work = 0;
    assert(n_gemms <= GEMMS_MAX);
    for (uint32_t g = 0; g < n_gemms; g++) {
        assert(gemms[g].n_in > 0 && gemms[g].x_dtype == DTYPE_F32);
        assert(gemms[g].y_dtype == DTYPE_F32);
        work += gemm_work(&gemms[g]);
    }
    uint32_t n_threads = parallel_threads(pool, work);
    uint64_t task_work = 1 + (n_threads == 1 ? work : work / (n_threads * TASKS_PER_THREAD));
    for (uint32_t g = 0; g < n_gemms; g++) {
        const struct gemm *gemm = &gemms[g];
        plan.first[g + 1] = plan.first[g];
        if (gemm->n_tokens == 0 || gemm->n_out == 0)
            continue;
        plan.paths[g] = path_of(gemm);
        plan.rows[g] = task_rows(&plan, g, gemm_work(gemm) / task_work + 1);
        plan.first[g + 1] += divide_up(gemm->n_tokens, plan.paths[g].token_block) *
                             divide_up(gemm->n_out, plan.rows[g]);
    }
    parallel_run(pool, work, plan.first[n_gemms], run_task, &plan);
}
