/*
 * cuda_gemm - chooses the kernel of a product and launches it.
 */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/launch.h"

#include <assert.h>

/* The types of weights and x for which there are kernels on tensor cores: rows of the table below. */
enum weights { BF16_BF16, F16_F16, F16_BF16, ROWS_BF16, GROUPS_BF16, WEIGHTS_NONE };

static const enum cuda_kernel tiled[WEIGHTS_NONE][CUDA_GEMM_VARIANTS] = {
#define ROW(name)                                                                                  \
    {                                                                                              \
        CUDA_product_plain, CUDA_product_##name##_wide, CUDA_product_##name##_mid,                 \
            CUDA_product_##name##_slim, CUDA_product_##name##_thin                                 \
    }
    {CUDA_product_plain, CUDA_product_bf16_bf16_wide, CUDA_product_bf16_bf16_mid,
     CUDA_product_bf16_bf16_slim, CUDA_product_bf16_bf16_thin, CUDA_product_bf16_bf16_fours_256,
     CUDA_product_bf16_bf16_fours_128, CUDA_product_bf16_bf16_fours_64},
    ROW(f16_f16),
    ROW(f16_bf16),
    ROW(rows_bf16),
    ROW(groups_bf16),
#undef ROW
};

/* The tile of a variant, the stages of its ring and the elements of a stage. */
static const struct {
    uint32_t n_out, n_tokens, k, n_stages, threads;
} shapes[CUDA_GEMM_VARIANTS] = {
    {PRODUCT_PLAIN_OUT, PRODUCT_PLAIN_TOKENS, 0, 0, 256},
    {PRODUCT_WIDE_OUT, PRODUCT_WIDE_TOKENS, PRODUCT_WIDE_K, PRODUCT_WIDE_STAGES, 256},
    {PRODUCT_MID_OUT, PRODUCT_MID_TOKENS, PRODUCT_MID_K, PRODUCT_MID_STAGES, 128},
    {PRODUCT_SLIM_OUT, PRODUCT_SLIM_TOKENS, PRODUCT_SLIM_K, PRODUCT_SLIM_STAGES, 128},
    {PRODUCT_THIN_OUT, PRODUCT_THIN_TOKENS, PRODUCT_THIN_K, PRODUCT_THIN_STAGES, 128},
    {PRODUCT_FOURS_256_OUT, 256, PRODUCT_FOURS_K, PRODUCT_FOURS_256_STAGES, 256},
    {PRODUCT_FOURS_128_OUT, 128, PRODUCT_FOURS_K, PRODUCT_FOURS_128_STAGES, 256},
    {PRODUCT_FOURS_64_OUT, 64, PRODUCT_FOURS_K, PRODUCT_FOURS_64_STAGES, 128},
};

/* The shared memory of the largest kernel for sm_90. No other product needs more than CUDA_SHARED_BYTES_MAX. */
#define FOURS_SHARED_BYTES (192u << 10)

static bool is_at_16(const void *address, uint64_t stride_bytes)
{
    return (uintptr_t)address % 16 == 0 && stride_bytes % 16 == 0;
}

static enum weights weights_of(const struct gemm *gemm)
{
    if (gemm->x_dtype != DTYPE_BF16 && gemm->x_dtype != DTYPE_F16)
        return WEIGHTS_NONE;
    if (gemm->w_dtype == DTYPE_F16)
        return gemm->x_dtype == DTYPE_F16 ? F16_F16 : F16_BF16;
    if (gemm->x_dtype == DTYPE_F16)
        return WEIGHTS_NONE;
    if (gemm->w_dtype == DTYPE_BF16)
        return BF16_BF16;
    if (gemm->w_dtype != DTYPE_INT8)
        return WEIGHTS_NONE;
    return gemm->w_scale_columns == gemm->n_in ? ROWS_BF16 : GROUPS_BF16;
}

static bool is_of_fours(enum cuda_gemm_variant variant)
{
    return variant >= CUDA_GEMM_FOURS_256;
}

static bool has_fours(void)
{
    const struct device_traits traits = device_get_traits(device_bound());
    return traits.architecture == 90 && traits.shared_bytes_max >= FOURS_SHARED_BYTES;
}

bool cuda_gemm_takes(const struct gemm *gemm, enum cuda_gemm_variant variant)
{
    if (variant == CUDA_GEMM_PLAIN)
        return true;
    const enum weights weights = weights_of(gemm);
    if (weights == WEIGHTS_NONE || (is_of_fours(variant) && (weights != BF16_BF16 || !has_fours())))
        return false;
    return is_at_16(gemm->x, gemm->x_stride * 2) &&
           is_at_16(gemm->w, (uint64_t)gemm->n_in * dtype_bytes(gemm->w_dtype)) &&
           gemm->n_in % 8 == 0;
}

static uint64_t n_tiles(const struct gemm *gemm, enum cuda_gemm_variant variant)
{
    return (uint64_t)cuda_divide_up(gemm->n_tokens, shapes[variant].n_tokens) *
           cuda_divide_up(gemm->n_out, shapes[variant].n_out);
}

