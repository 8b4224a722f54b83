#include "tests/simt/harness_kernels.h"

#include "kernels/cuda/hardware_cluster.cuh"

#include <stdio.h>
#include <stdlib.h>

using kernel = void(const struct harness_data &data);

/* ---- right ---- */

/* Each CTA doubles its 64 values through shared memory, by asynchronous copies of a neighbour's. */
static void copies(const struct harness_data &data)
{
    SHARED_MEMORY(shared);
    float *values = data.values + 64 * blockIdx.x;
    const uint32_t i = threadIdx.x;
    if (i < 16)
        cp_async16(shared_address(shared) + 16 * i, values + 4 * i, true);
    cp_async_commit();
    cp_async_wait<0>();
    cta_sync();
    const float other = ((const float *)shared)[i ^ 63];
    values[i] = 2 * other;
}

/* The last CTA to come adds what all of them left. */
static void last_adds(const struct harness_data &data)
{
    SHARED_MEMORY(shared);
    if (threadIdx.x == 0) {
        data.values[blockIdx.x] = (float)(blockIdx.x + 1);
        fence_device();
        store_shared(shared_address(shared), atomic_add(&data.counters[0], 1u));
        fence_device();
    }
    cta_sync();
    if (load_shared(shared_address(shared)) != gridDim.x - 1 || threadIdx.x != 0)
        return;
    float sum = 0;
    for (uint32_t i = 0; i < gridDim.x; i++)
        sum += data.values[i];
    data.values[gridDim.x] = sum;
}

/* CTA i waits for CTA i + 1: they must be live at once. */
static void chain(const struct harness_data &data)
{
    if (threadIdx.x != 0)
        return;
    const uint32_t i = blockIdx.x, n = gridDim.x;
    while (i + 1 < n && load_acquire(&data.counters[i + 1]) == 0) {
    }
    data.values[i] = i + 1 < n ? data.values[i + 1] + 1 : 1;
    store_release(&data.counters[i], 1);
}

/* Warp 0 fills, warp 1 takes, over two named barriers. */
static void hands_over(const struct harness_data &data)
{
    SHARED_MEMORY(shared);
    float *values = (float *)shared;
    for (uint32_t round = 0; round < 4; round++) {
        if (threadIdx.x < 32) {
            if (round)
                barrier_sync<2, 64>();
            values[threadIdx.x] = (float)(round + threadIdx.x);
            barrier_arrive<1, 64>();
        } else {
            barrier_sync<1, 64>();
            data.values[32 * round + threadIdx.x % 32] = values[threadIdx.x ^ 63];
            if (round < 3)
                barrier_arrive<2, 64>();
        }
    }
}

/* Halves of a warp, each for itself. */
static void halves(const struct harness_data &data)
{
    const uint32_t lane = threadIdx.x % 32, mask = lane < 16 ? 0xffffu : 0xffff0000u;
    uint32_t sum = reduce_add(lane, mask);
    if (vote_all(lane < 16, mask))
        sum += shuffle_xor(lane, 1, mask);
    data.values[threadIdx.x] = (float)(sum + 1000 * vote_ballot(lane == 3, mask));
}

/* A column of 32 words: all in one bank. */
static void one_bank(const struct harness_data &data)
{
    SHARED_MEMORY(shared);
    const uint32_t at = shared_address(shared) + threadIdx.x % 32 * 128;
    if (threadIdx.x < 32)
        store_shared(at, 1);
    data.values[threadIdx.x] = 0;
}

/* Each CTA hands its rank and its threads' numbers to the next one of the cluster, which takes the last of them itself. */
static void cluster_ring(const struct harness_data &data)
{
    SHARED_MEMORY(shared);
    const uint32_t mine = shared_address(shared), i = threadIdx.x;
    const uint32_t next = map_shared_rank(mine, (cluster_rank() + 1) % cluster_size());
    cluster_sync(); /* all have begun */
    store_cluster(next + 4 * i, 100 * cluster_rank() + i);
    cluster_sync();
    uint32_t words[4];
    load_cluster16(words, next + 4 * (i / 4 * 4));
    data.values[64 * blockIdx.x + i] = (float)(load_shared(mine + 4 * i) + 1000 * words[i % 4]);
    cluster_sync(); /* none ends while it is read */
}

