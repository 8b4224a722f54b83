/*
 * hardware_sm90 - the wrappers of instructions that only sm_90 has: barriers in shared memory, copies of boxes of a tensor by
 * the copy engine, and asynchronous products of four warps. Bodies as in hardware.cuh; those of the host are in
 * tests/simt/harness.
 *
 * A barrier is 8 bytes of shared memory. One bit counts its phases: mbarrier_wait(b, p) waits for the end of the phase with the
 * bit p, and the first phase has 0. A phase ends when all threads have arrived and all expected bytes are there.
 */
#pragma once

#include "kernels/cuda/hardware.cuh"

/* The body of a kernel for sm_90 only is empty on other architectures, where it is never launched. */
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define IS_SM90 1
#else
#define IS_SM90 0
#endif

/* The shape of a tensor, encoded by the driver (cuTensorMapEncodeTiled), in global memory or in a kernel's parameters. */
struct alignas(64) tensor_map {
    uint64_t words[16];
};

#ifdef __CUDACC__
DEVICE void mbarrier_init(uint32_t barrier, uint32_t n_arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(n_arrivals)
                 : "memory");
}
/* Call it after the inits of a thread and before a cta_sync: makes the barriers visible to the copy engine. */
DEVICE void mbarrier_publish()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
/* Arrives, and adds to the bytes that are expected in this phase. */
DEVICE void mbarrier_expect(uint32_t barrier, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
}
DEVICE void mbarrier_arrive(uint32_t barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
DEVICE void mbarrier_wait(uint32_t barrier, uint32_t parity)
{
    asm volatile("{\n.reg .pred done;\nagain:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n}" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}
/* Loads one box at these coordinates, the innermost first. The barrier counts its bytes. Places outside the tensor are zeros. */
DEVICE void tensor_load(uint32_t target, const struct tensor_map *map, uint32_t barrier,
                        const int32_t (&at)[4])
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(target),
                 "l"(map), "r"(barrier), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3])
                 : "memory");
}
/* Call it before a barrier: makes the threads' stores to shared memory visible to the copy engine and the tensor cores. A run on a
 * host cannot show that a call is missing, so this is a wrapper of its own. */
DEVICE void publish_smem_to_async()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
/* Four warps give registers back, or take them, so that each of their threads has N. Only for kernels with one CTA at a time,
 * whose warps have different work from here to the end. */
template <int N> DEVICE void registers_give()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}
template <int N> DEVICE void registers_take()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}
/* ---- products of four warps: bf16, sums of [64][64], [64][128] or [64][256] ---- */

/* Describes an operand in shared memory, in rows of 128 bytes swizzled by 128. panel_bytes: from one panel of 64 columns to the
 * next; rows_bytes: from 8 rows to the next. */
DEVICE uint64_t wgmma_operand(uint32_t address, uint32_t panel_bytes, uint32_t rows_bytes)
{
    return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)(panel_bytes >> 4) << 16 |
           (uint64_t)(rows_bytes >> 4) << 32 | 1ull << 62;
}
/* Call it before the first product that uses registers which other instructions have written. */
DEVICE void wgmma_begin()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
DEVICE void wgmma_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/* Waits until at most N of the last groups are unfinished. Until then sums and operands, in registers or shared memory, must not
 * be touched. */
template <int N> DEVICE void wgmma_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}
/* Tells the compiler that the sums may be read only after this point. */
template <int N> DEVICE void wgmma_keep(float (&d)[N])
{
    UNROLL
    for (int i = 0; i < N; i++)
        asm volatile("" : "+f"(d[i])::"memory");
}
#define WGMMA_FIRST_32                                                                             \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                       \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define WGMMA_FIRST_64                                                                             \
    WGMMA_FIRST_32                                                                                 \
    ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "           \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define WGMMA_FIRST_128                                                                            \
    WGMMA_FIRST_64                                                                                 \
    ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "           \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "             \
    "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
    "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, "   \
    "%127"
#define WGMMA_8(d, i)                                                                              \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]),    \
        "+f"(d[i + 6]), "+f"(d[i + 7])
#define WGMMA_32(d, i) WGMMA_8(d, i), WGMMA_8(d, i + 8), WGMMA_8(d, i + 16), WGMMA_8(d, i + 24)
/* d = a b, or d += a b: a [64][16], b [2 x sums][16], both with neighbours of k side by side. */
DEVICE void wgmma_shared(float (&d)[32], uint64_t a, uint64_t b, bool accumulates)
{
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" WGMMA_FIRST_32
                 "}, %32, %33, p, 1, 1, 0, 0;\n}"
                 : WGMMA_32(d, 0)
                 : "l"(a), "l"(b), "r"((uint32_t)accumulates));
}
DEVICE void wgmma_shared(float (&d)[64], uint64_t a, uint64_t b, bool accumulates)
{
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" WGMMA_FIRST_64
                 "}, %64, %65, p, 1, 1, 0, 0;\n}"
                 : WGMMA_32(d, 0), WGMMA_32(d, 32)
                 : "l"(a), "l"(b), "r"((uint32_t)accumulates));
}
DEVICE void wgmma_shared(float (&d)[128], uint64_t a, uint64_t b, bool accumulates)
{
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {" WGMMA_FIRST_128
                 "}, %128, %129, p, 1, 1, 0, 0;\n}"
                 : WGMMA_32(d, 0), WGMMA_32(d, 32), WGMMA_32(d, 64), WGMMA_32(d, 96)
                 : "l"(a), "l"(b), "r"((uint32_t)accumulates));
}
/* a in registers, as mma_bf16 has it, 16 rows a warp; b [16][128] with neighbours of the 128 side by side. */
DEVICE void wgmma_registers(float (&d)[64], const uint32_t (&a)[4], uint64_t b, bool accumulates)
{
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" WGMMA_FIRST_64
                 "}, {%64, %65, %66, %67}, %68, p, 1, 1, 1;\n}"
                 : WGMMA_32(d, 0), WGMMA_32(d, 32)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((uint32_t)accumulates));
}
/* Sums of [64][64]: a in registers; b [64][16] with neighbours of k side by side. */
DEVICE void wgmma_narrow(float (&d)[32], const uint32_t (&a)[4], uint64_t b, bool accumulates)
{
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
                 "{%32, %33, %34, %35}, %36, p, 1, 1, 0;\n}"
                 : WGMMA_8(d, 0), WGMMA_8(d, 8), WGMMA_8(d, 16), WGMMA_8(d, 24)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((uint32_t)accumulates));
}
#else
#include "harness/hardware_sm90_host.h"
#endif
