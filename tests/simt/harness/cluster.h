/*
 * cluster - CTAs that are always live at once: their barrier, and each other's shared memory.
 *
 * An address in the cluster is the rank + 1, shifted by CLUSTER_SHIFT, and the place in that CTA's shared memory; a place
 * alone is one of the CTA's own, as on the device.
 */
#pragma once

#include "harness/threads.h"

namespace simt
{
enum : unsigned { CLUSTER_SHIFT = 24, CLUSTER_CTAS_MAX = 16 };

unsigned cluster_rank();
unsigned cluster_size();
/* CTA rank of the current thread's cluster. */
struct cta *cluster_cta(unsigned rank);

/* Arrivals and waits of a thread go by turns. */
void cluster_arrive();
void cluster_wait();
/* Of the current thread, at its end: who waits need not wait for it. */
void cluster_thread_ended();

uint32_t cluster_map(uint32_t address, unsigned rank);
/* Bytes there, aligned to them as far as 16. The CTA has begun, and has not ended. */
uint8_t *cluster_pointer(uint32_t address, unsigned bytes);
/* Whether p is in the shared memory of a CTA of the current thread's cluster. */
bool is_cluster_shared(const void *p);
} // namespace simt
