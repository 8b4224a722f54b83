/*
 * hardware - the wrappers of all hardware instructions: each has a body in PTX for the device, and one for the harness of
 * tests/simt, which a host's compiler takes and which runs the threads of a CTA as fibers. No other file has asm.
 *
 * Shared memory is addressed as on the device, by 32-bit offsets (shared_address). All lanes in mask must call a collective
 * with the same mask. hardware_sm90.cuh has the instructions that only sm_90 has.
 */
#pragma once
#include <math.h>
#include <stdint.h>
#include <string.h>

#define ALL_LANES 0xffffffffu

#ifdef __CUDACC__
#define DEVICE              __device__ __forceinline__
#define SHARED_MEMORY(name) extern __shared__ __align__(1024) uint8_t name[]
#define UNROLL              _Pragma("unroll")

/* ---- threads ---- */

DEVICE void cta_sync()
{
    __syncthreads();
}
/* Barriers 1 .. 15 of N_THREADS threads in whole warps, whose lanes call together: sync waits, arrive does not. */
template <uint32_t ID, uint32_t N_THREADS> DEVICE void barrier_sync()
{
    asm volatile("barrier.sync.aligned %0, %1;" ::"n"(ID), "n"(N_THREADS) : "memory");
}
template <uint32_t ID, uint32_t N_THREADS> DEVICE void barrier_arrive()
{
    asm volatile("barrier.arrive.aligned %0, %1;" ::"n"(ID), "n"(N_THREADS) : "memory");
}
/* Orders the memory accesses of the lanes. No other collective of a warp does. */
DEVICE void warp_sync(uint32_t mask = ALL_LANES)
{
    __syncwarp(mask);
}

/* ---- shared memory ---- */

DEVICE uint32_t shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}
DEVICE uint32_t load_shared(uint32_t address)
{
    uint32_t v;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(address) : "memory");
    return v;
}
DEVICE void store_shared(uint32_t address, uint32_t v)
{
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(v) : "memory");
}
DEVICE void load_shared16(uint32_t (&r)[4], uint32_t address)
{
    asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}
DEVICE void store_shared16(uint32_t address, const uint32_t (&r)[4])
{
    asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(address), "r"(r[0]), "r"(r[1]),
                 "r"(r[2]), "r"(r[3])
                 : "memory");
}
/* Loads matrices of 8 x 8 halves. Lane 8 m + i has the address of row i of matrix m, 16 bytes. */
DEVICE void ldmatrix_x4(uint32_t (&r)[4], uint32_t a)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(a)
                 : "memory");
}
DEVICE void ldmatrix_x4_trans(uint32_t (&r)[4], uint32_t a)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(a)
                 : "memory");
}
DEVICE void ldmatrix_x2(uint32_t (&r)[2], uint32_t a)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(a)
                 : "memory");
}
DEVICE void ldmatrix_x2_trans(uint32_t (&r)[2], uint32_t a)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(a)
                 : "memory");
}
/* Copies sixteen bytes to shared memory; zeros if not ok. After cp_async_wait the calling thread may read them; other
 * threads also need a cta_sync or warp_sync. */
DEVICE void cp_async16(uint32_t dst, const void *src, bool ok)
{
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(dst), "l"(src),
                 "r"(ok ? 16 : 0)
                 : "memory");
}
DEVICE void cp_async_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}
/* Waits until at most N of this thread's last groups are unfinished. */
template <int N> DEVICE void cp_async_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

/* ---- matrices ---- */

DEVICE uint32_t movmatrix(uint32_t a)
{
    uint32_t d;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(d) : "r"(a));
    return d;
}
/* m16n8k16, F32: c += a b */
DEVICE void mma_bf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
DEVICE void mma_f16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
                 "{%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
