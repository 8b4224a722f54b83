/*
 * hardware_host - the host's bodies of kernels/cuda/hardware.cuh, in its order. They are compiled as the unit that
 * includes them is, so that its accesses to memory are seen; what they call in namespace simt is not looked at.
 */
#pragma once

#include "harness/atomics.h"
#include "harness/checks.h"
#include "harness/formats.h"
#include "harness/threads.h"
#include "harness/warp_ops.h"

#include <algorithm>

using std::max;
using std::min;

#define DEVICE              static inline __attribute__((always_inline))
#define SHARED_MEMORY(name) uint8_t *name = simt::shared_memory()
#define UNROLL
#define __restrict__

/* ---- threads ---- */

DEVICE void cta_sync()
{
    simt::barrier_sync(0, 0, "cta_sync");
}
template <uint32_t ID, uint32_t N_THREADS> DEVICE void barrier_sync()
{
    simt::barrier_sync(ID, N_THREADS, "barrier_sync");
}
template <uint32_t ID, uint32_t N_THREADS> DEVICE void barrier_arrive()
{
    simt::barrier_arrive(ID, N_THREADS);
}
DEVICE void warp_sync(uint32_t mask = ALL_LANES)
{
    simt::warp_sync(mask);
}

/* ---- shared memory ---- */

DEVICE uint32_t shared_address(const void *p)
{
    return (uint32_t)((const uint8_t *)p - simt::shared_memory());
}
DEVICE uint32_t load_shared(uint32_t address)
{
    return *(const volatile uint32_t *)simt::shared_pointer(address, 4);
}
DEVICE void store_shared(uint32_t address, uint32_t v)
{
    *(volatile uint32_t *)simt::shared_pointer(address, 4) = v;
}
DEVICE void load_shared16(uint32_t (&r)[4], uint32_t address)
{
    memcpy(r, simt::shared_pointer(address, 16), 16);
}
DEVICE void store_shared16(uint32_t address, const uint32_t (&r)[4])
{
    memcpy(simt::shared_pointer(address, 16), r, 16);
}
/* The row that a lane's address names is read in its own name; then the lanes meet. */
DEVICE void simt_load_matrices(uint32_t *r, uint32_t address, unsigned n_matrices, bool transposed)
{
    uint16_t row[8];
    if (threadIdx.x % 32 < 8 * n_matrices)
        memcpy(row, simt::shared_pointer(address, 16), 16);
    simt::load_matrices(r, row, address, n_matrices, transposed);
}
DEVICE void ldmatrix_x4(uint32_t (&r)[4], uint32_t a)
{
    simt_load_matrices(r, a, 4, false);
}
DEVICE void ldmatrix_x4_trans(uint32_t (&r)[4], uint32_t a)
{
    simt_load_matrices(r, a, 4, true);
}
DEVICE void ldmatrix_x2(uint32_t (&r)[2], uint32_t a)
{
    simt_load_matrices(r, a, 2, false);
}
DEVICE void ldmatrix_x2_trans(uint32_t (&r)[2], uint32_t a)
{
    simt_load_matrices(r, a, 2, true);
}
DEVICE void simt_copy(const simt::copy &copy)
{
    uint64_t words[2] = {0, 0};
    if (copy.source)
        memcpy(words, copy.source, sizeof words);
    memcpy(copy.target, words, sizeof words);
}
/* Made when it is asked for, or when it is waited for; until then its target is poison. */
DEVICE void cp_async16(uint32_t dst, const void *src, bool ok)
{
    const simt::copy copy = {simt::shared_pointer(dst, 16), ok ? (const uint8_t *)src : nullptr};
    if (ok)
        simt::check_aligned(src, 16, "an asynchronous copy");
    if (simt::are_copies_late()) {
        simt::copy_begin(copy);
        memset(copy.target, 0xff, 16);
    } else {
        simt_copy(copy);
    }
}
DEVICE void cp_async_commit()
{
    simt::copy_commit();
}
template <int N> DEVICE void cp_async_wait()
{
    simt::copy copy;
    while (simt::copy_take(N, &copy))
        simt_copy(copy);
}

/* ---- matrices ---- */

