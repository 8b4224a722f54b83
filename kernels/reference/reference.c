#include "kernels/reference/reference.h"

#include "kernels/reference/attention.h"
#include "kernels/reference/gemm.h"

#include <assert.h>
#include <math.h>

static void rms_norm(struct thread_pool *pool, const struct rms_norm *norm)
{
    (void)pool;
    for (uint32_t token = 0; token < norm->n_tokens; token++) {
        const float *x = norm->x + token * norm->x_stride;
        float *y = norm->y + token * norm->y_stride;
        double squares = 0;
        for (uint32_t i = 0; i < norm->n; i++)
            squares += (double)x[i] * (double)x[i];
        double factor = 1 / sqrt(squares / norm->n + (double)norm->eps);
        for (uint32_t i = 0; i < norm->n; i++)
            y[i] = (float)((double)x[i] * factor * (double)dtype_load(norm->w_dtype, norm->w, i));
    }
}

static void swiglu(struct thread_pool *pool, const struct swiglu *swiglu)
{
    (void)pool;
    for (uint32_t token = 0; token < swiglu->n_tokens; token++)
        for (uint32_t i = 0; i < swiglu->n; i++) {
            double gate = (double)swiglu->gate[token * swiglu->gate_stride + i];
            double up = (double)swiglu->up[token * swiglu->up_stride + i];
            swiglu->y[token * swiglu->y_stride + i] = (float)(gate / (1 + exp(-gate)) * up);
        }
}

static void embedding(struct thread_pool *pool, const struct embedding *embedding)
{
    (void)pool;
    for (uint32_t token = 0; token < embedding->n_tokens; token++) {
        assert(embedding->ids[token] < embedding->n_rows);
        size_t first = (size_t)embedding->ids[token] * embedding->n;
        for (uint32_t i = 0; i < embedding->n; i++)
            embedding->y[token * embedding->y_stride + i] = dtype_load(embedding->dtype,
                                                                       embedding->table, first + i);
    }
}

static void add(float *y, const float *x, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        y[i] += x[i];
}

static uint32_t argmax(const float *x, uint32_t n)
{
    uint32_t best = 0;
    assert(n > 0);
    for (uint32_t i = 1; i < n; i++)
        if (x[i] > x[best] || (isnan(x[best]) && !isnan(x[i])))
            best = i;
    return best;
}

static float log_sum_exp(const float *x, uint32_t n)
{
    double largest = (double)x[argmax(x, n)];
    double sum = 0;
    if (!isfinite(largest))
        return (float)largest;
    for (uint32_t i = 0; i < n; i++)
        sum += exp((double)x[i] - largest);
    return (float)(largest + log(sum));
}

const struct kernels kernels_reference = {
    .name = "reference",
    .attention = &reference_attention,
    .gemm = reference_gemm,
    .rms_norm = rms_norm,
    .swiglu = swiglu,
    .embedding = embedding,
    .add = add,
    .argmax = argmax,
    .log_sum_exp = log_sum_exp,
};
