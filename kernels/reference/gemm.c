#include "kernels/reference/gemm.h"

#include "kernels/blocks.h"
#include "kernels/quantize.h"

#include <assert.h>

double reference_weight(const struct gemm *gemm, uint32_t o, uint32_t i)
{
    if (dtype_is_blocks(gemm->w_dtype))
        return (double)block_element(gemm->w_dtype, gemm->w, (size_t)o * gemm->n_in + i);
    double w = (double)dtype_load(gemm->w_dtype, gemm->w, (size_t)o * gemm->n_in + i);
    return w * (double)dequantize_scale(gemm, o, i);
}

static void gemm_row(const struct gemm *gemm, uint32_t token)
{
    const float *x = (const float *)gemm->x + token * gemm->x_stride;
    float *y = (float *)gemm->y + token * gemm->y_stride;
    for (uint32_t o = 0; o < gemm->n_out; o++) {
        double sum = 0;
        for (uint32_t i = 0; i < gemm->n_in; i++)
            sum += (double)x[i] * reference_weight(gemm, o, i);
        if (gemm->bias)
            sum += (double)dtype_load(gemm->bias_dtype, gemm->bias, o);
        if (gemm->accumulate)
            sum += (double)y[o];
        y[o] = (float)sum;
    }
}

void reference_gemm(struct thread_pool *pool, const struct gemm *gemms, uint32_t n_gemms)
{
    (void)pool;
    for (uint32_t g = 0; g < n_gemms; g++) {
        assert(!gemms[g].w_is_packed && gemms[g].x_dtype == DTYPE_F32);
        assert(gemms[g].y_dtype == DTYPE_F32);
        for (uint32_t token = 0; token < gemms[g].n_tokens; token++)
            gemm_row(&gemms[g], token);
    }
}
