/*
 * gemm - divides a list of products into tasks: rectangles of weight rows and token blocks. Before them, a path that wants it
 * prepares its tokens in the workspace, once for all products of the same x.
 *
 * The division decides which thread computes a task, and changes no bit.
 */
#include "kernels/blocks.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/products/gemm_batch.h"
#include "kernels/cpu/products/gemm_blocks.h"
#include "kernels/cpu/products/gemm_lanes.h"
#include "kernels/cpu/products/gemm_path.h"
#include "kernels/cpu/walk.h"
#include "kernels/quantize.h"

#include <assert.h>

/* Each thread walks its tasks, so that small ones cost little and make threads end together. */
enum { TASKS_PER_THREAD = 16 };

struct plan {
    const struct gemm *gemms;
    struct gemm_path paths[GEMMS_MAX];
    uint32_t rows[GEMMS_MAX];      /* weight rows of a task, or of each of its strips */
    uint32_t strip[GEMMS_MAX];     /* weight rows of a strip; without strips, all rows */
    uint32_t first[GEMMS_MAX + 1]; /* first task of each product */
    void *tokens[GEMMS_MAX];       /* prepared; NULL: the path reads x */
    uint32_t pieces[GEMMS_MAX];    /* of them, which are prepared for this product */
};

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t divide_up(uint64_t n, uint64_t by)
{
    return (uint32_t)((n + by - 1) / by);
}

/* Whether a path prepares the same of both. */
static bool has_x_of(const struct gemm *a, const struct gemm *b)
{
    return a->x == b->x && a->x_stride == b->x_stride && a->n_tokens == b->n_tokens &&
           a->n_in == b->n_in && a->w_is_packed == b->w_is_packed && a->x_is_int8 == b->x_is_int8 &&
           (!a->w_is_packed || a->w_scale_columns == b->w_scale_columns);
}

/* Prepared tokens for product g, or NULL: those of a product before it, or room behind the used bytes of the workspace. */
static void *tokens_of(struct plan *plan, uint32_t g, const struct gemm_path *path, size_t *used)
{
    const struct gemm *gemm = &plan->gemms[g];
    for (uint32_t same = 0; same < g; same++)
        if (plan->tokens[same] && plan->paths[same].prepare == path->prepare &&
            has_x_of(&plan->gemms[same], gemm))
            return plan->tokens[same];
    if (!gemm->workspace || path->tokens_bytes > gemm->workspace_bytes - *used)
        return NULL;
    void *tokens = (char *)gemm->workspace + *used;
    *used += path->tokens_bytes;
    plan->pieces[g] = path->n_pieces;
    return tokens;
}

size_t cpu_gemm_workspace_bytes(uint32_t n_tokens, uint32_t n_in)
{
    const size_t bytes[] = {gemm_lanes_bytes(n_tokens, n_in), gemm_batch_bytes(n_tokens, n_in),
                            gemm_int8_bytes(n_tokens, n_in), gemm_blocks_bytes(n_tokens, n_in)};
    size_t most = 0;
    for (uint32_t i = 0; i < sizeof bytes / sizeof bytes[0]; i++)
        most = bytes[i] > most ? bytes[i] : most;
    return most;
}

static void choose_path(struct plan *plan, uint32_t g, size_t *used)
{
    const struct gemm *gemm = &plan->gemms[g];
    const bool is_scaled = gemm->w_dtype > DTYPE_F16 && !gemm->w_is_packed &&
                           !dtype_is_blocks(gemm->w_dtype);
    assert(!dtype_is_blocks(gemm->w_dtype) ||
           gemm->n_in % dtype_block_shape(gemm->w_dtype).elements == 0);
    assert(!is_scaled || (gemm->w_scales && gemm->w_scale_rows > 0 && gemm->w_scale_columns > 0));
    assert(gemm->w_dtype != DTYPE_E2M1 || gemm->n_in % QUANTIZE_GROUP == 0);
#ifdef HAS_AMX_BF16
    if (gemm->w_dtype == DTYPE_BF16) {
        plan->paths[g] = gemm_amx_bf16_path();
        return;
    }
#endif
    if (gemm->w_is_packed)
        plan->paths[g] = gemm_int8_path(gemm);
    else if (dtype_is_blocks(gemm->w_dtype))
        plan->paths[g] = gemm_blocks_path(gemm);
    else if (gemm_batch_suit(gemm))
        plan->paths[g] = gemm_batch_path(gemm);
    else if (gemm_lanes_suit(gemm))
        plan->paths[g] = gemm_lanes_path(gemm);
    else
        plan->paths[g] = gemm_f32_path(gemm);
    if (!plan->paths[g].prepare)
        return;
    plan->tokens[g] = tokens_of(plan, g, &plan->paths[g], used);
    if (plan->tokens[g])
        return;
    plan->paths[g] = gemm->w_is_packed                ? gemm_int8_path_alone(gemm)
                     : dtype_is_blocks(gemm->w_dtype) ? gemm_blocks_path_alone(gemm)
                                                      : gemm_f32_path(gemm);
}

