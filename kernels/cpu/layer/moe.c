/*
 * moe - sorts the choices of all tokens by expert, so that each expert's weights are read once.
 *
 *     route    logits of all tokens, then each token chooses
 *     sort     choices by expert, then token: first[e] is the first row of expert e
 *     gather   rows[row] = x of the row's token
 *     experts  some at a time: gate and up in one parallel region, activation, down; the result of a row
 *              overwrites its x
 *     shared   the shared expert, for all tokens
 *     combine  y of a token from its rows, rank after rank
 *
 * Bound: the chosen experts' weights for few tokens, multiply-adds for many.
 */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/parallel.h"
#include "kernels/moe_parts.h"

#include <assert.h>
#include <string.h>

enum {
    EXPERTS_AT_ONCE = GEMMS_MAX / 2, /* gate and up of each in one region */
    TOKENS_PER_TASK = 8,
    COMBINE_FLOATS = 64,
};

struct scratch {
    float *logits;      /* [n_tokens][n_experts] */
    uint32_t *ids;      /* [n_tokens][top_k] */
    float *weights;     /* [n_tokens][top_k] */
    uint32_t *slots;    /* [n_tokens][top_k]: the row of a choice */
    uint32_t *first;    /* [n_experts + 1] */
    float *rows;        /* [rows][n_in] */
    float *gate_up;     /* [inner_rows][2 n_inner], interleaved only */
    float *gate, *up;   /* [inner_rows][n_inner or n_shared_inner] */
    float *shared;      /* [n_tokens][n_in], with a shared expert only */
    float *shared_gate; /* [n_tokens] */
    void *products;     /* workspace of a call of products */
    size_t products_bytes;
};

/* The rows for which gate and up are computed at once: one expert has at most n_tokens_max rows. */
static uint32_t inner_rows(uint32_t n_tokens_max)
{
    return n_tokens_max > EXPERTS_AT_ONCE ? n_tokens_max : EXPERTS_AT_ONCE;
}

/* Of a call of products: its tokens, or the rows of some experts, each of which may need a block of its own. */
static size_t products_bytes(const struct moe_config *config, uint32_t n_tokens_max, size_t inner)
{
    const uint32_t width = config->n_in > inner ? config->n_in : (uint32_t)inner;
    return cpu_gemm_workspace_bytes(inner_rows(n_tokens_max), width) +
           EXPERTS_AT_ONCE * cpu_gemm_workspace_bytes(1, width);
}

/* Lays out the scratch at base. bytes_out: the bytes of all parts. */
static struct scratch scratch_at(char *base, const struct moe_config *config, uint32_t n_tokens_max,
                                 size_t *bytes_out)
{
    const size_t n_tokens = n_tokens_max, n_experts = config->routing.n_experts;
    const size_t n_rows = n_tokens * config->routing.top_k, n_inner_rows = inner_rows(n_tokens_max);
    const size_t inner = config->n_inner > config->n_shared_inner ? config->n_inner
                                                                  : config->n_shared_inner;
    const size_t n_shared = config->n_shared_inner > 0 ? n_tokens : 0;
    const size_t fused = config->is_interleaved ? 2 * (size_t)config->n_inner : 0;
    struct moe_space space = {.base = base};
    struct scratch scratch = {
        .logits = moe_space_take(&space, n_tokens * n_experts),
        .ids = moe_space_take(&space, n_rows),
        .weights = moe_space_take(&space, n_rows),
        .slots = moe_space_take(&space, n_rows),
        .first = moe_space_take(&space, n_experts + 1),
        .rows = moe_space_take(&space, n_rows * config->n_in),
        .gate_up = moe_space_take(&space, n_inner_rows * fused),
        .gate = moe_space_take(&space, n_inner_rows * inner),
        .up = moe_space_take(&space, n_inner_rows * inner),
        .shared = moe_space_take(&space, n_shared * config->n_in),
        .shared_gate = moe_space_take(&space, n_shared),
        .products_bytes = products_bytes(config, n_tokens_max, inner),
    };
    scratch.products = moe_space_take(&space, scratch.products_bytes / sizeof(float));
    *bytes_out = space.used;
    return scratch;
}

