/*
 * products_mma - computes y = x W^T on tensor cores (mma.sync m16n8k16), for 16-bit activations.
 *
 *     W_BF16         BF16 weights, BF16 x
 *     W_F16          F16 weights, F16 x
 *     W_F16_SPLIT    F16 weights, BF16 x: a weight is the sum of two BF16, exactly except for the last bits of subnormal
 *                    weights; two products
 *     W_INT8_ROWS    INT8 weights, BF16 x: exact as BF16; the scale of a row is applied at the end
 *     W_INT8_GROUPS  the same with a scale for 32 elements: a group is summed alone, then its scale is applied
 *
 * Weights are always the left operand (16 outputs), tokens the right one (8), and the inner dimension is added in steps
 * of 16 from its start. So the bits of a row are the same with any tile and any number of tokens. Elements after n_in
 * count as 0. Rows of x and w begin at multiples of 16 bytes and have a multiple of 16 bytes.
 *
 * Grid: x tiles of tokens, y of outputs, z products. A ring of cp.async in shared memory:
 * product_rows.cuh. Bound: tensor cores (wide), memory (slim).
 * Oracle: kernels/reference, 1e-5 of the sum of magnitudes for the same rounded inputs.
 */
#pragma once

#include "kernels/cuda/product_rows.cuh"
#include "kernels/cuda/product_store.cuh"

enum { W_BF16, W_F16, W_F16_SPLIT, W_INT8_ROWS, W_INT8_GROUPS };

/* Splits two neighbours of F16 into BF16 and the rest. */
DEVICE void split_f16(uint32_t pair, uint32_t &high, uint32_t &low)
{
    const float a = f16_to_float((uint16_t)pair), b = f16_to_float((uint16_t)(pair >> 16));
    high = pack_bf16(a, b);
    low = pack_bf16(a - bf16_to_float((uint16_t)high), b - bf16_to_float((uint16_t)(high >> 16)));
}

/* Loads elements k, k + 1 of a row of INT8, k even. With its sign bit inverted a byte is 128 more; with 0x4b0000 before it, it is
 * the last byte of the float 2^23 + byte. */
template <int BYTES> DEVICE uint32_t load_int8_pair(const uint8_t *stage, uint32_t row, uint32_t k)
{
    const uint8_t *four = stage + swizzled<BYTES>(row, k / 16) + k % 16 / 4 * 4;
    const uint32_t bytes = *(const uint32_t *)four ^ 0x80808080u;
    const uint32_t first = 0x7440 + k % 4;
    const float lo = bits_float(byte_permute(bytes, 0x4b000000, first)) - 0x1.0001p23f;
    const float hi = bits_float(byte_permute(bytes, 0x4b000000, first + 1)) - 0x1.0001p23f;
    return byte_permute(float_bits(lo), float_bits(hi), 0x7632); /* exact as BF16 */
}

/* Loads 16 outputs from row on, 16 elements from k on. */
template <int BYTES, int WEIGHTS>
DEVICE void load_weights(uint32_t (&a)[4], const uint8_t *stage, uint32_t row, uint32_t k)
{
    const uint32_t lane = threadIdx.x % WARP;
    if (WEIGHTS == W_INT8_ROWS || WEIGHTS == W_INT8_GROUPS) {
        UNROLL
        for (uint32_t i = 0; i < 4; i++)
            a[i] = load_int8_pair<BYTES>(stage, row + lane / 4 + i % 2 * 8,
                                         k + lane % 4 * 2 + i / 2 * 8);
        return;
    }
    ldmatrix_x4(a, shared_address(stage) + swizzled<BYTES>(row + lane % 16, k / 8 + lane / 16));
}

/* Loads 16 tokens from row on: b[0], b[1] of the first 8, b[2], b[3] of the others. */
template <int BYTES>
DEVICE void load_tokens(uint32_t (&b)[4], const uint8_t *stage, uint32_t row, uint32_t k)
{
    const uint32_t lane = threadIdx.x % WARP;
    ldmatrix_x4(b, shared_address(stage) +
                       swizzled<BYTES>(row + lane / 16 * 8 + lane % 8, k / 8 + lane / 8 % 2));
}

