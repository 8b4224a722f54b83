#include "kernels/cuda/cuda.h"

#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/launch.h"
#include "kernels/kernels.h"

#include <assert.h>
#include <math.h>
#include <stdatomic.h>

#define NORM_SHARED_BYTES (LAYER_THREADS / 32 * (uint32_t)sizeof(float))

static bool is_activation(enum dtype dtype, const void *y)
{
    return dtype <= DTYPE_F16 && (uintptr_t)y % dtype_bytes(dtype) == 0;
}

static void embedding(struct thread_pool *pool, const struct embedding *embedding)
{
    (void)pool;
    const struct embedding_parameters parameters = {
        .table = embedding->table,
        .ids = embedding->ids,
        .y = embedding->y,
        .y_stride = embedding->y_stride,
        .n = embedding->n,
        .n_chunks = cuda_divide_up(embedding->n, LAYER_CHUNK),
        .dtype = embedding->dtype,
        .y_dtype = embedding->y_dtype,
    };
    const struct device_shape shape = {
        {embedding->n_tokens * parameters.n_chunks, 1, 1}, LAYER_THREADS, 0};
    assert(is_activation(embedding->y_dtype, embedding->y) && embedding->dtype <= DTYPE_E4M3);
    if (shape.grid[0] > 0)
        cuda_launch(CUDA_embedding, &shape, &parameters);
}

/* Launches either norm with the fields of layer_norm; an RMS norm has no bias. offset: added to the weights. */
static void launch_norm(enum cuda_kernel kernel, const struct layer_norm *norm, float offset)
{
    const struct norm_parameters parameters = {
        .x = norm->x,
        .y = norm->y,
        .w = norm->w,
        .bias = norm->bias,
        .x_stride = norm->x_stride,
        .y_stride = norm->y_stride,
        .n = norm->n,
        .x_dtype = norm->x_dtype,
        .y_dtype = norm->y_dtype,
        .w_dtype = norm->w_dtype,
        .bias_dtype = norm->bias_dtype,
        .eps = norm->eps,
        .offset = offset,
    };
    const struct device_shape shape = {{norm->n_tokens, 1, 1}, LAYER_THREADS, NORM_SHARED_BYTES};
    assert(norm->x_dtype <= DTYPE_F16 && is_activation(norm->y_dtype, norm->y));
    if (norm->n_tokens > 0)
        cuda_launch(kernel, &shape, &parameters);
}

static void rms_norm(struct thread_pool *pool, const struct rms_norm *norm)
{
    (void)pool;
    const struct layer_norm fields = {
        .n_tokens = norm->n_tokens,
        .n = norm->n,
        .x = norm->x,
        .x_stride = norm->x_stride,
        .x_dtype = norm->x_dtype,
        .w = norm->w,
        .w_dtype = norm->w_dtype,
        .eps = norm->eps,
        .y = norm->y,
        .y_stride = norm->y_stride,
        .y_dtype = norm->y_dtype,
    };
    launch_norm(CUDA_rms_norm, &fields, norm->is_unit_offset ? 1 : 0);
}

static void layer_norm(struct thread_pool *pool, const struct layer_norm *norm)
{
    (void)pool;
    launch_norm(CUDA_layer_norm, norm, 0);
}

/* layer.cuh has the same numbers */
static_assert(ACTIVATION_SILU == 0 && ACTIVATION_GELU == 1 && ACTIVATION_GELU_TANH == 2 &&
                  ACTIVATION_RELU == 3,
              "enum activation");

static void gated(struct thread_pool *pool, const struct gated *gated)
{
    (void)pool;
    const struct gated_parameters parameters = {
        .gate = gated->gate,
        .up = gated->up,
        .y = gated->y,
        .gate_stride = gated->gate_stride,
        .up_stride = gated->up_stride,
        .y_stride = gated->y_stride,
        .n = gated->n,
        .n_chunks = cuda_divide_up(gated->n, LAYER_CHUNK),
        .dtype = gated->dtype,
        .activation = gated->activation,
        .alpha = gated->alpha > 0 ? gated->alpha : 1,
        .beta = gated->beta,
        .limit = gated->limit > 0 ? gated->limit : INFINITY,
    };
    const struct device_shape shape = {
        {gated->n_tokens * parameters.n_chunks, 1, 1}, LAYER_THREADS, 0};
    assert(is_activation(gated->dtype, gated->y) && gated->activation <= ACTIVATION_RELU);
    if (shape.grid[0] > 0)
        cuda_launch(CUDA_gated, &shape, &parameters);
}

static void add(float *y, const float *x, uint64_t n)
{
    const struct add_parameters parameters = {y, x, n};
    const struct device_shape shape = {{cuda_divide_up(n, LAYER_THREADS), 1, 1}, LAYER_THREADS, 0};
    if (n > 0)
        cuda_launch(CUDA_add, &shape, &parameters);
}

void cuda_candidates(const struct candidates_parameters *parameters, uint32_t n_rows)
{
    const struct device_shape shape = {{n_rows, 1, 1}, SAMPLING_THREADS, SAMPLING_SHARED_BYTES};
    assert(parameters->vocabulary > 0 && parameters->logits_stride >= parameters->vocabulary);
    if (n_rows > 0)
        cuda_launch(CUDA_candidates, &shape, parameters);
}

/* ---- operators on host memory ---- */

/* Chosen once a process, because detecting the CPU's features is slow. */
static const struct kernels *host(void)
{
    static _Atomic(const struct kernels *) chosen;
    const struct kernels *kernels = atomic_load_explicit(&chosen, memory_order_relaxed);
    struct error error;
    if (kernels)
        return kernels;
    enum status status = kernels_select(NULL, &kernels, &error);
    assert(status == STATUS_OK && "main has chosen this machine's set before");
    (void)status;
    atomic_store_explicit(&chosen, kernels, memory_order_relaxed);
    return kernels;
}

static uint32_t argmax(const float *x, uint32_t n)
{
    return host()->argmax(x, n);
}

static float log_sum_exp(const float *x, uint32_t n)
{
    return host()->log_sum_exp(x, n);
}

/* The table, except for products, of which there are two kinds. */
#define KERNELS(name_, gemm_)                                                                      \
    {                                                                                              \
        .name = (name_), .gemm = (gemm_), .rms_norm = rms_norm, .layer_norm = layer_norm,          \
        .gated = gated, .rotary = cuda_rotary, .kv_update = cuda_kv_update,                        \
        .embedding = embedding, .add = add, .argmax = argmax, .log_sum_exp = log_sum_exp,          \
    }

const struct kernels cuda_kernels = KERNELS("cuda", cuda_gemm);
const struct kernels cuda_fast_kernels = KERNELS("cublaslt", cuda_gemm_fast);
