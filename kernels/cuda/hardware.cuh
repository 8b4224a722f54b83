/*
 * hardware - every way in which a kernel touches the hardware: a body in PTX for the device, and, where a host's compiler
 * reads this, one for the harness of tests/simt, which runs a CTA's threads as fibers. No asm stands anywhere else.
 *
 * Shared memory is addressed as on the device, by 32-bit offsets (shared_address). Collectives are of a whole warp.
 */
#pragma once
#include <math.h>
#include <stdint.h>
#include <string.h>
#ifdef __CUDACC__
#define DEVICE              __device__ __forceinline__
#define SHARED_MEMORY(name) extern __shared__ __align__(1024) uint8_t name[]
#define UNROLL              _Pragma("unroll")
DEVICE uint32_t shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}
DEVICE void cta_sync()
{
    __syncthreads();
}
DEVICE void warp_sync()
{
    __syncwarp();
}
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
DEVICE uint32_t movmatrix(uint32_t a)
{
    uint32_t d;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(d) : "r"(a));
    return d;
}
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
template <int N> DEVICE void cp_async_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}
DEVICE float shuffle_xor(float v, int m)
{
    return __shfl_xor_sync(0xffffffffu, v, m);
}
DEVICE uint32_t shuffle_xor(uint32_t v, int m)
{
    return __shfl_xor_sync(0xffffffffu, v, m);
}
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
DEVICE float exp2_fast(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
DEVICE uint32_t pack_bf16(float lo, float hi)
{
    uint32_t r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
    return r;
}
DEVICE uint32_t pack_f16(float lo, float hi)
{
    uint32_t r;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
    return r;
}
DEVICE uint16_t float_to_bf16(float v)
{
    return (uint16_t)pack_bf16(v, 0.f);
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
#else // exponent-bias trick: e4m3 -> f16 with a multiply by 2^8
    uint32_t lo = v & 0xff, hi = (v >> 8) & 0xff, h;
    uint32_t w = ((lo & 0x80) << 8) | ((lo & 0x7f) << 7) |
                 ((((hi & 0x80) << 8) | ((hi & 0x7f) << 7)) << 16);
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(h) : "r"(w), "r"(0x5c005c00u));
    return h;
#endif
}
DEVICE float e4m3_to_float(uint8_t v)
{
    return f16_to_float((uint16_t)e4m3x2_to_f16x2(v));
}
DEVICE uint32_t byte_permute(uint32_t a, uint32_t b, uint32_t s)
{
    return __byte_perm(a, b, s);
}
DEVICE void store_word(void *p, uint32_t v)
{
    *(uint32_t *)p = v;
}
/* Adds to a word of shared memory that other threads add to; what it was before. */
DEVICE uint32_t shared_add(uint32_t *word, uint32_t v)
{
    return atomicAdd(word, v);
}
/* Rounded once on the device, twice on the host: the compiler fuses neither more nor less. */
DEVICE float multiply_add(float a, float b, float c)
{
    return __fmaf_rn(a, b, c);
}
#else
#include <hardware_host.h>
#endif
