#include "kernels/reference/head.h"

#include <assert.h>
#include <math.h>

void head_load(enum dtype dtype, const void *row, uint64_t first, uint32_t n, double *head_out)
{
    for (uint32_t i = 0; i < n; i++)
        head_out[i] = (double)dtype_load(dtype, row, first + i);
}

void head_add(enum dtype dtype, const void *bias, uint32_t n, double *head)
{
    for (uint32_t i = 0; i < n; i++)
        head[i] += (double)dtype_load(dtype, bias, i);
}

void head_norm(const float *weights, uint32_t n, double eps, double *head)
{
    double squares = 0;
    for (uint32_t i = 0; i < n; i++)
        squares += head[i] * head[i];
    double factor = 1 / sqrt(squares / n + eps);
    for (uint32_t i = 0; i < n; i++)
        head[i] *= factor * (double)weights[i];
}

void head_turn(const float *cos_row, const float *sin_row, uint32_t n_rotary, bool is_interleaved,
               double *head)
{
    uint32_t half = n_rotary / 2;
    assert(n_rotary % 2 == 0 && n_rotary <= HEAD_DIM_MAX);
    for (uint32_t i = 0; i < half; i++) {
        uint32_t low_index = is_interleaved ? 2 * i : i;
        uint32_t high_index = is_interleaved ? 2 * i + 1 : i + half;
        double low = head[low_index], high = head[high_index];
        head[low_index] = low * (double)cos_row[i] - high * (double)sin_row[i];
        head[high_index] = high * (double)cos_row[i] + low * (double)sin_row[i];
    }
}

void head_round_e4m3(double scale, uint32_t n, double *head)
{
    for (uint32_t i = 0; i < n; i++)
        head[i] = (double)e4m3_to_f32(e4m3_from_f32((float)(head[i] / scale))) * scale;
}

void head_update(const struct kv_head *head, void *slot_out)
{
    double wide[HEAD_DIM_MAX] = {0};
    assert(head->n <= HEAD_DIM_MAX && head->n_rotary <= head->n);
    double scale = dtype_is_8bit(head->cache) ? (double)head->scale : 1;
    head_load(head->dtype, head->row, 0, head->n, wide);
    if (head->bias)
        head_add(head->bias_dtype, head->bias, head->n, wide);
    if (head->norm)
        head_norm(head->norm, head->n, (double)head->norm_eps, wide);
    if (head->n_rotary > 0)
        head_turn(head->cos, head->sin, head->n_rotary, head->is_interleaved, wide);
    for (uint32_t i = 0; i < head->n; i++)
        dtype_store(head->cache, slot_out, i, (float)(wide[i] / scale));
}

void head_round_half(enum dtype dtype, double unit, uint32_t n, double *head)
{
    for (uint32_t i = 0; i < n; i++) {
        float value = (float)(head[i] / unit);
        if (dtype == DTYPE_F16 && fabsf(value) > F16_LARGEST)
            value = copysignf(F16_LARGEST, value);
        head[i] = unit * (double)(dtype == DTYPE_BF16 ? bf16_to_f32(bf16_from_f32(value))
                                                      : f16_to_f32(f16_from_f32(value)));
    }
}