static size_t workspace_bytes(const struct moe_config *config, uint32_t n_tokens_max)
{
    size_t bytes;
    scratch_at(NULL, config, n_tokens_max, &bytes);
    return bytes;
}

/* One call of forward. */
struct run {
    const struct moe *moe;
    struct thread_pool *pool;
    const struct moe_weights *weights;
    const struct moe_io *io;
    struct scratch scratch;
    uint32_t n_in, n_experts, top_k;
};

static void multiply(const struct run *run, struct gemm *gemms, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        gemms[i].workspace = run->scratch.products;
        gemms[i].workspace_bytes = run->scratch.products_bytes;
        gemms[i].x_is_int8 = run->moe->config.x_is_int8;
    }
    run->moe->kernels->gemm(run->pool, gemms, n);
}

/* Calls body for all tokens, several in a task. work: that of one token. */
static void each_token(struct run *run, uint64_t work, thread_pool_body body)
{
    uint32_t n_tasks = (run->io->n_tokens + TOKENS_PER_TASK - 1) / TOKENS_PER_TASK;
    parallel_run(run->pool, work * run->io->n_tokens, n_tasks, body, run);
}

static uint32_t task_end(uint32_t index, uint32_t n_tokens)
{
    uint32_t end = (index + 1) * TOKENS_PER_TASK;
    return end < n_tokens ? end : n_tokens;
}

/* ---- route, sort, gather ---- */

static void route_task(void *arg, uint32_t index)
{
    const struct run *run = arg;
    const struct scratch *scratch = &run->scratch;
    uint32_t end = task_end(index, run->io->n_tokens);
    for (size_t token = index * TOKENS_PER_TASK; token < end; token++)
        moe_choose(run->moe, run->weights, scratch->logits + token * run->n_experts,
                   scratch->ids + token * run->top_k, scratch->weights + token * run->top_k);
}

static void route(struct run *run)
{
    struct gemm router = moe_product(&run->weights->router, run->n_experts, run->n_in);
    router.x = run->io->router_x ? run->io->router_x : run->io->x;
    router.x_stride = run->io->router_x ? run->io->router_x_stride : run->io->x_stride;
    router.y = run->scratch.logits;
    router.n_tokens = run->io->n_tokens;
    multiply(run, &router, 1);
    each_token(run, (uint64_t)run->n_experts * (run->top_k + 16), route_task);
}

static void sort(struct run *run)
{
    const struct scratch *scratch = &run->scratch;
    const uint32_t n_choices = run->io->n_tokens * run->top_k;
    uint32_t next[MOE_EXPERTS_MAX];
    memset(scratch->first, 0, (run->n_experts + 1) * sizeof *scratch->first);
    for (uint32_t choice = 0; choice < n_choices; choice++)
        scratch->first[scratch->ids[choice] + 1]++;
    for (uint32_t e = 0; e < run->n_experts; e++) {
        next[e] = scratch->first[e];
        scratch->first[e + 1] += scratch->first[e];
    }
    assert(scratch->first[run->n_experts] == n_choices);
    for (uint32_t choice = 0; choice < n_choices; choice++)
        scratch->slots[choice] = next[scratch->ids[choice]]++;
}

static void gather_task(void *arg, uint32_t index)
{
    const struct run *run = arg;
    const struct scratch *scratch = &run->scratch;
    uint32_t end = task_end(index, run->io->n_tokens);
    for (size_t token = index * TOKENS_PER_TASK; token < end; token++)
        for (uint32_t rank = 0; rank < run->top_k; rank++)
            memcpy(scratch->rows + (size_t)scratch->slots[token * run->top_k + rank] * run->n_in,
                   run->io->x + token * run->io->x_stride, run->n_in * sizeof(float));
}

/* ---- experts ---- */