/* The variant with the least time, by rounds of all processors times the cost of a tile; of equal ones the largest. */
static enum cuda_gemm_variant choose_fours(const struct gemm *gemm, uint32_t n_processors)
{
    static const uint32_t costs[] = {20, 12, 4};
    enum cuda_gemm_variant best = CUDA_GEMM_FOURS_256;
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < sizeof costs / sizeof *costs; i++) {
        const enum cuda_gemm_variant variant = CUDA_GEMM_FOURS_256 + i;
        const uint64_t cost = (uint64_t)cuda_divide_up(n_tiles(gemm, variant), n_processors) *
                              costs[i];
        if (cost < least) {
            least = cost;
            best = variant;
        }
    }
    return best;
}

enum cuda_gemm_variant cuda_gemm_choose(const struct gemm *gemm)
{
    if (!cuda_gemm_takes(gemm, CUDA_GEMM_SLIM))
        return CUDA_GEMM_PLAIN;
    const uint32_t n_processors = device_get_traits(device_bound()).n_processors;
    if (gemm->n_tokens <= 2 * PRODUCT_SLIM_TOKENS)
        return n_tiles(gemm, CUDA_GEMM_SLIM) >= n_processors ? CUDA_GEMM_SLIM : CUDA_GEMM_THIN;
    if (cuda_gemm_takes(gemm, CUDA_GEMM_FOURS_256))
        return choose_fours(gemm, n_processors);
    /* Wide tiles if there are enough for all processors. */
    return n_tiles(gemm, CUDA_GEMM_WIDE) >= n_processors ? CUDA_GEMM_WIDE : CUDA_GEMM_MID;
}

static struct product product_of(const struct gemm *gemm)
{
    return (struct product){
        .x = gemm->x,
        .w = gemm->w,
        .w_scales = gemm->w_dtype < DTYPE_INT8 ? NULL : gemm->w_scales,
        .bias = gemm->bias,
        .y = gemm->y,
        .x_stride = gemm->x_stride,
        .y_stride = gemm->y_stride,
        .n_tokens = gemm->n_tokens,
        .n_in = gemm->n_in,
        .n_out = gemm->n_out,
        .w_scale_rows = gemm->w_scale_rows,
        .w_scale_columns = gemm->w_scale_columns,
        .x_dtype = gemm->x_dtype,
        .w_dtype = gemm->w_dtype,
        .bias_dtype = gemm->bias_dtype,
        .y_dtype = gemm->y_dtype,
        .accumulate = gemm->accumulate,
    };
}

static uint32_t ring_bytes(enum weights weights, enum cuda_gemm_variant variant)
{
    if (variant == CUDA_GEMM_PLAIN)
        return 0;
    const uint32_t w_bytes = weights == ROWS_BF16 || weights == GROUPS_BF16 ? 1 : 2;
    return shapes[variant].n_stages * shapes[variant].k *
           (shapes[variant].n_out * w_bytes + shapes[variant].n_tokens * 2);
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

void cuda_gemm_run(const struct gemm *gemms, uint32_t n_gemms, enum cuda_gemm_variant variant)
{
    struct products_parameters parameters = {0};
    const enum weights weights = variant == CUDA_GEMM_PLAIN ? BF16_BF16 : weights_of(gemms);
    struct device_shape shape = {
        {0, 0, n_gemms}, shapes[variant].threads, ring_bytes(weights, variant)};
    assert(n_gemms > 0 && n_gemms <= PRODUCTS_MAX && weights < WEIGHTS_NONE);
    for (uint32_t g = 0; g < n_gemms; g++) {
        assert(cuda_gemm_takes(&gemms[g], variant));
        assert(variant == CUDA_GEMM_PLAIN || weights_of(&gemms[g]) == weights);
        parameters.products[g] = product_of(&gemms[g]);
        shape.grid[0] = larger(shape.grid[0],
                               cuda_divide_up(gemms[g].n_tokens, shapes[variant].n_tokens));
        shape.grid[1] = larger(shape.grid[1],
                               cuda_divide_up(gemms[g].n_out, shapes[variant].n_out));
    }
    if (shape.grid[0] > 0 && shape.grid[1] > 0)
        cuda_launch(tiled[weights][variant], &shape, &parameters);
}

/* Neighbouring products with the same kernel are one launch. */
void cuda_gemm(struct thread_pool *pool, const struct gemm *gemms, uint32_t n_gemms)
{
    (void)pool;
    assert(n_gemms <= GEMMS_MAX);
    uint32_t first = 0;
    for (uint32_t g = 0; g < n_gemms; g++) {
        enum status status = gemm_check_operands(&gemms[g], NULL);
        assert(status == STATUS_OK && !gemms[g].w_is_packed);
        (void)status;
        assert((uintptr_t)gemms[g].y % dtype_bytes(gemms[g].y_dtype) == 0);
        const enum cuda_gemm_variant variant = cuda_gemm_choose(&gemms[g]);
        const bool is_last = g + 1 == n_gemms || cuda_gemm_choose(&gemms[g + 1]) != variant ||
                             weights_of(&gemms[g + 1]) != weights_of(&gemms[g]);
        if (is_last) {
            cuda_gemm_run(gemms + first, g + 1 - first, variant);
            first = g + 1;
        }
    }
}
