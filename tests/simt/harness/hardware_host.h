/*
 * hardware_host - the host's bodies of kernels/cuda/hardware.cuh: threads of a CTA are fibers of one thread.
 */
#pragma once
#include <algorithm>
#include <stdio.h>
#include <stdlib.h>
using std::max;
using std::min;
#if defined(__SANITIZE_THREAD__) && !defined(SIMT_TSAN)
#define SIMT_TSAN 1
#endif
#ifdef SIMT_TSAN
#include <sanitizer/tsan_interface.h>
#endif
#define NOSAN               __attribute__((no_sanitize("thread"), noinline))
#define DEVICE              static inline __attribute__((always_inline))
#define SHARED_MEMORY(name) uint8_t *name = simt::cta.smem
#define UNROLL
#define __restrict__
struct dim3 {
    unsigned x, y, z;
    dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c)
    {
    }
};
extern "C" void simt_switch(void **save, void *to);
namespace simt
{
enum { READY, BLOCKED, DONE };
struct Copy {
    uint8_t *dst;
    const uint8_t *src;
    bool ok;
};
struct Fiber {
    void *sp;
    uint8_t *stack;
    dim3 tid;
    int id, lane, warp, state;
    void *tsan;
    const char *where;
    int line;
    Copy q[512];
    unsigned head, tail;
    unsigned gend[64], ghead, gtail;
}; // cp.async: ring of copies and of group ends
struct Coll {
    uint32_t mask, arrived;
    const char *op;
    void *arg[32];
};
struct Warp {
    Coll c[4];
    char ord;
};
struct Bar {
    int arrived, nwait;
    Fiber *wait[1024];
};
struct Cta {
    uint8_t *smem;
    size_t smem_bytes;
    dim3 bid, bdim, gdim;
    int nthr, live;
    Fiber *f;
    Warp *w;
    Bar bar[16];
    void (*body)(void *);
    void *ctx;
    void *sched_sp, *sched_tsan;
};
extern Cta cta;
extern Fiber *cur;
extern uint64_t n_switch, n_mma, n_bar, n_coll, progress;
extern int late_copies;
extern unsigned seed;
void launch_c(dim3 g, dim3 b, size_t smem, void (*body)(void *), void *ctx);
template <class F> static inline void launch(dim3 g, dim3 b, size_t smem, F f)
{
    launch_c(
        g, b, smem, [](void *c) { (*(F *)c)(); }, &f);
}
void yield(); // switch to scheduler
void bar_sync(int id, int count, const char *w, int line);
void coll(uint32_t mask, const char *op, void *arg, void (*fn)(void **, uint32_t));
} // namespace simt
#define threadIdx (simt::cur->tid)
#define blockIdx  (simt::cta.bid)
#define blockDim  (simt::cta.bdim)
#define gridDim   (simt::cta.gdim)
// ---- number formats
DEVICE uint32_t float_bits(float v)
{
    return __builtin_bit_cast(uint32_t, v);
}
DEVICE float bits_float(uint32_t v)
{
    return __builtin_bit_cast(float, v);
}
DEVICE float bf16_to_float(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, 4);
    return f;
}
DEVICE uint16_t float_to_bf16(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    if ((u & 0x7fffffff) > 0x7f800000)
        return 0x7fff;
    u += 0x7fff + ((u >> 16) & 1);
    return u >> 16;
}
DEVICE float f16_to_float(uint16_t h)
{
    _Float16 x;
    memcpy(&x, &h, 2);
    return (float)x;
}
DEVICE uint16_t float_to_f16(float f)
{
    _Float16 x = (_Float16)f;
    uint16_t h;
    memcpy(&h, &x, 2);
    return h;
}
DEVICE float e4m3_to_float(uint8_t v)
{
    int e = (v >> 3) & 15, m = v & 7;
    if (e == 15 && m == 7)
        return NAN;
    float f = e ? ldexpf(1.f + m / 8.f, e - 7) : ldexpf(m / 8.f, -6);
    return v & 0x80 ? -f : f;
}
// ---- shared-memory addressing: 32-bit offsets as on the device, bounds-checked
DEVICE uint32_t shared_address(const void *p)
{
    return (uint32_t)((const uint8_t *)p - simt::cta.smem);
}
DEVICE uint8_t *shared_pointer(uint32_t a, int n)
{
    if (a + (size_t)n > simt::cta.smem_bytes || (n == 16 && (a & 15))) {
        fprintf(stderr, "simt: bad smem address %u (+%d of %zu)\n", a, n, simt::cta.smem_bytes);
        abort();
    }
    return simt::cta.smem + a;
}
#define cta_sync() simt::bar_sync(0, -1, __FILE__, __LINE__)
NOSAN static void simt_nop(void **, uint32_t)
{
}
#ifdef SIMT_TSAN
#define warp_sync()                                                                                \
    do {                                                                                           \
        __tsan_release(&simt::cta.w[simt::cur->warp].ord);                                         \
        simt::coll(~0u, "syncwarp", 0, simt_nop);                                                  \
        __tsan_acquire(&simt::cta.w[simt::cur->warp].ord);                                         \
    } while (0)