/* All threads add to a word of the first CTA; work stands between arrival and wait. Some end early. */
static void cluster_sum(const struct harness_data &data)
{
    SHARED_MEMORY(shared);
    const uint32_t word = shared_address(shared);
    if (cluster_rank() == 0 && threadIdx.x == 0)
        store_shared(word, 0);
    cluster_sync();
    if (cluster_rank() == 1 && threadIdx.x >= 32)
        return;
    cluster_add(map_shared_rank(word, 0), 1);
    cluster_arrive();
    data.values[64 * blockIdx.x + threadIdx.x] = 0;
    cluster_wait();
    if (threadIdx.x == 0)
        data.values[64 * blockIdx.x] = (float)load_cluster(map_shared_rank(word, 0));
    cluster_sync();
}

/* ---- wrong ---- */

static void cluster_deadlock(const struct harness_data &)
{
    if (cluster_rank() == 1 && threadIdx.x < 32)
        barrier_sync<3, 64>();
    cluster_sync();
}

static void cluster_arrives_twice(const struct harness_data &)
{
    cluster_arrive();
    cluster_arrive();
}

static void cluster_waits_at_once(const struct harness_data &)
{
    cluster_wait();
}

static void cluster_beyond(const struct harness_data &)
{
    cluster_sync();
    store_cluster(map_shared_rank(4092, 1) + 4, 1);
    cluster_sync();
}

static void cluster_unmapped(const struct harness_data &)
{
    cluster_sync();
    store_shared(map_shared_rank(0, 1), 1);
    cluster_sync();
}

static void cluster_of_more(const struct harness_data &)
{
    map_shared_rank(0, cluster_size());
}

static void cluster_not_begun(const struct harness_data &)
{
    if (cluster_rank() == 0)
        store_cluster(map_shared_rank(0, 1), 1);
    cluster_sync();
}

static void cluster_has_ended(const struct harness_data &)
{
    cluster_sync();
    if (cluster_rank() == 0)
        return;
    cluster_sync(); /* of those that have not ended */
    store_cluster(map_shared_rank(0, 0), 1);
}

/* The word is read before it is known to be there. */
static void cluster_unordered(const struct harness_data &data)
{
    SHARED_MEMORY(shared);
    const uint32_t mine = shared_address(shared);
    cluster_sync();
    store_shared(mine + 4 * threadIdx.x, threadIdx.x);
    cluster_arrive();
    data.values[64 * blockIdx.x + threadIdx.x] = (float)load_cluster(
        map_shared_rank(mine + 4 * threadIdx.x, cluster_rank() ^ 1));
    cluster_wait();
}

/* A shuffle lets the lanes meet, and orders nothing: there is no schedule here that shows it. */
static void ordered_by_a_shuffle(const struct harness_data &data)
{
    SHARED_MEMORY(shared);
    float *values = (float *)shared;
    values[threadIdx.x] = (float)threadIdx.x;
    shuffle_xor(1.f, 1);
    data.values[threadIdx.x] = values[threadIdx.x ^ 1];
}

/* CTAs that are live at once, and a flag without a release. */
static void passes_on_unreleased(const struct harness_data &data)
{
    if (threadIdx.x != 0)
        return;
    if (blockIdx.x == 1) {
        data.values[0] = 5;
        atomic_exchange(&data.counters[0], 1u);
        return;
    }
    while (load_acquire(&data.counters[0]) == 0) {
    }
    data.values[1] = data.values[0];
}

static void deadlock(const struct harness_data &)
{
    if (threadIdx.x < 48)
        shuffle_xor(1.f, 1);
}

static void half_at_a_barrier(const struct harness_data &)
{
    if (threadIdx.x < 32)
        barrier_sync<3, 64>();
}

static void diverges(const struct harness_data &)
{
    if (threadIdx.x % 2)
        shuffle_xor(1.f, 1);
    else
        vote_any(true);
}

static void masks_differ(const struct harness_data &)
{
    const uint32_t mask = threadIdx.x % 32 < 8 ? 0xffffu : ALL_LANES;
    reduce_add(1u, mask);
}

static void not_of_the_mask(const struct harness_data &)
{
    warp_sync(0x0f0u);
}

static void never_waits(const struct harness_data &data)
{
    SHARED_MEMORY(shared);
    if (threadIdx.x < 16)
        cp_async16(shared_address(shared) + 16 * threadIdx.x, data.values + 4 * threadIdx.x, true);
}

/* Waits for one group fewer than it should. */
static void waits_too_little(const struct harness_data &data)
{
    SHARED_MEMORY(shared);
    const uint32_t i = threadIdx.x;
    if (i < 16)
        cp_async16(shared_address(shared) + 16 * i, data.values + 4 * i, true);
    cp_async_commit();
    cp_async_wait<1>();
    cta_sync();
    const float other = ((const float *)shared)[i ^ 63];
    cp_async_wait<0>();
    data.values[i] = 2 * other;
}

