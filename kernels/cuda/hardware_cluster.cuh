/*
 * hardware_cluster - clusters, of GPUs from sm_90 on, in the manner of hardware.cuh: CTAs that are live at once and
 * reach each other's shared memory.
 *
 * A kernel that calls these is launched in clusters. An address of another CTA's shared memory comes from map_shared_rank
 * and is good for *_cluster alone; it may be used between a cluster_sync behind which all CTAs have begun, and one before
 * which none has ended.
 */
#pragma once

#include "kernels/cuda/hardware.cuh"

#ifdef __CUDACC__

DEVICE uint32_t cluster_rank()
{
    uint32_t v;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(v));
    return v;
}
DEVICE uint32_t cluster_size()
{
    uint32_t v;
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(v));
    return v;
}
/* All threads of the cluster that have not ended meet; what they did to memory before is seen behind it. Work may stand
 * between a thread's arrival and its wait. */
DEVICE void cluster_arrive()
{
    asm volatile("barrier.cluster.arrive.release;" ::: "memory");
}
DEVICE void cluster_wait()
{
    asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}
DEVICE uint32_t map_shared_rank(uint32_t address, uint32_t rank)
{
    uint32_t v;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(v) : "r"(address), "r"(rank));
    return v;
}
DEVICE uint32_t load_cluster(uint32_t address)
{
    uint32_t v;
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(v) : "r"(address) : "memory");
    return v;
}
DEVICE void store_cluster(uint32_t address, uint32_t v)
{
    asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(address), "r"(v) : "memory");
}
DEVICE void load_cluster16(uint32_t (&r)[4], uint32_t address)
{
    asm volatile("ld.shared::cluster.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}
/* What was there before. */
DEVICE uint32_t cluster_add(uint32_t address, uint32_t v)
{
    uint32_t before;
    asm volatile("atom.shared::cluster.add.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "r"(address), "r"(v)
                 : "memory");
    return before;
}
#else
#include "harness/hardware_cluster_host.h"
#endif

DEVICE void cluster_sync()
{
    cluster_arrive();
    cluster_wait();
}