#else
#define warp_sync() simt::coll(~0u, "syncwarp", 0, simt_nop)
#endif
// ---- warp collectives
struct LdsmArg {
    uint16_t row[8];
    uint32_t *out;
};
NOSAN static void ldsm_n(void **a, uint32_t)
{
    for (int l = 0; l < 32; l++)
        for (int m = 0; m < 4; m++) {
            uint16_t *r = ((LdsmArg *)a[m * 8 + l / 4])->row;
            ((LdsmArg *)a[l])->out[m] = r[(l & 3) * 2] | (uint32_t)r[(l & 3) * 2 + 1] << 16;
        }
}
NOSAN static void ldsm_t(void **a, uint32_t)
{
    for (int l = 0; l < 32; l++)
        for (int m = 0; m < 4; m++) {
            uint32_t lo = ((LdsmArg *)a[m * 8 + (l & 3) * 2])->row[l / 4],
                     hi = ((LdsmArg *)a[m * 8 + (l & 3) * 2 + 1])->row[l / 4];
            ((LdsmArg *)a[l])->out[m] = lo | hi << 16;
        }
}
DEVICE void ldmatrix_x4(uint32_t (&r)[4], uint32_t a)
{
    LdsmArg x;
    memcpy(x.row, shared_pointer(a, 16), 16);
    x.out = r;
    simt::coll(~0u, "ldmatrix.x4", &x, ldsm_n);
}
DEVICE void ldmatrix_x4_trans(uint32_t (&r)[4], uint32_t a)
{
    LdsmArg x;
    memcpy(x.row, shared_pointer(a, 16), 16);
    x.out = r;
    simt::coll(~0u, "ldmatrix.x4.trans", &x, ldsm_t);
}
struct MovArg {
    uint32_t in, out;
};
NOSAN static void mov_t(void **a, uint32_t)
{
    for (int l = 0; l < 32; l++) {
        int g = l >> 2, t = l & 3;
        uint32_t e[2];
        for (int i = 0; i < 2; i++) {
            uint32_t v = ((MovArg *)a[(2 * t + i) * 4 + g / 2])->in;
            e[i] = g & 1 ? v >> 16 : v & 0xffff;
        }
        ((MovArg *)a[l])->out = e[0] | e[1] << 16;
    }
}
DEVICE uint32_t movmatrix(uint32_t v)
{
    MovArg x = {v, 0};
    simt::coll(~0u, "movmatrix", &x, mov_t);
    return x.out;
}
struct MmaArg {
    float *c;
    const uint32_t *a;
    uint32_t b[2];
};
template <bool BF> NOSAN static void mma_all(void **p, uint32_t)
{
    simt::n_mma++;
    float A[16][16], B[8][16];
    for (int l = 0; l < 32; l++) {
        MmaArg *x = (MmaArg *)p[l];
        int g = l >> 2, t = l & 3;
        for (int i = 0; i < 4; i++)
            for (int h = 0; h < 2; h++) {
                uint16_t v = h ? x->a[i] >> 16 : x->a[i];
                A[g + (i & 1) * 8][2 * t + h + (i >> 1) * 8] = BF ? bf16_to_float(v)
                                                                  : f16_to_float(v);
            }
        for (int i = 0; i < 2; i++)
            for (int h = 0; h < 2; h++) {
                uint16_t v = h ? x->b[i] >> 16 : x->b[i];
                B[g][2 * t + h + i * 8] = BF ? bf16_to_float(v) : f16_to_float(v);
            }
    }
    for (int l = 0; l < 32; l++) {
        MmaArg *x = (MmaArg *)p[l];
        int g = l >> 2, t = l & 3;
        for (int i = 0; i < 4; i++) {
            const float *ar = A[g + (i >> 1) * 8], *br = B[2 * t + (i & 1)];
            float s = 0;
            for (int k = 0; k < 16; k++)
                s += ar[k] * br[k];
            x->c[i] += s;
        }
    }
}
DEVICE void mma_bf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    MmaArg x = {c, a, {b0, b1}};
    simt::coll(~0u, "mma.bf16", &x, mma_all<true>);
}
DEVICE void mma_f16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    MmaArg x = {c, a, {b0, b1}};
    simt::coll(~0u, "mma.f16", &x, mma_all<false>);
}
struct ShflArg {
    float in, out;
    int m;
};
NOSAN static void shfl_all(void **a, uint32_t)
{
    for (int l = 0; l < 32; l++)
        ((ShflArg *)a[l])->out = ((ShflArg *)a[l ^ ((ShflArg *)a[l])->m])->in;
}
DEVICE float shuffle_xor(float v, int m)
{
    ShflArg x = {v, 0, m};
    simt::coll(~0u, "shfl.xor", &x, shfl_all);
    return x.out;
}
DEVICE uint32_t shuffle_xor(uint32_t v, int m)
{
    return float_bits(shuffle_xor(bits_float(v), m));
}
// ---- cp.async: performed at issue (early) or only when waited for (late); both are legal on the
// device
DEVICE void cp_do(const simt::Copy &c)
{
    uint64_t z[2] = {0, 0};
    if (c.ok)
        memcpy(z, c.src, 16);
    ((volatile uint64_t *)c.dst)[0] = z[0];
    ((volatile uint64_t *)c.dst)[1] = z[1];
}
DEVICE void cp_async16(uint32_t dst, const void *src, bool ok)
{
    if (ok && ((uintptr_t)src & 15)) {
        fprintf(stderr, "simt: cp.async source not 16-byte aligned\n");
        abort();
    }
    simt::Copy c = {shared_pointer(dst, 16), (const uint8_t *)src, ok};
    simt::Fiber *f = simt::cur;
    if (simt::late_copies)
        f->q[f->tail++ & 511] = c;
    else
        cp_do(c);
}
DEVICE void cp_async_commit()
{
    simt::Fiber *f = simt::cur;
    f->gend[f->gtail++ & 63] = f->tail;
}
template <int N> DEVICE void cp_async_wait()
{
    simt::Fiber *f = simt::cur;
    while (f->gtail - f->ghead > N) {
        for (unsigned e = f->gend[f->ghead++ & 63]; f->head != e; f->head++) {
            simt::Copy c = f->q[f->head & 511];
            cp_do(c);
        }
    }
}
// ---- scalar
DEVICE float exp2_fast(float x)
{
    return exp2f(x);
}
DEVICE uint32_t pack_bf16(float lo, float hi)
{
    return float_to_bf16(lo) | (uint32_t)float_to_bf16(hi) << 16;
}
DEVICE uint32_t pack_f16(float lo, float hi)
{
    return float_to_f16(lo) | (uint32_t)float_to_f16(hi) << 16;
}
DEVICE uint32_t e4m3x2_to_f16x2(uint32_t v)
{
    return pack_f16(e4m3_to_float(v & 0xff), e4m3_to_float((v >> 8) & 0xff));
}
DEVICE uint32_t byte_permute(uint32_t a, uint32_t b, uint32_t s)
{
    uint64_t v = a | (uint64_t)b << 32;
    uint32_t r = 0;
    for (int i = 0; i < 4; i++)
        r |= (uint32_t)((v >> (((s >> (4 * i)) & 7) * 8)) & 0xff) << (8 * i);
    return r;
}
DEVICE void store_word(void *p, uint32_t v)
{
    *(uint32_t *)p = v;
}
DEVICE uint32_t shared_add(uint32_t *word, uint32_t v)
{
    return __atomic_fetch_add(word, v, __ATOMIC_RELAXED);
}
DEVICE float multiply_add(float a, float b, float c)
{
    return a * b + c;
}
