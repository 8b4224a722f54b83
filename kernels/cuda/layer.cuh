/*
 * layer - the operators of a decoder layer around attention and products.
 *
 *     add, embedding, gated, rotary   independent elements; a thread for each, or for four of a chunk
 *     rms_norm, layer_norm            a CTA a row; a thread sums elements tid, tid + 256, ...
 *     kv_update                       layer_update.cuh
 *
 * Bound: memory. Oracle: kernels/reference, float32 against float64: 1e-5 of the largest of a row.
 */
#pragma once

#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/layer_parameters.h"
#include "kernels/cuda/layer_update.cuh"

DEVICE void add_body(const struct add_parameters &p)
{
    const uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < p.n)
        p.y[i] += p.x[i];
}

DEVICE void embedding_body(const struct embedding_parameters &p)
{
    const uint64_t row = blockIdx.x / p.n_chunks;
    const uint64_t first = (uint64_t)p.ids[row] * p.n;
    const uint32_t begin = blockIdx.x % p.n_chunks * LAYER_CHUNK;
    const uint32_t end = min(p.n, begin + LAYER_CHUNK);
    for (uint32_t i = begin + threadIdx.x; i < end; i += blockDim.x)
        store_element(p.y_dtype, p.y, row * p.y_stride + i,
                      load_element(p.dtype, p.table, first + i));
}

/* ---- norms ---- */

/* y = (x - mean) * factor * (w + offset) + bias. A thread writes only elements that no other thread reads: y may be x. */
DEVICE void norm_row(const struct norm_parameters &p, float mean, float factor)
{
    const uint64_t x = blockIdx.x * p.x_stride, y = blockIdx.x * p.y_stride;
    for (uint32_t i = threadIdx.x; i < p.n; i += blockDim.x) {
        float v = (load_element(p.x_dtype, p.x, x + i) - mean) * factor;
        if (p.w)
            v *= load_element(p.w_dtype, p.w, i) + p.offset;
        if (p.bias)
            v += load_element(p.bias_dtype, p.bias, i);
        store_element(p.y_dtype, p.y, y + i, v);
    }
}

DEVICE float norm_factor(const struct norm_parameters &p, float mean, float *shared)
{
    const uint64_t x = blockIdx.x * p.x_stride;
    float squares = 0;
    for (uint32_t i = threadIdx.x; i < p.n; i += blockDim.x) {
        const float v = load_element(p.x_dtype, p.x, x + i) - mean;
        squares = multiply_add(v, v, squares);
    }
    return 1 / sqrtf(cta_sum(squares, shared) / (float)p.n + p.eps);
}

DEVICE void rms_norm_body(const struct norm_parameters &p)
{
    SHARED_MEMORY(shared);
    norm_row(p, 0, norm_factor(p, 0, (float *)shared));
}

DEVICE void layer_norm_body(const struct norm_parameters &p)
{
    SHARED_MEMORY(shared);
    const uint64_t x = blockIdx.x * p.x_stride;
    float sum = 0;
    for (uint32_t i = threadIdx.x; i < p.n; i += blockDim.x)
        sum += load_element(p.x_dtype, p.x, x + i);
    const float mean = cta_sum(sum, (float *)shared) / (float)p.n;
    norm_row(p, mean, norm_factor(p, mean, (float *)shared));
}

/* ---- activations; the numbers are those of enum activation: cuda.c checks it ---- */

enum { IS_SILU, IS_GELU, IS_GELU_TANH, IS_RELU };

DEVICE float activate(uint32_t activation, float x, float alpha)
{
    switch (activation) {
    case IS_SILU:
        return x / (1 + expf(-alpha * x));
    case IS_GELU: /* 1 + erf(x) = erfc(-x), which does not cancel */
        return 0.5f * x * erfcf(x * -0.70710678f);
    case IS_GELU_TANH: /* 1 + tanh(u) = 2 / (1 + exp(-2 u)), which does not cancel */
        return x / (1 + expf(-1.5957691f * (x + 0.044715f * x * x * x)));
    default:
        return x < 0 ? 0 : x;
    }
}

DEVICE float clamp(float x, float low, float high)
{
    return x < low ? low : x > high ? high : x; /* NaN stays NaN */
}

DEVICE void gated_body(const struct gated_parameters &p)
{
    const uint64_t row = blockIdx.x / p.n_chunks;
    const uint32_t begin = blockIdx.x % p.n_chunks * LAYER_CHUNK;
    const uint32_t end = min(p.n, begin + LAYER_CHUNK);
    for (uint32_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
        const float gate = load_element(p.dtype, p.gate, row * p.gate_stride + i);
        float y = activate(p.activation, clamp(gate, -INFINITY, p.limit), p.alpha);
        if (p.up)
            y *= clamp(load_element(p.dtype, p.up, row * p.up_stride + i), -p.limit, p.limit) +
                 p.beta;
        store_element(p.dtype, p.y, row * p.y_stride + i, y);
    }
}

/* ---- rotary ---- */

DEVICE void rotary_body(const struct rotary_parameters &p)
{
    const uint64_t at = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= p.n_slots)
        return;
    const uint32_t slot = (uint32_t)(at % (p.head_dim / 2));
    const uint64_t head = at / (p.head_dim / 2);
    const uint64_t token = head / p.n_heads;
    const uint64_t x = token * p.x_token_stride + head % p.n_heads * p.x_head_stride;
    const uint64_t y = token * p.y_token_stride + head % p.n_heads * p.y_head_stride;
    const struct pair pair = pair_of_slot(slot, p.rotary_dim, p.is_interleaved);
    float low = load_element(p.dtype, p.x, x + pair.low);
    float high = load_element(p.dtype, p.x, x + pair.high);
    if (slot < p.rotary_dim / 2) {
        const uint64_t position = p.positions ? p.positions[token] : p.start + token;
        const uint64_t angle = position * (p.rotary_dim / 2) + slot;
        turn_pair(p.cos[angle], p.sin[angle], low, high);
    }
    store_element(p.dtype, p.y, y + pair.low, low);
    store_element(p.dtype, p.y, y + pair.high, high);
}
