/*
 * head - the steps for one head of Q, K or V before attention, in float64.
 */
#pragma once

#include "kernels/backend/kv_head.h"
#include "kernels/dtype.h"

#include <stdbool.h>
#include <stdint.h>

/* head[i] = row[first + i] */
void head_load(enum dtype dtype, const void *row, uint64_t first, uint32_t n, double *head_out);

/* head[i] += bias[i] */
void head_add(enum dtype dtype, const void *bias, uint32_t n, double *head);

/* head[i] = weights[i] * head[i] / sqrt(mean(head^2) + eps) */
void head_norm(const float *weights, uint32_t n, double eps, double *head);

/* Applies RoPE to the first n_rotary elements. cos_row, sin_row: [n_rotary / 2]. */
void head_turn(const float *cos_row, const float *sin_row, uint32_t n_rotary, bool is_interleaved,
               double *head);

/* head[i] = e4m3(head[i] / scale) * scale */
void head_round_e4m3(double scale, uint32_t n, double *head);
/* head[i] = rounded(head[i] / unit) * unit, to BF16 or to F16 within +-F16_LARGEST */
void head_round_half(enum dtype dtype, double unit, uint32_t n, double *head);

/* Does the steps of kv_head.h. Rounds to float32, then to the dtype of the cache. */
void head_update(const struct kv_head *head, void *slot_out);
