/*
 * hardware_cluster_host - the host's bodies of kernels/cuda/hardware_cluster.cuh, in its order.
 */
#pragma once

#include "harness/cluster.h"
#include "harness/hardware_host.h"

DEVICE uint32_t cluster_rank()
{
    return simt::cluster_rank();
}
DEVICE uint32_t cluster_size()
{
    return simt::cluster_size();
}
DEVICE void cluster_arrive()
{
    simt::cluster_arrive();
}
DEVICE void cluster_wait()
{
    simt::cluster_wait();
}
DEVICE uint32_t map_shared_rank(uint32_t address, uint32_t rank)
{
    return simt::cluster_map(address, rank);
}
DEVICE uint32_t load_cluster(uint32_t address)
{
    return *(const volatile uint32_t *)simt::cluster_pointer(address, 4);
}
DEVICE void store_cluster(uint32_t address, uint32_t v)
{
    *(volatile uint32_t *)simt::cluster_pointer(address, 4) = v;
}
DEVICE void load_cluster16(uint32_t (&r)[4], uint32_t address)
{
    memcpy(r, simt::cluster_pointer(address, 16), 16);
}
DEVICE uint32_t cluster_add(uint32_t address, uint32_t v)
{
    return simt::atomic_add((uint32_t *)simt::cluster_pointer(address, 4), v);
}