/* Some experts with their rows: expert i has rows first[i] .. first[i + 1] - 1 of x and y. */
struct group {
    const struct moe_expert *experts[EXPERTS_AT_ONCE];
    uint32_t first[EXPERTS_AT_ONCE + 1];
    uint32_t n, n_inner;
    bool is_fused; /* gate also has the rows of up, interleaved */
    const float *x;
    uint64_t x_stride;
    float *y; /* rows without gaps; may be x */
};

/* A product for the rows of expert i, from x to y. */
static struct gemm of_rows(const struct group *group, uint32_t i, struct gemm product,
                           const float *x, float *y)
{
    product.x = x + group->first[i] * product.x_stride;
    product.y = y + group->first[i] * product.y_stride;
    product.n_tokens = group->first[i + 1] - group->first[i];
    return product;
}

static void split_task(void *arg, uint32_t row)
{
    const struct run *run = arg;
    const size_t n_inner = run->moe->config.n_inner;
    moe_split(run->scratch.gate_up + row * 2 * n_inner, (uint32_t)n_inner,
              run->scratch.gate + row * n_inner, run->scratch.up + row * n_inner);
}

static void multiply_fused(struct run *run, const struct group *group)
{
    struct gemm gemms[EXPERTS_AT_ONCE];
    uint32_t n_rows = group->first[group->n];
    for (uint32_t i = 0; i < group->n; i++) {
        gemms[i] = moe_product(&group->experts[i]->gate, 2 * group->n_inner, run->n_in);
        gemms[i].x_stride = group->x_stride;
        gemms[i] = of_rows(group, i, gemms[i], group->x, run->scratch.gate_up);
    }
    multiply(run, gemms, group->n);
    parallel_run(run->pool, (uint64_t)n_rows * group->n_inner, n_rows, split_task, run);
}

static void multiply_apart(struct run *run, const struct group *group)
{
    struct gemm gemms[2 * EXPERTS_AT_ONCE];
    for (uint32_t i = 0; i < group->n; i++) {
        struct gemm gate = moe_product(&group->experts[i]->gate, group->n_inner, run->n_in);
        struct gemm up = moe_product(&group->experts[i]->up, group->n_inner, run->n_in);
        gate.x_stride = up.x_stride = group->x_stride;
        gemms[2 * i] = of_rows(group, i, gate, group->x, run->scratch.gate);
        gemms[2 * i + 1] = of_rows(group, i, up, group->x, run->scratch.up);
    }
    multiply(run, gemms, 2 * group->n);
}

static void group_forward(struct run *run, const struct group *group)
{
    assert(group->n >= 1 && group->n <= EXPERTS_AT_ONCE);
    if (group->is_fused)
        multiply_fused(run, group);
    else
        multiply_apart(run, group);
    struct gated gated = moe_gated(&run->moe->config, run->scratch.gate, run->scratch.up,
                                   group->first[group->n], group->n_inner);
    run->moe->kernels->gated(run->pool, &gated);

    struct gemm gemms[EXPERTS_AT_ONCE];
    for (uint32_t i = 0; i < group->n; i++)
        gemms[i] = of_rows(group, i,
                           moe_product(&group->experts[i]->down, run->n_in, group->n_inner),
                           run->scratch.gate, group->y);
    multiply(run, gemms, group->n);
}

/* Collects the experts from expert on that have rows, as many as fit. Returns the first expert after them. */
static uint32_t next_group(const struct run *run, uint32_t expert, struct group *group_out)
{
    const uint32_t *first = run->scratch.first;
    const uint32_t n_rows_max = inner_rows(run->moe->n_tokens_max);
    float *rows = run->scratch.rows + (size_t)first[expert] * run->n_in;
    struct group group = {.n_inner = run->moe->config.n_inner,
                          .is_fused = run->moe->config.is_interleaved,
                          .x = rows,
                          .x_stride = run->n_in,
                          .y = rows};
    for (; expert < run->n_experts; expert++) {
        uint32_t end = group.first[group.n] + first[expert + 1] - first[expert];
        if (end == group.first[group.n])
            continue;
        if (group.n == EXPERTS_AT_ONCE || end > n_rows_max)
            break;
        group.experts[group.n] = &run->weights->experts[expert];
        group.first[++group.n] = end;
    }
    assert((group.n > 0 || expert == run->n_experts) && "the rows of any expert fit");
    *group_out = group;
    return expert;
}

