/*
 * ops - the smallest operators, and the table of this instruction set.
 *
 * Element-wise loops are plain C: without contraction the compiler cannot change their bits.
 */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/each_row.h"
#include "kernels/cpu/vector/rows.h"

#include <assert.h>
#include <math.h>

static void embedding_row(const void *op, uint32_t token)
{
    const struct embedding *embedding = op;
    assert(embedding->ids[token] < embedding->n_rows);
    size_t bytes = dtype_bytes(embedding->dtype);
    row_widen(embedding->dtype,
              (const char *)embedding->table + (size_t)embedding->ids[token] * embedding->n * bytes,
              embedding->n, (float *)embedding->y + token * embedding->y_stride);
}

static void embedding(struct thread_pool *pool, const struct embedding *embedding)
{
    assert(embedding->y_dtype == DTYPE_F32);
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
        best = vec_max(vec_load(x + i), best); /* in this order NaN is dropped */
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
    .moe = &cpu_moe,
    .gemm = cpu_gemm,
    .gemm_workspace_bytes = cpu_gemm_workspace_bytes,
    .gemm_packed_bytes = cpu_gemm_packed_bytes,
    .gemm_pack = cpu_gemm_pack,
    .rms_norm = cpu_rms_norm,
    .layer_norm = cpu_layer_norm,
    .gated = cpu_gated,
    .rotary = cpu_rotary,
    .kv_update = cpu_kv_update,
    .embedding = embedding,
    .add = add,
    .argmax = argmax,
    .log_sum_exp = log_sum_exp,
};
