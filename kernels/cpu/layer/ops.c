/*
 * ops - the smallest operators, and the table of this instruction set.
 *
 * Element-wise loops are plain C: without contraction the compiler cannot change their bits.
 */
#include "kernels/blocks.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/each_row.h"
#include "kernels/cpu/layer/recurrent.h"
#include "kernels/cpu/vector/rows.h"

#include <assert.h>
#include <math.h>

static void embedding_row(const void *op, uint32_t token)
{
    const struct embedding *embedding = op;
    assert(embedding->ids[token] < embedding->n_rows);
    if (dtype_is_blocks(embedding->dtype)) {
        const size_t row_bytes = dtype_array_bytes(embedding->dtype, embedding->n);
        blocks_to_f32(embedding->dtype,
                      (const char *)embedding->table + embedding->ids[token] * row_bytes,
                      embedding->n, (float *)embedding->y + token * embedding->y_stride);
        return;
    }
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

static void scaled_add_row(const void *op, uint32_t row)
{
    const struct scaled_add *scaled_add = op;
    const float *x = scaled_add->x + row * scaled_add->x_stride;
    float *y = scaled_add->y + row * scaled_add->y_stride;
    for (uint32_t i = 0; i < scaled_add->n; i++)
        y[i] += scaled_add->scale * x[i];
}

static void scaled_add(struct thread_pool *pool, const struct scaled_add *scaled_add)
{
    struct rows_task task = {scaled_add, scaled_add->n_tokens, scaled_add_row};
    each_row(pool, &task, scaled_add->n);
}

static void cap_row(float *x, uint32_t n, float soft_cap)
{
    const vec cap = vec_set(soft_cap);
    uint32_t i = 0;
    for (; i + LANES <= n; i += LANES)
        vec_store(x + i, vec_mul(vec_tanh(vec_div(vec_load(x + i), cap)), cap));
    if (i < n) {
        vec rest = vec_load_some(DTYPE_F32, x + i, n - i);
        vec_store_some(x + i, vec_mul(vec_tanh(vec_div(rest, cap)), cap), n - i);
    }
}

static void scale_row(const void *op, uint32_t row)
{
    const struct scale *scale = op;
    float *x = scale->x + row * scale->x_stride;
    for (uint32_t i = 0; i < scale->n; i++)
        x[i] *= scale->scale;
    if (scale->soft_cap != 0)
        cap_row(x, scale->n, scale->soft_cap);
}

static void scale(struct thread_pool *pool, const struct scale *scale)
{
    struct rows_task task = {scale, scale->n_tokens, scale_row};
    each_row(pool, &task, scale->n * (uint64_t)(scale->soft_cap != 0 ? 8 : 1));
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
    .latent = &cpu_latent,
    .gemm = cpu_gemm,
    .gemm_workspace_bytes = cpu_gemm_workspace_bytes,
    .gemm_packed_bytes = cpu_gemm_packed_bytes,
    .gemm_pack = cpu_gemm_pack,
    .rms_norm = cpu_rms_norm,
    .layer_norm = cpu_layer_norm,
    .gated = cpu_gated,
    .rotary = cpu_rotary,
    .kv_update = cpu_kv_update,
    .causal_conv = cpu_causal_conv,
    .delta_gate = cpu_delta_gate,
    .delta_rule = cpu_delta_rule,
    .gated_norm = cpu_gated_norm,
    .embedding = embedding,
    .add = add,
    .scaled_add = scaled_add,
    .scale = scale,
    .argmax = argmax,
    .log_sum_exp = log_sum_exp,
};