static void experts_forward(struct run *run)
{
    struct group group;
    for (uint32_t expert = 0; expert < run->n_experts;) {
        expert = next_group(run, expert, &group);
        if (group.n > 0)
            group_forward(run, &group);
    }
}

static void shared_forward(struct run *run)
{
    const struct moe_io *io = run->io;
    struct group group = {.experts = {&run->weights->shared},
                          .first = {0, io->n_tokens},
                          .n = 1,
                          .n_inner = run->moe->config.n_shared_inner,
                          .x = io->x,
                          .x_stride = io->x_stride,
                          .y = run->scratch.shared};
    group_forward(run, &group);
    if (!run->weights->shared_gate.w)
        return;
    struct gemm gate = moe_product(&run->weights->shared_gate, 1, run->n_in);
    gate.x = io->x;
    gate.x_stride = io->x_stride;
    gate.y = run->scratch.shared_gate;
    gate.n_tokens = io->n_tokens;
    multiply(run, &gate, 1);
    for (uint32_t token = 0; token < io->n_tokens; token++)
        run->scratch.shared_gate[token] = moe_sigmoid(run->scratch.shared_gate[token]);
}

/* ---- combine ---- */

/* Computes floats first .. first + n - 1 of a token. The order of the sums does not depend on n. */
static void combine(const struct run *run, size_t token, uint32_t first, uint32_t n)
{
    const struct scratch *scratch = &run->scratch;
    float sum[COMBINE_FLOATS] = {0};
    float *y = run->io->y + token * run->io->y_stride + first;
    for (uint32_t rank = 0; rank < run->top_k; rank++) {
        size_t choice = token * run->top_k + rank;
        const float *row = scratch->rows + (size_t)scratch->slots[choice] * run->n_in + first;
        float weight = scratch->weights[choice];
        for (uint32_t i = 0; i < n; i++)
            sum[i] += weight * row[i];
    }
    if (run->moe->config.n_shared_inner > 0) {
        const float *row = scratch->shared + token * run->n_in + first;
        float weight = run->weights->shared_gate.w ? scratch->shared_gate[token] : 1;
        for (uint32_t i = 0; i < n; i++)
            sum[i] += weight * row[i];
    }
    for (uint32_t i = 0; i < n; i++)
        y[i] = run->io->accumulate ? y[i] + sum[i] : sum[i];
}

static void combine_task(void *arg, uint32_t index)
{
    const struct run *run = arg;
    uint32_t end = task_end(index, run->io->n_tokens);
    for (size_t token = index * TOKENS_PER_TASK; token < end; token++)
        for (uint32_t first = 0; first < run->n_in; first += COMBINE_FLOATS)
            combine(run, token, first,
                    run->n_in - first < COMBINE_FLOATS ? run->n_in - first : COMBINE_FLOATS);
}

static void forward(const struct moe *moe, struct thread_pool *pool,
                    const struct moe_weights *weights, const struct moe_io *io)
{
    size_t bytes;
    struct run run = {
        .moe = moe,
        .pool = pool,
        .weights = weights,
        .io = io,
        .scratch = scratch_at(moe->workspace, &moe->config, moe->n_tokens_max, &bytes),
        .n_in = moe->config.n_in,
        .n_experts = moe->config.routing.n_experts,
        .top_k = moe->config.routing.top_k,
    };
    assert(bytes <= moe->workspace_bytes);
    if (io->n_tokens == 0)
        return;
    route(&run);
    sort(&run);
    each_token(&run, (uint64_t)run.top_k * run.n_in, gather_task);
    experts_forward(&run);
    if (moe->config.n_shared_inner > 0)
        shared_forward(&run);
    each_token(&run, (uint64_t)run.top_k * run.n_in, combine_task);
}

const struct moe_backend cpu_moe = {
    .workspace_bytes = workspace_bytes,
    .forward = forward,
};