DEVICE uint32_t movmatrix(uint32_t a)
{
    return simt::transpose_matrix(a);
}
DEVICE void mma_bf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    const uint32_t b[2] = {b0, b1};
    simt::multiply(simt::PRODUCT_BF16, c, a, b);
}
DEVICE void mma_f16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    const uint32_t b[2] = {b0, b1};
    simt::multiply(simt::PRODUCT_F16, c, a, b);
}
DEVICE void mma_int8(int32_t (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    const uint32_t b[2] = {b0, b1};
    simt::multiply_int8(c, a, b);
}

/* ---- numbers ---- */

DEVICE uint32_t float_bits(float v)
{
    return simt::bits_of(v);
}
DEVICE float bits_float(uint32_t v)
{
    return simt::float_of(v);
}
DEVICE float bf16_to_float(uint16_t v)
{
    return simt::bf16_value(v);
}
DEVICE uint16_t float_to_bf16(float v)
{
    return simt::bf16_bits(v);
}
DEVICE uint32_t pack_bf16(float lo, float hi)
{
    return simt::bf16_bits(lo) | (uint32_t)simt::bf16_bits(hi) << 16;
}
DEVICE float f16_to_float(uint16_t v)
{
    return simt::f16_value(v);
}
DEVICE uint16_t float_to_f16(float v)
{
    return simt::f16_bits(v);
}
DEVICE uint32_t pack_f16(float lo, float hi)
{
    return simt::f16_bits(lo) | (uint32_t)simt::f16_bits(hi) << 16;
}
DEVICE float e4m3_to_float(uint8_t v)
{
    return simt::e4m3_value(v);
}
DEVICE uint32_t e4m3x2_to_f16x2(uint32_t v)
{
    return pack_f16(simt::e4m3_value((uint8_t)v), simt::e4m3_value((uint8_t)(v >> 8)));
}
DEVICE int32_t float_to_int(float v)
{
    if (!(v == v))
        return 0;
    return v >= 0x1p31f ? INT32_MAX : v <= -0x1p31f ? INT32_MIN : (int32_t)rintf(v);
}
DEVICE float exp2_fast(float x)
{
    return simt::flushed(exp2f(x));
}
DEVICE float log2_fast(float x)
{
    return log2f(simt::flushed(x));
}
DEVICE float reciprocal(float x)
{
    return 1.f / x;
}
DEVICE float square_root(float x)
{
    return sqrtf(x);
}
DEVICE uint32_t shared_add(uint32_t *word, uint32_t v)
{
    return simt::atomic_add(word, v);
}
DEVICE float multiply_add(float a, float b, float c)
{
    return a * b + c;
}
DEVICE uint32_t multiply_add_bf16x2(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t result = 0;
    for (unsigned i = 0; i < 32; i += 16)
        result |= (uint32_t)simt::bf16_bits(simt::odd_multiply_add(
                      simt::bf16_value((uint16_t)(a >> i)), simt::bf16_value((uint16_t)(b >> i)),
                      simt::bf16_value((uint16_t)(c >> i))))
                  << i;
    return result;
}
DEVICE uint32_t multiply_add_f16x2(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t result = 0;
    for (unsigned i = 0; i < 32; i += 16)
        result |= (uint32_t)simt::f16_bits(simt::odd_multiply_add(
                      simt::f16_value((uint16_t)(a >> i)), simt::f16_value((uint16_t)(b >> i)),
                      simt::f16_value((uint16_t)(c >> i))))
                  << i;
    return result;
}
DEVICE uint32_t byte_permute(uint32_t a, uint32_t b, uint32_t s)
{
    const uint64_t bytes = a | (uint64_t)b << 32;
    uint32_t result = 0;
    for (unsigned i = 0; i < 4; i++)
        result |= (uint32_t)(bytes >> (s >> 4 * i & 7) * 8 & 0xff) << 8 * i;
    return result;
}

/* ---- lanes of a warp ---- */

DEVICE uint32_t shuffle(uint32_t v, uint32_t lane, uint32_t mask = ALL_LANES)
{
    return simt::exchange("shuffle", v, lane % 32, mask);
}
DEVICE float shuffle(float v, uint32_t lane, uint32_t mask = ALL_LANES)
{
    return bits_float(shuffle(float_bits(v), lane, mask));
}
DEVICE uint32_t shuffle_xor(uint32_t v, int m, uint32_t mask = ALL_LANES)
{
    return simt::exchange("shuffle_xor", v, (threadIdx.x % 32) ^ (unsigned)m, mask);
}
DEVICE float shuffle_xor(float v, int m, uint32_t mask = ALL_LANES)
{
    return bits_float(shuffle_xor(float_bits(v), m, mask));
}
DEVICE uint32_t shuffle_down(uint32_t v, uint32_t n, uint32_t mask = ALL_LANES)
{
    const uint32_t lane = threadIdx.x % 32;
    return simt::exchange("shuffle_down", v, lane + n < 32 ? lane + n : lane, mask);
}
DEVICE float shuffle_down(float v, uint32_t n, uint32_t mask = ALL_LANES)
{
    return bits_float(shuffle_down(float_bits(v), n, mask));
}
DEVICE uint32_t vote_ballot(bool v, uint32_t mask = ALL_LANES)
{
    return simt::ballot("vote_ballot", v, mask);
}
DEVICE bool vote_any(bool v, uint32_t mask = ALL_LANES)
{
    return simt::ballot("vote_any", v, mask) != 0;
}
DEVICE bool vote_all(bool v, uint32_t mask = ALL_LANES)
{
    return simt::ballot("vote_all", !v, mask) == 0;
}
DEVICE uint32_t reduce_add(uint32_t v, uint32_t mask = ALL_LANES)
{
    return simt::reduce(simt::REDUCE_ADD, v, mask);
}
DEVICE uint32_t reduce_min(uint32_t v, uint32_t mask = ALL_LANES)
{
    return simt::reduce(simt::REDUCE_MIN, v, mask);
}
DEVICE uint32_t reduce_max(uint32_t v, uint32_t mask = ALL_LANES)
{
    return simt::reduce(simt::REDUCE_MAX, v, mask);
}
DEVICE int32_t reduce_min(int32_t v, uint32_t mask = ALL_LANES)
{
    return (int32_t)simt::reduce(simt::REDUCE_MIN_SIGNED, (uint32_t)v, mask);
}
DEVICE int32_t reduce_max(int32_t v, uint32_t mask = ALL_LANES)
{
    return (int32_t)simt::reduce(simt::REDUCE_MAX_SIGNED, (uint32_t)v, mask);
}

/* ---- global memory ---- */

DEVICE void store_word(void *p, uint32_t v)
{
    *(uint32_t *)p = v;
}
DEVICE void load_vector8(uint32_t (&r)[2], const void *p)
{
    simt::check_aligned(p, 8, "a load");
    memcpy(r, p, 8);
}
DEVICE void load_vector16(uint32_t (&r)[4], const void *p)
{
    simt::check_aligned(p, 16, "a load");
    memcpy(r, p, 16);
}
DEVICE void store_vector8(void *p, const uint32_t (&r)[2])
{
    simt::check_aligned(p, 8, "a store");
    memcpy(p, r, 8);
}
DEVICE void store_vector16(void *p, const uint32_t (&r)[4])
{
    simt::check_aligned(p, 16, "a store");
    memcpy(p, r, 16);
}
DEVICE void fence_device()
{
    simt::fence();
}
DEVICE uint32_t load_acquire(const uint32_t *p)
{
    return simt::load_acquire(p);
}
DEVICE void store_release(uint32_t *p, uint32_t v)
{
    simt::store_release(p, v);
}
DEVICE uint32_t atomic_add(uint32_t *p, uint32_t v)
{
    return simt::atomic_add(p, v);
}
DEVICE uint64_t atomic_add(uint64_t *p, uint64_t v)
{
    return simt::atomic_add(p, v);
}
DEVICE uint32_t atomic_max(uint32_t *p, uint32_t v)
{
    return simt::atomic_max(p, v);
}
DEVICE int32_t atomic_max(int32_t *p, int32_t v)
{
    return simt::atomic_max(p, v);
}
DEVICE uint32_t atomic_exchange(uint32_t *p, uint32_t v)
{
    return simt::atomic_exchange(p, v);
}
DEVICE uint32_t atomic_compare(uint32_t *p, uint32_t expected, uint32_t v)
{
    return simt::atomic_compare(p, expected, v);
}
DEVICE uint64_t atomic_compare(uint64_t *p, uint64_t expected, uint64_t v)
{
    return simt::atomic_compare(p, expected, v);
}
