#include "harness/cluster.h"

#include "harness/checks.h"
#include "harness/report.h"

#include <algorithm>

namespace simt
{
unsigned cluster_size()
{
    return std::max(schedule.cluster, 1u);
}

unsigned cluster_rank()
{
    return current->cta->rank;
}

struct cta *cluster_cta(unsigned rank)
{
    if (rank >= cluster_size())
        report("CTA %u of a cluster of %u is asked for", rank, cluster_size());
    return live_cta(current->cta->number - current->cta->rank + rank);
}

/* ---- the barrier: CTA 0 of the cluster has it ---- */

static void complete(struct cta *first)
{
    first->cluster.n_arrived = 0;
    first->cluster.phase++;
    progress++;
    for (unsigned rank = 0; rank < cluster_size(); rank++) {
        struct cta *cta = cluster_cta(rank);
        for (unsigned i = 0; i < cta->n_threads; i++)
            if (cta->threads[i].state == WAITING && cta->threads[i].detail == CLUSTER)
                cta->threads[i].state = READY;
    }
}

static void complete_if_all_have_arrived(struct cta *first)
{
    unsigned n_live = 0;
    for (unsigned rank = 0; rank < cluster_size(); rank++)
        n_live += cluster_cta(rank)->n_live;
    if (first->cluster.n_arrived > 0 && first->cluster.n_arrived == n_live)
        complete(first);
}

void cluster_arrive()
{
    struct cta *first = cluster_cta(0);
    if (current->has_arrived)
        report("arrives at the cluster's barrier again without a wait");
    counts.barriers++;
    release(&first->cluster);
    current->has_arrived = true;
    current->arrived_in = first->cluster.phase;
    first->cluster.n_arrived++;
    complete_if_all_have_arrived(first);
}

void cluster_wait()
{
    struct cta *first = cluster_cta(0);
    if (!current->has_arrived)
        report("waits at the cluster's barrier, where it has not arrived");
    if (current->arrived_in == first->cluster.phase)
        wait_for_others("cluster_wait", CLUSTER);
    current->has_arrived = false;
    acquire(&first->cluster);
}

void cluster_thread_ended()
{
    struct cta *first = cluster_cta(0);
    if (current->has_arrived && current->arrived_in == first->cluster.phase)
        first->cluster.n_arrived--;
    complete_if_all_have_arrived(first);
}

/* ---- shared memory ---- */

uint32_t cluster_map(uint32_t address, unsigned rank)
{
    const struct cta *cta = cluster_cta(rank);
    if (address >= cta->shared_bytes)
        report("map_shared_rank of %u of %zu of shared memory", address, cta->shared_bytes);
    return (rank + 1) << CLUSTER_SHIFT | address;
}

uint8_t *cluster_pointer(uint32_t address, unsigned bytes)
{
    const unsigned rank = address >> CLUSTER_SHIFT ? (address >> CLUSTER_SHIFT) - 1
                                                   : cluster_rank();
    const struct cta *cta = cluster_cta(rank);
    if (cta->n_live == cta->n_threads && !cta->has_begun)
        report("touches shared memory of CTA %u of its cluster, of which nothing says that it has "
               "begun",
               rank);
    if (cta->n_live == 0)
        report("touches shared memory of CTA %u of its cluster, which has ended", rank);
    return shared_pointer_of(cta, address & ((1u << CLUSTER_SHIFT) - 1), bytes);
}

bool is_cluster_shared(const void *p)
{
    for (unsigned rank = 0; rank < cluster_size(); rank++) {
        const struct cta *cta = cluster_cta(rank);
        if ((const uint8_t *)p >= cta->shared &&
            (const uint8_t *)p < cta->shared + cta->shared_bytes)
            return true;
    }
    return false;
}
} // namespace simt
