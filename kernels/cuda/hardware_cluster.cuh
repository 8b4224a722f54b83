/*
 * hardware_cluster - clusters of GPUs from sm_90 on, in the style of hardware.cuh: CTAs that run at the same time and can
 * access each other's shared memory.
 *
 * A kernel that calls these is launched in clusters. map_shared_rank gives an address of another CTA's shared memory, which
 * only *_cluster functions accept. It may be used after a cluster_sync, when all CTAs have begun, and before a last
 * cluster_sync, before which no CTA ends.
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
/* A barrier for all threads of the cluster that have not ended. After it all threads see their earlier writes to memory.
 * A thread may do other work between arrival and wait. */
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
/* Returns the old value. */
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