template <int WEIGHTS>
DEVICE void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    if (WEIGHTS == W_F16) {
        mma_f16(c, a, b0, b1);
    } else if (WEIGHTS == W_F16_SPLIT) {
        uint32_t high[4], low[4];
        UNROLL
        for (uint32_t i = 0; i < 4; i++)
            split_f16(a[i], high[i], low[i]);
        mma_bf16(c, high, b0, b1);
        mma_bf16(c, low, b0, b1);
    } else {
        mma_bf16(c, a, b0, b1);
    }
}

/* The sums of one warp: 16 M outputs x 16 N tokens. */
template <int M, int N> struct warp_sums {
    float c[M][2 * N][4];
};

template <int M, int N> DEVICE void sums_clear(struct warp_sums<M, N> &sums)
{
    UNROLL
    for (int m = 0; m < M; m++)
        UNROLL for (int n = 0; n < 2 * N; n++) UNROLL for (int i = 0; i < 4; i++)
            sums.c[m][n][i] = 0;
}

/* Adds the products of elements `from` to `to` of a stage. */
template <int M, int N, int K, int W_BYTES, int WEIGHTS>
DEVICE void multiply_stage(struct warp_sums<M, N> &sums, const uint8_t *w, uint32_t w_row,
                           const uint8_t *x, uint32_t x_row, int from, int to)
{
    UNROLL
    for (int k = from; k < to; k += 16) {
        uint32_t b[N][4];
        UNROLL
        for (int n = 0; n < N; n++)
            load_tokens<2 * K>(b[n], x, x_row + n * 16, k);
        UNROLL
        for (int m = 0; m < M; m++) {
            uint32_t a[4];
            load_weights<W_BYTES, WEIGHTS>(a, w, w_row + m * 16, k);
            UNROLL
            for (int n = 0; n < 2 * N; n++)
                multiply<WEIGHTS>(sums.c[m][n], a, b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]);
        }
    }
}

/* The scale of output `out`, for a group of 32 elements or its row; 0 for outputs that do not exist. */
DEVICE float output_scale(const struct product &p, uint32_t out, uint32_t group)
{
    const uint32_t groups = p.w_scale_columns == 32 ? p.n_in / 32 : 1;
    if (out >= p.n_out || group >= groups)
        return 0;
    return load_element(DTYPE_F32, p.w_scales, (uint64_t)out * groups + group);
}

/* sums += scale * part, with the scales of a group. */
template <int M, int N>
DEVICE void sums_add(const struct product &p, struct warp_sums<M, N> &sums,
                     const struct warp_sums<M, N> &part, uint32_t out, uint32_t group)
{
    UNROLL
    for (int m = 0; m < M; m++) {
        const float scales[2] = {output_scale(p, out + m * 16, group),
                                 output_scale(p, out + m * 16 + 8, group)};
        UNROLL
        for (int n = 0; n < 2 * N; n++)
            UNROLL for (int i = 0; i < 4; i++)
                sums.c[m][n][i] = multiply_add(scales[i / 2], part.c[m][n][i], sums.c[m][n][i]);
    }
}

/* Stores the sums. out, token: those of the first sum of this lane. */
template <int M, int N, int WEIGHTS>
DEVICE void sums_store(const struct product &p, const struct warp_sums<M, N> &sums, uint32_t out,
                       uint32_t token)
{
    UNROLL
    for (int j = 0; j < 2 * M; j++) {
        const uint32_t o = out + j * 8;
        const float scale = WEIGHTS == W_INT8_ROWS ? output_scale(p, o, 0) : 1;
        const float bias = p.bias && o < p.n_out ? load_element(p.bias_dtype, p.bias, o) : 0;
        UNROLL
        for (int n = 0; n < 4 * N; n++)
            product_store(p, token + n / 2 * 8 + n % 2, o,
                          scale * sums.c[j / 2][n / 2][j % 2 * 2 + n % 2], bias);
    }
}

