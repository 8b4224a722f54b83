/*
 * ops - the operators that touch each element once or twice, and the table of this instruction set.
 *
 * Element-wise loops are plain C: without contraction the compiler cannot change their bits.
 */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/rows.h"

#include <assert.h>
#include <math.h>

enum { ROWS_PER_TASK = 16, WORK_PER_ELEMENT = 4 };

struct rows_task {
    const void *op;
    uint32_t n_tokens;
    void (*row)(const void *op, uint32_t token);
};

static void run_rows(void *arg, uint32_t index)
{
    const struct rows_task *task = arg;
    uint32_t end = (index + 1) * ROWS_PER_TASK;
    for (uint32_t token = index * ROWS_PER_TASK; token < end && token < task->n_tokens; token++)
        task->row(task->op, token);
}

static void each_row(struct thread_pool *pool, struct rows_task *task, uint32_t n)
{
    parallel_run(pool, (uint64_t)task->n_tokens * n * WORK_PER_ELEMENT,
                 (task->n_tokens + ROWS_PER_TASK - 1) / ROWS_PER_TASK, run_rows, task);
}

static void norm_row(const void *op, uint32_t token)
{
    const struct rms_norm *norm = op;
    row_norm(norm->x + token * norm->x_stride, norm->w_dtype, norm->w, norm->n, norm->eps,
             norm->y + token * norm->y_stride);
}

static void rms_norm(struct thread_pool *pool, const struct rms_norm *norm)
{
    struct rows_task task = {norm, norm->n_tokens, norm_row};
    each_row(pool, &task, norm->n);
}

INLINE vec swiglu_vec(vec gate, vec up)
{
    vec exponential = vec_exp(vec_sub(vec_zero(), gate));
    return vec_mul(vec_div(gate, vec_add(vec_set(1), exponential)), up);
}

static void swiglu_row(const void *op, uint32_t token)
{
    const struct swiglu *swiglu = op;
    const float *gate = swiglu->gate + token * swiglu->gate_stride;
    const float *up = swiglu->up + token * swiglu->up_stride;
    float *y = swiglu->y + token * swiglu->y_stride;
    uint32_t i = 0;
    for (; i + LANES <= swiglu->n; i += LANES)
        vec_store(y + i, swiglu_vec(vec_load(gate + i), vec_load(up + i)));
    uint32_t rest = swiglu->n - i;
    if (rest > 0)
        vec_store_some(y + i,
                       swiglu_vec(vec_load_some(DTYPE_F32, gate + i, rest),
                                  vec_load_some(DTYPE_F32, up + i, rest)),
                       rest);
}

static void swiglu(struct thread_pool *pool, const struct swiglu *swiglu)
{
    struct rows_task task = {swiglu, swiglu->n_tokens, swiglu_row};
    each_row(pool, &task, 4 * swiglu->n);
}

static void embedding_row(const void *op, uint32_t token)
{
    const struct embedding *embedding = op;
    assert(embedding->ids[token] < embedding->n_rows);
    size_t bytes = dtype_bytes(embedding->dtype);
    row_widen(embedding->dtype,
              (const char *)embedding->table + (size_t)embedding->ids[token] * embedding->n * bytes,
              embedding->n, embedding->y + token * embedding->y_stride);
}

static void embedding(struct thread_pool *pool, const struct embedding *embedding)
{
    struct rows_task task = {embedding, embedding->n_tokens, embedding_row};
    each_row(pool, &task, embedding->n);
}

static void add(float *y, const float *x, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        y[i] += x[i];
}

static float largest(const float *x, uint32_t n)
{
    vec best = vec_set(-INFINITY);
    uint32_t i = 0;
    for (; i + LANES <= n; i += LANES)
        best = vec_max(vec_load(x + i), best); /* in this order a NaN is dropped */
    float value = vec_largest(best);
    for (; i < n; i++)
        value = x[i] > value ? x[i] : value;
    return value;
}

static uint32_t argmax(const float *x, uint32_t n)
{
    assert(n > 0);
    float value = largest(x, n);
    for (uint32_t i = 0; i < n; i++)
        if (x[i] == value)
            return i;
    return 0;
}

static float log_sum_exp(const float *x, uint32_t n)
{
    assert(n > 0);
    float most = largest(x, n);
    if (!isfinite(most))
        return x[argmax(x, n)];
    vec sum = vec_zero();
    vec shift = vec_set(most);
    uint32_t i = 0;
    for (; i + LANES <= n; i += LANES)
        sum = vec_add(sum, vec_exp(vec_sub(vec_load(x + i), shift)));
    float rest[LANES];
    for (uint32_t j = 0; j < LANES; j++)
        rest[j] = i + j < n ? x[i + j] : -INFINITY;
    sum = vec_add(sum, vec_exp(vec_sub(vec_load(rest), shift)));
    return most + logf(vec_sum(sum));
}

#define NAME_(isa)       #isa
#define NAME(isa)        NAME_(isa)
#define kernels_this_isa ISA(kernels)

const struct kernels kernels_this_isa = {
    .name = NAME(ISA_NAME),
    .attention = &cpu_attention,
    .gemm = cpu_gemm,
    .gemm_packed_bytes = cpu_gemm_packed_bytes,
    .gemm_pack = cpu_gemm_pack,
    .rms_norm = rms_norm,
    .swiglu = swiglu,
    .embedding = embedding,
    .add = add,
    .argmax = argmax,
    .log_sum_exp = log_sum_exp,
};
