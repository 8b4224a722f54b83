/*
 * products_fours - y = x W^T of BF16 by products of four warps (wgmma m64nNk16), for sm_90 alone.
 *
 * Sums are made in the order of products_mma.cuh, which the hardware gives the same bits: outputs to the left, the inner dimension
 * in steps of 16 from its start, elements behind n_in as 0. Rows of x and w begin at multiples of 16 bytes and hold whole 16 bytes.
 *
 * Grid: x tiles of tokens, y of outputs, z products; 128 threads for 64 outputs, and 128 of which one keeps the copy engine at a ring
 * of stages: each has a barrier that says it is full, and one that it is empty again. At the end the ring holds the sums, for
 * rows of y that are stored whole. Bound: tensor cores.
 * Oracle: kernels/reference, 1e-5 of the sum of magnitudes for the same rounded inputs.
 */
#pragma once

#include "kernels/cuda/hardware_sm90.cuh"
#include "kernels/cuda/product_store.cuh"

enum { FOURS_ROW_BYTES = 2 * PRODUCT_FOURS_K, FOURS_BAND = 8 };
static_assert(FOURS_ROW_BYTES == 128, "rows are swizzled by 128 bytes");

/* Shared memory: stages of the ring, and behind them two barriers of each. */
template <int OUTS, int TOKENS, int STAGES> struct fours_ring {
    static constexpr uint32_t WARPS = OUTS / 16; /* that multiply */
    static constexpr uint32_t THREADS = WARPS * 32 + 128;
    static constexpr uint32_t W_BYTES = OUTS * FOURS_ROW_BYTES;
    static constexpr uint32_t STAGE = W_BYTES + TOKENS * FOURS_ROW_BYTES;
    static constexpr uint32_t FULL = STAGES * STAGE, EMPTY = FULL + STAGES * 8;
    static_assert(TOKENS * (OUTS + 4) * 4 <= FULL, "sums fit in the stages");
};

/* The first output and token of this CTA: in bands of so many tiles of tokens, lest x be read anew for each tile of outputs. */
DEVICE void fours_place(uint32_t &out, uint32_t &token)
{
    const uint32_t number = blockIdx.y * gridDim.x + blockIdx.x, band = FOURS_BAND * gridDim.y;
    const uint32_t first = number / band * FOURS_BAND, in_band = number % band;
    const uint32_t width = min(gridDim.x - first, (uint32_t)FOURS_BAND);
    token = first + in_band % width;
    out = in_band / width;
}

/* y of a tile, from [TOKENS][OUTS + 4] sums: a thread has four outputs of every (THREADS / (OUTS / 4))th token. */
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

/* One thread: every step of the inner dimension to its stage, when those who multiply have done with what is there. */
template <int OUTS, int TOKENS, int STAGES>
DEVICE void fours_load(const struct products_fours_parameters &parameters, uint32_t base,
                       uint32_t out, uint32_t token, uint32_t n_steps)
{
    using ring = fours_ring<OUTS, TOKENS, STAGES>;
    for (uint32_t step = 0; step < n_steps; step++) {
        const uint32_t stage = base + step % STAGES * ring::STAGE;
        const uint32_t full = base + ring::FULL + step % STAGES * 8;
        const int32_t of_w[4] = {(int32_t)(step * PRODUCT_FOURS_K), (int32_t)out, 0, 0};
        const int32_t of_x[4] = {(int32_t)(step * PRODUCT_FOURS_K), (int32_t)token, 0, 0};
        mbarrier_wait(base + ring::EMPTY + step % STAGES * 8, (step / STAGES & 1) ^ 1);
        mbarrier_expect(full, ring::STAGE);
        tensor_load(stage, &parameters.w[blockIdx.z], full, of_w);
        tensor_load(stage + ring::W_BYTES, &parameters.x[blockIdx.z], full, of_x);
    }
}

/* Four warps: 64 outputs, those of `four`; one step is under way while the next is waited for. */
template <int OUTS, int TOKENS, int STAGES>
DEVICE void fours_multiply(float (&sums)[TOKENS / 2], uint32_t base, uint32_t four,
                           uint32_t n_steps)
{
    using ring = fours_ring<OUTS, TOKENS, STAGES>;
    for (uint32_t step = 0; step < n_steps; step++) {
        const uint32_t stage = base + step % STAGES * ring::STAGE;
        const uint32_t of_w = stage + four * (64 * FOURS_ROW_BYTES), of_x = stage + ring::W_BYTES;
        mbarrier_wait(base + ring::FULL + step % STAGES * 8, step / STAGES & 1);
        wgmma_begin();
        UNROLL
        for (uint32_t k = 0; k < PRODUCT_FOURS_K / 16; k++)
            wgmma_shared(sums, wgmma_operand(of_w + k * 32, 16, 1024),
                         wgmma_operand(of_x + k * 32, 16, 1024), true);
        wgmma_commit();
        wgmma_wait<1>();
        if (step > 0 && threadIdx.x % WARP == 0) /* the step before has ended for this warp */
            mbarrier_arrive(base + ring::EMPTY + (step - 1) % STAGES * 8);
    }
    wgmma_wait<0>();
    wgmma_keep(sums);
}

/* OUTS x TOKENS of y: four warps of which one thread loads, behind OUTS / 64 times four that multiply. */
template <int OUTS, int TOKENS, int STAGES>
DEVICE void product_fours(const struct products_fours_parameters &parameters)
{
    using ring = fours_ring<OUTS, TOKENS, STAGES>;
    SHARED_MEMORY(shared);
    const struct product &p = parameters.products[blockIdx.z];
    const uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const uint32_t n_steps = (p.n_in + PRODUCT_FOURS_K - 1) / PRODUCT_FOURS_K;
    const uint32_t base = shared_address(shared);
    uint32_t out, token;
    fours_place(out, token);
    out *= OUTS, token *= TOKENS;
    if (out >= p.n_out || token >= p.n_tokens)
        return;
    if (threadIdx.x == 0) {
        for (uint32_t i = 0; i < STAGES; i++) {
            mbarrier_init(base + ring::FULL + i * 8, 1);
            mbarrier_init(base + ring::EMPTY + i * 8, ring::WARPS);
        }
        mbarrier_publish();
    }
    cta_sync();
    if (warp >= ring::WARPS) {
        if (threadIdx.x == ring::WARPS * WARP)
            fours_load<OUTS, TOKENS, STAGES>(parameters, base, out, token, n_steps);
        cta_sync();
    } else {
        float sums[TOKENS / 2];
        UNROLL
        for (int i = 0; i < TOKENS / 2; i++)
            sums[i] = 0;
        fours_multiply<OUTS, TOKENS, STAGES>(sums, base, warp / 4, n_steps);
        cta_sync(); /* nobody multiplies any more */
        UNROLL
        for (uint32_t i = 0; i < TOKENS / 2; i++)
            store_shared(base + ((i / 4 * 8 + lane % 4 * 2 + i % 2) * (OUTS + 4) + warp * 16 +
                                 lane / 4 + i / 2 % 2 * 8) *
                                    4,
                         float_bits(sums[i]));
    }
    cta_sync();
    fours_store<OUTS, TOKENS, ring::THREADS>(p, shared, out, token);
}

template <int OUTS, int TOKENS, int STAGES>
DEVICE void product_fours_body(const struct products_fours_parameters &parameters)
{
    if constexpr (IS_SM90)
        product_fours<OUTS, TOKENS, STAGES>(parameters);
}