static void no_barrier(const struct harness_data &data)
{
    SHARED_MEMORY(shared);
    float *values = (float *)shared;
    values[threadIdx.x] = (float)threadIdx.x;
    data.values[threadIdx.x] = values[threadIdx.x ^ 63];
}

static void behind_the_end(const struct harness_data &data)
{
    data.values[data.n + threadIdx.x] = 1;
}

static void behind_shared(const struct harness_data &data)
{
    SHARED_MEMORY(shared);
    data.values[threadIdx.x] = ((const volatile float *)shared)[1024 + threadIdx.x];
}

static void behind_shared_by_address(const struct harness_data &)
{
    SHARED_MEMORY(shared);
    store_shared(shared_address(shared) + 4096, 1);
}

static void misaligned(const struct harness_data &data)
{
    uint32_t words[4];
    load_vector16(words, data.values + 1);
    store_word(data.values, words[0]);
}

static void misaligned_word(const struct harness_data &data)
{
    store_word((uint8_t *)data.values + 2, 1);
}

static void misaligned_matrix(const struct harness_data &data)
{
    SHARED_MEMORY(shared);
    uint32_t words[4];
    ldmatrix_x4(words, shared_address(shared) + 16 * (threadIdx.x % 32) + 8);
    store_word(data.values, words[0]);
}

static float
    *volatile theirs; /* memory of the host, [64], which no compiler makes an array of its own */

static void of_the_host(const struct harness_data &data)
{
    data.values[threadIdx.x] = theirs[threadIdx.x];
}

static void all_write_one(const struct harness_data &data)
{
    if (threadIdx.x == 0)
        data.values[0] = (float)blockIdx.x;
}

static void reads_a_neighbours(const struct harness_data &data)
{
    if (threadIdx.x == 0) {
        data.values[blockIdx.x] = 1;
        data.values[32 + blockIdx.x] = data.values[blockIdx.x ? blockIdx.x - 1 : 0];
    }
}

/* last_adds without the first fence. */
static void adds_unfenced(const struct harness_data &data)
{
    if (threadIdx.x != 0)
        return;
    data.values[blockIdx.x] = 1;
    if (atomic_add(&data.counters[0], 1u) != gridDim.x - 1)
        return;
    fence_device();
    float sum = 0;
    for (uint32_t i = 0; i < gridDim.x; i++)
        sum += data.values[i];
    data.values[gridDim.x] = sum;
}

static const struct {
    const char *name;
    kernel *run;
} kernels[] = {
#define ROW(name)                                                                                  \
    {                                                                                              \
#name, name                                                                                \
    }
    ROW(copies),
    ROW(last_adds),
    ROW(chain),
    ROW(hands_over),
    ROW(halves),
    ROW(one_bank),
    ROW(cluster_ring),
    ROW(cluster_sum),
    ROW(cluster_deadlock),
    ROW(cluster_arrives_twice),
    ROW(cluster_waits_at_once),
    ROW(cluster_beyond),
    ROW(cluster_unmapped),
    ROW(cluster_of_more),
    ROW(cluster_not_begun),
    ROW(cluster_has_ended),
    ROW(cluster_unordered),
    ROW(ordered_by_a_shuffle),
    ROW(passes_on_unreleased),
    ROW(deadlock),
    ROW(half_at_a_barrier),
    ROW(diverges),
    ROW(masks_differ),
    ROW(not_of_the_mask),
    ROW(never_waits),
    ROW(waits_too_little),
    ROW(no_barrier),
    ROW(behind_the_end),
    ROW(behind_shared),
    ROW(behind_shared_by_address),
    ROW(misaligned),
    ROW(misaligned_word),
    ROW(misaligned_matrix),
    ROW(of_the_host),
    ROW(all_write_one),
    ROW(reads_a_neighbours),
    ROW(adds_unfenced),
#undef ROW
};

void harness_run(const char *name, uint32_t n_ctas, const struct harness_data *data,
                 const struct simt_schedule *schedule)
{
    simt::schedule = {schedule->copies_late, schedule->seed,        schedule->resident,
                      schedule->cluster,     schedule->count_banks, schedule->only_bounds};
    if (!theirs)
        theirs = (float *)calloc(64, sizeof(float));
    for (const auto &row : kernels)
        if (strcmp(row.name, name) == 0)
            return simt::launch(dim3(n_ctas), 64, 4096, [&] { row.run(*data); });
    fprintf(stderr, "harness_kernels: there is no %s\n", name);
    abort();
}
