/*
 * products_fours - computes y = x W^T in BF16 with products of four warps (wgmma m64nNk16), for sm_90 only.
 *
 * The order of sums is that of products_mma.cuh, and the hardware gives the same bits: outputs are the left operand, the inner
 * dimension is added in steps of 16 from its start, elements after n_in count as 0. Rows of x and w begin at multiples of 16 bytes
 * and have a multiple of 16 bytes.
 *
 * Grid: x tiles of tokens, y of outputs, z products; 128 threads for 64 outputs. cp.async fills a ring: while a step is multiplied,
 * the step before ends, so that a stage is free two steps later. At the end the ring holds the sums, so that rows of y are stored
 * as a whole. Bound: tensor cores.
 * Oracle: kernels/reference, 1e-5 of the sum of magnitudes for the same rounded inputs.
 */
#pragma once

#include "kernels/cuda/hardware_sm90.cuh"
#include "kernels/cuda/product_rows.cuh"
#include "kernels/cuda/product_store.cuh"

enum { FOURS_ROW_BYTES = 2 * PRODUCT_FOURS_K, FOURS_BAND = 8 };
static_assert(FOURS_ROW_BYTES == 128, "rows are swizzled by 128 bytes");

/* The first output and token of this CTA. CTAs go in bands of tiles of tokens: so x is not read again for each tile of outputs. */
DEVICE void fours_place(uint32_t &out, uint32_t &token)
{
    const uint32_t number = blockIdx.y * gridDim.x + blockIdx.x, band = FOURS_BAND * gridDim.y;
    const uint32_t first = number / band * FOURS_BAND, in_band = number % band;
    const uint32_t width = min(gridDim.x - first, (uint32_t)FOURS_BAND);
    token = first + in_band % width;
    out = in_band / width;
}

/* Stores y of a tile from [TOKENS][OUTS + 4] sums: a thread has four outputs of every (THREADS / (OUTS / 4))th token. */
template <int OUTS, int TOKENS, int THREADS>
DEVICE void fours_store(const struct product &p, const uint8_t *staged, uint32_t out,
                        uint32_t token)
{
    constexpr uint32_t LANES = OUTS / 4, PITCH = OUTS + 4;
    const uint32_t lane = threadIdx.x % LANES, o = out + lane * 4;
    const uint32_t y_bytes = p.y_dtype == DTYPE_F32 ? 4 : 2;
    const bool is_whole = o + 4 <= p.n_out && p.y_stride % 4 == 0 &&
                          (uintptr_t)p.y % (4 * y_bytes) == 0;
    float bias[4];
    UNROLL
    for (uint32_t i = 0; i < 4; i++)
        bias[i] = p.bias && o + i < p.n_out ? load_element(p.bias_dtype, p.bias, o + i) : 0;
    for (uint32_t t = threadIdx.x / LANES; t < TOKENS && token + t < p.n_tokens;
         t += THREADS / LANES) {
        uint32_t words[4];
        load_shared16(words, shared_address(staged) + (t * PITCH + lane * 4) * 4);
        const float sums[4] = {bits_float(words[0]), bits_float(words[1]), bits_float(words[2]),
                               bits_float(words[3])};
        if (is_whole) {
            product_store4(p, token + t, o, sums, bias);
        } else {
            UNROLL
            for (uint32_t i = 0; i < 4; i++)
                product_store(p, token + t, o + i, sums[i], bias[i]);
        }
    }
}

/* Computes OUTS x TOKENS of y with OUTS / 64 times four warps. */
template <int OUTS, int TOKENS, int STAGES>
DEVICE void product_fours(const struct products_parameters &parameters)
{
    constexpr int THREADS = OUTS * 2, SUMS = TOKENS / 2;
    constexpr uint32_t W_BYTES = OUTS * FOURS_ROW_BYTES;
    constexpr uint32_t STAGE = W_BYTES + TOKENS * FOURS_ROW_BYTES;
    static_assert(TOKENS * (OUTS + 4) * 4 <= STAGES * (int)STAGE, "sums fit in the ring");
    SHARED_MEMORY(ring);
    const struct product &p = parameters.products[blockIdx.z];
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const uint32_t n_steps = (p.n_in + PRODUCT_FOURS_K - 1) / PRODUCT_FOURS_K;
    const uint32_t base = shared_address(ring);
    uint32_t out, token;
    fours_place(out, token);
    out *= OUTS, token *= TOKENS;
    if (out >= p.n_out || token >= p.n_tokens)
        return;
    struct product_rows<OUTS, FOURS_ROW_BYTES, THREADS> w;
    struct product_rows<TOKENS, FOURS_ROW_BYTES, THREADS> x;
    product_rows_begin(w, (const uint16_t *)p.w + (uint64_t)out * p.n_in, (uint64_t)p.n_in * 2,
                       p.n_out - out, p.n_in * 2);
    product_rows_begin(x, (const uint16_t *)p.x + token * p.x_stride, p.x_stride * 2,
                       p.n_tokens - token, p.n_in * 2);
    float sums[SUMS];
    UNROLL
    for (int i = 0; i < SUMS; i++)
        sums[i] = 0;
    for (uint32_t step = 0; step < STAGES - 2; step++) {
        if (step < n_steps) {
            product_rows_load(w, base + step * STAGE, step);
            product_rows_load(x, base + step * STAGE + W_BYTES, step);
        }
        cp_async_commit();
    }
    for (uint32_t step = 0; step < n_steps; step++) {
        cp_async_wait<STAGES - 3>();
        publish_smem_to_async();
        cta_sync(); /* all have what this step needs, and the step before the last has ended for all */
        const uint32_t stage = base + step % STAGES * STAGE;
        const uint32_t of_w = stage + warp / 4 * (64 * FOURS_ROW_BYTES), of_x = stage + W_BYTES;
        wgmma_begin();
        UNROLL
        for (uint32_t k = 0; k < PRODUCT_FOURS_K / 16; k++)
            wgmma_shared(sums, wgmma_operand(of_w + k * 32, 16, 1024),
                         wgmma_operand(of_x + k * 32, 16, 1024), true);
        wgmma_commit();
        const uint32_t ahead = step + STAGES - 2;
        if (ahead < n_steps) {
            product_rows_load(w, base + ahead % STAGES * STAGE, ahead);
            product_rows_load(x, base + ahead % STAGES * STAGE + W_BYTES, ahead);
        }
        cp_async_commit();
        wgmma_wait<1>();
    }
    wgmma_wait<0>();
    wgmma_keep(sums);
    cp_async_wait<0>();
    cta_sync(); /* all products have ended */
    UNROLL
    for (uint32_t i = 0; i < SUMS; i++)
        store_shared(base + ((i / 4 * 8 + lane % 4 * 2 + i % 2) * (OUTS + 4) + warp * 16 +
                             lane / 4 + i / 2 % 2 * 8) *
                                4,
                     float_bits(sums[i]));
    cta_sync();
    fours_store<OUTS, TOKENS, THREADS>(p, ring, out, token);
}

template <int OUTS, int TOKENS, int STAGES>
DEVICE void product_fours_body(const struct products_parameters &parameters)
{
    if constexpr (IS_SM90)
        product_fours<OUTS, TOKENS, STAGES>(parameters);
}
