/*
 * hardware_sm90 - what only sm_90 has of ways to touch the hardware: barriers in shared memory, and copies of boxes of a tensor
 * that the copy engine makes by itself. Bodies as in hardware.cuh, those of the host in tests/simt/harness.
 *
 * A barrier is 8 bytes of shared memory. Its phases are counted by one bit: mbarrier_wait(b, p) waits for the end of the phase
 * whose bit is p, and the first has 0. A phase ends when all have arrived and all bytes that were expected are there.
 */
#pragma once

#include "kernels/cuda/hardware.cuh"

/* What the driver makes of a tensor's shape (cuTensorMapEncodeTiled), in global memory or in a kernel's parameters. */
struct alignas(64) tensor_map {
    uint64_t words[16];
};

#ifdef __CUDACC__
DEVICE void mbarrier_init(uint32_t barrier, uint32_t n_arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(n_arrivals)
                 : "memory");
}
/* Behind the inits of a thread, before a cta_sync: the copy engine sees them. */
DEVICE void mbarrier_publish()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
/* Arrives, and so many bytes more are to come in this phase. */
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
/* One box, at these places, the innermost first: its bytes count on the barrier. Places outside the tensor are zeros. */
DEVICE void tensor_load(uint32_t target, const struct tensor_map *map, uint32_t barrier,
                        const int32_t (&at)[4])
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(target),
                 "l"(map), "r"(barrier), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3])
                 : "memory");
}
/* Before a barrier: what threads have stored in shared memory is seen by the copy engine and the tensor cores. No run on a host
 * can miss it, so that it stands here alone. */
DEVICE void publish_smem_to_async()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
#else
#include "harness/hardware_sm90_host.h"
#endif