/* m16n8k32, INT8: c += a b */
DEVICE void mma_int8(int32_t (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
                 "{%8,%9}, {%0,%1,%2,%3};"
                 : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* ---- numbers: to nearest even ---- */

DEVICE uint32_t float_bits(float v)
{
    return __float_as_uint(v);
}
DEVICE float bits_float(uint32_t v)
{
    return __uint_as_float(v);
}
DEVICE float bf16_to_float(uint16_t v)
{
    return __uint_as_float((uint32_t)v << 16);
}
DEVICE uint32_t pack_bf16(float lo, float hi)
{
    uint32_t r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
    return r;
}
DEVICE uint16_t float_to_bf16(float v)
{
    return (uint16_t)pack_bf16(v, 0.f);
}
DEVICE uint32_t pack_f16(float lo, float hi)
{
    uint32_t r;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
    return r;
}
DEVICE uint16_t float_to_f16(float v)
{
    return (uint16_t)pack_f16(v, 0.f);
}
DEVICE float f16_to_float(uint16_t v)
{
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(v));
    return f;
}
DEVICE uint32_t e4m3x2_to_f16x2(uint32_t v)
{
#if __CUDA_ARCH__ >= 890
    uint32_t r;
    asm("{.reg .b16 t; cvt.u16.u32 t, %1; cvt.rn.f16x2.e4m3x2 %0, t;}" : "=r"(r) : "r"(v));
    return r;
#else // a product with 2^8 corrects the exponent's bias and gives an f16; only NaN needs a special case
    uint32_t lo = v & 0xff, hi = v >> 8 & 0xff, h;
    uint32_t w = ((lo & 0x80) << 8) | ((lo & 0x7f) << 7) |
                 ((((hi & 0x80) << 8) | ((hi & 0x7f) << 7)) << 16);
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(h) : "r"(w), "r"(0x5c005c00u));
    if ((lo & 0x7f) == 0x7f)
        h = (h & 0xffff0000u) | 0x7fffu;
    if ((hi & 0x7f) == 0x7f)
        h = (h & 0xffffu) | 0x7fff0000u;
    return h;
#endif
}
DEVICE float e4m3_to_float(uint8_t v)
{
    return f16_to_float((uint16_t)e4m3x2_to_f16x2(v));
}
/* The nearest integer; beyond the range of the type its limit; NaN becomes 0. */
DEVICE int32_t float_to_int(float v)
{
    return __float2int_rn(v);
}
/* 2^x and log2(x), to about 22 bits; denormals count as zero. */
DEVICE float exp2_fast(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
DEVICE float log2_fast(float x)
{
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
/* Rounded as in IEEE 754: the same bits everywhere. */
DEVICE float reciprocal(float x)
{
    return __frcp_rn(x);
}
DEVICE float square_root(float x)
{
    return __fsqrt_rn(x);
}
/* Rounded once on the device, twice on the host; the compiler must not change that. */
DEVICE float multiply_add(float a, float b, float c)
{
    return __fmaf_rn(a, b, c);
}
/* a b + c of two numbers each, rounded once. */
DEVICE uint32_t multiply_add_bf16x2(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t d;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}
DEVICE uint32_t multiply_add_f16x2(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t d;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}
DEVICE uint32_t byte_permute(uint32_t a, uint32_t b, uint32_t s)
{
    return __byte_perm(a, b, s);
}

/* ---- lanes of a warp ---- */

DEVICE uint32_t shuffle(uint32_t v, uint32_t lane, uint32_t mask = ALL_LANES)
{
    return __shfl_sync(mask, v, (int)lane);
}
DEVICE float shuffle(float v, uint32_t lane, uint32_t mask = ALL_LANES)
{
    return __shfl_sync(mask, v, (int)lane);
}
DEVICE uint32_t shuffle_xor(uint32_t v, int m, uint32_t mask = ALL_LANES)
{
    return __shfl_xor_sync(mask, v, m);
}
DEVICE float shuffle_xor(float v, int m, uint32_t mask = ALL_LANES)
{
    return __shfl_xor_sync(mask, v, m);
}
/* The value of lane + n; the lane's own value if there is no such lane. */
DEVICE uint32_t shuffle_down(uint32_t v, uint32_t n, uint32_t mask = ALL_LANES)
{
    return __shfl_down_sync(mask, v, n);
}
DEVICE float shuffle_down(float v, uint32_t n, uint32_t mask = ALL_LANES)
{
    return __shfl_down_sync(mask, v, n);
}
DEVICE uint32_t vote_ballot(bool v, uint32_t mask = ALL_LANES)
{
    return __ballot_sync(mask, v);
}
DEVICE bool vote_any(bool v, uint32_t mask = ALL_LANES)
{
    return __any_sync(mask, v);
}
DEVICE bool vote_all(bool v, uint32_t mask = ALL_LANES)
{
    return __all_sync(mask, v);
}
DEVICE uint32_t reduce_add(uint32_t v, uint32_t mask = ALL_LANES)
{
    return __reduce_add_sync(mask, v);
}
DEVICE uint32_t reduce_min(uint32_t v, uint32_t mask = ALL_LANES)
{
    return __reduce_min_sync(mask, v);
}
DEVICE uint32_t reduce_max(uint32_t v, uint32_t mask = ALL_LANES)
{
    return __reduce_max_sync(mask, v);
}
DEVICE int32_t reduce_min(int32_t v, uint32_t mask = ALL_LANES)
{
    return __reduce_min_sync(mask, v);
}
DEVICE int32_t reduce_max(int32_t v, uint32_t mask = ALL_LANES)
{
    return __reduce_max_sync(mask, v);
}

/* ---- global memory: an address is a multiple of the bytes ---- */

DEVICE void store_word(void *p, uint32_t v)
{
    *(uint32_t *)p = v;
}
/* Adds atomically to a word of shared memory. Returns the old value. */
DEVICE uint32_t shared_add(uint32_t *word, uint32_t v)
{
    return atomicAdd(word, v);
}
DEVICE void load_vector8(uint32_t (&r)[2], const void *p)
{
    const uint2 v = *(const uint2 *)p;
    r[0] = v.x, r[1] = v.y;
}
DEVICE void load_vector16(uint32_t (&r)[4], const void *p)
{
    const uint4 v = *(const uint4 *)p;
    r[0] = v.x, r[1] = v.y, r[2] = v.z, r[3] = v.w;
}
DEVICE void store_vector8(void *p, const uint32_t (&r)[2])
{
    *(uint2 *)p = make_uint2(r[0], r[1]);
}
DEVICE void store_vector16(void *p, const uint32_t (&r)[4])
{
    *(uint4 *)p = make_uint4(r[0], r[1], r[2], r[3]);
}
/* Call it before an atomic operation that announces this thread's stores, and after one that announces those of others. */
DEVICE void fence_device()
{
    __threadfence();
}
/* Loads a word that CTAs pass to each other while they run at the same time: load_acquire may be called in a loop. */
DEVICE uint32_t load_acquire(const uint32_t *p)
{
    uint32_t v;
    asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}
DEVICE void store_release(uint32_t *p, uint32_t v)
{
    asm volatile("st.release.gpu.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
/* All return the old value. */
DEVICE uint32_t atomic_add(uint32_t *p, uint32_t v)
{
    return atomicAdd(p, v);
}
DEVICE uint64_t atomic_add(uint64_t *p, uint64_t v)
{
    return atomicAdd((unsigned long long *)p, (unsigned long long)v);
}
DEVICE uint32_t atomic_max(uint32_t *p, uint32_t v)
{
    return atomicMax(p, v);
}
DEVICE int32_t atomic_max(int32_t *p, int32_t v)
{
    return atomicMax(p, v);
}
DEVICE uint32_t atomic_exchange(uint32_t *p, uint32_t v)
{
    return atomicExch(p, v);
}
DEVICE uint32_t atomic_compare(uint32_t *p, uint32_t expected, uint32_t v)
{
    return atomicCAS(p, expected, v);
}
DEVICE uint64_t atomic_compare(uint64_t *p, uint64_t expected, uint64_t v)
{
    return atomicCAS((unsigned long long *)p, (unsigned long long)expected, (unsigned long long)v);
}
#else
#include "harness/hardware_host.h"
#endif