/* Computes OUTS x TOKENS of y with WARPS_OUT x WARPS_TOKENS of THREADS / 32 warps; the other warps only load. A stage has K elements
 * of the inner dimension. */
template <int OUTS, int TOKENS, int K, int STAGES, int THREADS, int WARPS_OUT, int WARPS_TOKENS,
          int WEIGHTS>
DEVICE void product_body(const struct products_parameters &parameters)
{
    constexpr bool IS_INT8 = WEIGHTS == W_INT8_ROWS || WEIGHTS == W_INT8_GROUPS;
    constexpr int M = OUTS / WARPS_OUT / 16, N = TOKENS / WARPS_TOKENS / 16;
    constexpr int ELEMENT = IS_INT8 ? 1 : 2, W_BYTES = ELEMENT * K, X_BYTES = 2 * K;
    constexpr int STAGE = OUTS * W_BYTES + TOKENS * X_BYTES;
    SHARED_MEMORY(ring);
    const struct product &p = parameters.products[blockIdx.z];
    const uint32_t first_out = blockIdx.y * OUTS, first_token = blockIdx.x * TOKENS;
    const uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const uint32_t w_row = warp % WARPS_OUT * (M * 16), x_row = warp / WARPS_OUT * (N * 16);
    const uint32_t n_steps = (p.n_in + K - 1) / K, base = shared_address(ring);
    const bool multiplies = warp < WARPS_OUT * WARPS_TOKENS;
    if (first_out >= p.n_out || first_token >= p.n_tokens)
        return;
    const uint64_t w_stride = (uint64_t)p.n_in * ELEMENT;
    struct product_rows<OUTS, W_BYTES, THREADS> w_rows;
    struct product_rows<TOKENS, X_BYTES, THREADS> x_rows;
    product_rows_begin(w_rows, (const uint8_t *)p.w + first_out * w_stride, w_stride,
                       p.n_out - first_out, p.n_in * ELEMENT);
    product_rows_begin(x_rows, (const uint16_t *)p.x + first_token * p.x_stride, p.x_stride * 2,
                       p.n_tokens - first_token, p.n_in * 2);
    struct warp_sums<M, N> sums;
    sums_clear(sums);
    for (uint32_t step = 0; step < STAGES - 1; step++) {
        if (step < n_steps) {
            product_rows_load(w_rows, base + step * STAGE, step);
            product_rows_load(x_rows, base + step * STAGE + OUTS * W_BYTES, step);
        }
        cp_async_commit();
    }
    for (uint32_t step = 0; step < n_steps; step++) {
        const uint32_t ahead = step + STAGES - 1;
        cp_async_wait<STAGES - 2>();
        cta_sync(); /* all have what this step needs, and have finished the step before */
        if (ahead < n_steps) {
            const uint32_t target = base + ahead % STAGES * STAGE;
            product_rows_load(w_rows, target, ahead);
            product_rows_load(x_rows, target + OUTS * W_BYTES, ahead);
        }
        cp_async_commit();
        if (!multiplies)
            continue;
        const uint8_t *w = ring + step % STAGES * STAGE, *x = w + OUTS * W_BYTES;
        if constexpr (WEIGHTS == W_INT8_GROUPS) {
            UNROLL
            for (int k = 0; k < K; k += 32) {
                struct warp_sums<M, N> part;
                sums_clear(part);
                multiply_stage<M, N, K, W_BYTES, WEIGHTS>(part, w, w_row, x, x_row, k, k + 32);
                sums_add(p, sums, part, first_out + w_row + lane / 4, (step * K + k) / 32);
            }
        } else {
            multiply_stage<M, N, K, W_BYTES, WEIGHTS>(sums, w, w_row, x, x_row, 0, K);
        }
    }
    cp_async_wait<0>();
    if (multiplies)
        sums_store<M, N, WEIGHTS>(p, sums, first_out + w_row + lane / 4,
                                  first_token + x_row + lane % 4 * 2);
}