static void run_piece(void *arg, uint32_t index)
{
    const struct plan *plan = arg;
    uint32_t g = 0;
    for (; index >= plan->pieces[g]; g++)
        index -= plan->pieces[g];
    plan->paths[g].prepare(&plan->gemms[g], index, plan->tokens[g]);
}

static void prepare(struct thread_pool *pool, struct plan *plan, uint32_t n_gemms)
{
    uint64_t work = 0;
    uint32_t n_pieces = 0;
    for (uint32_t g = 0; g < n_gemms; g++) {
        n_pieces += plan->pieces[g];
        work += plan->pieces[g] ? (uint64_t)plan->gemms[g].n_tokens * plan->gemms[g].n_in : 0;
    }
    parallel_run(pool, work, n_pieces, run_piece, plan);
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
    struct gemm_part part = {.gemm = gemm, .tokens = plan->tokens[g]};
    part.row = task / n_blocks * plan->rows[g];
    part.row_end = least(part.row + plan->rows[g], plan->strip[g]);
    part.strip = path->n_strips ? plan->strip[g] : 0;
    part.token = task % n_blocks * path->token_block;
    part.token_end = least(part.token + path->token_block, gemm->n_tokens);
    assert(part.row < part.row_end && part.token < part.token_end);
    path->run(&part);
}

static uint64_t gemm_work(const struct gemm *gemm)
{
    return (uint64_t)gemm->n_tokens * gemm->n_in * gemm->n_out;
}

static uint32_t strip_rows(const struct plan *plan, uint32_t g)
{
    const struct gemm_path *path = &plan->paths[g];
    if (!path->n_strips)
        return plan->gemms[g].n_out;
    return divide_up(plan->gemms[g].n_out, (uint64_t)path->n_strips * path->row_step) *
           path->row_step;
}

/* The rows of a task, so that product g has about n_tasks tasks. */
static uint32_t task_rows(const struct plan *plan, uint32_t g, uint64_t n_tasks)
{
    const struct gemm_path *path = &plan->paths[g];
    assert(path->run && path->token_block > 0 && path->row_step > 0);
    uint32_t n_row_tasks = divide_up(n_tasks,
                                     divide_up(plan->gemms[g].n_tokens, path->token_block));
    uint32_t rows = divide_up(plan->strip[g], n_row_tasks);
    rows = rows > path->rows_min ? rows : path->rows_min;
    return divide_up(rows, path->row_step) * path->row_step;
}

void cpu_gemm(struct thread_pool *pool, const struct gemm *gemms, uint32_t n_gemms)
{
    struct plan plan = {.gemms = gemms};
    uint64_t work = 0;
    size_t used = 0;
    assert(n_gemms <= GEMMS_MAX);
    for (uint32_t g = 0; g < n_gemms; g++) {
        assert(gemms[g].n_in > 0 && gemms[g].x_dtype == DTYPE_F32);
        assert(gemms[g].y_dtype == DTYPE_F32);
        assert(gemms[g].workspace == gemms[0].workspace &&
               gemms[g].workspace_bytes == gemms[0].workspace_bytes);
        work += gemm_work(&gemms[g]);
    }
    uint32_t n_threads = parallel_threads(pool, work);
    uint64_t task_work = 1 + (n_threads == 1 ? work : work / (n_threads * TASKS_PER_THREAD));
    for (uint32_t g = 0; g < n_gemms; g++) {
        const struct gemm *gemm = &gemms[g];
        plan.first[g + 1] = plan.first[g];
        if (gemm->n_tokens == 0 || gemm->n_out == 0)
            continue;
        choose_path(&plan, g, &used);
        plan.strip[g] = strip_rows(&plan, g);
        plan.rows[g] = task_rows(&plan, g, gemm_work(gemm) / task_work + 1);
        plan.first[g + 1] += divide_up(gemm->n_tokens, plan.paths[g].token_block) *
                             divide_up(plan.strip[g], plan.rows[g]);
    }
    prepare(pool, &plan, n_gemms);
    walk_all(pool, work, plan.first[n_gemms], run_task, &plan);
}
