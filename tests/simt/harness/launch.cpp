/*
 * launch - one launch: CTAs in groups that are live at once, each group's threads in rounds until all have ended.
 */
#include "harness/checks.h"
#include "harness/cluster.h"
#include "harness/report.h"
#include "harness/switch.h"
#include "harness/threads.h"

#include <algorithm>
#include <memory>
#include <stdlib.h>
#include <string.h>
#include <string>
#include <sys/mman.h>
#include <vector>
#ifdef SIMT_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace simt
{
struct thread *current;
struct schedule schedule;
struct counts counts;
uint64_t progress;

enum : size_t { PAGE_BYTES = 4096, SHARED_BYTES_MAX = 227 << 10 };
/* Rounds in which threads only spin, before that counts as a deadlock. */
enum : unsigned { IDLE_ROUNDS_MAX = 10000, HELD_ROUNDS = 16, NO_WARP = ~0u };

/* What one CTA that is live takes; kept for the next ones. */
struct seat {
    struct cta cta;
    std::vector<struct thread> threads;
    std::vector<struct warp> warps;
    std::vector<uint8_t *> stacks;
    std::vector<std::unique_ptr<struct copy[]>> copies;
    std::vector<void *> tsan;
    uint8_t *shared;
};

static struct {
    std::vector<std::unique_ptr<struct seat>> seats;
    unsigned n_live; /* CTAs of the group */
    void *stack_pointer, *tsan;
    void (*body)(void *);
    void *context;
    uint32_t random;
    /* What the launching thread hands to all fibers, and they to it: no fiber to another. */
    char begins, ends;
} running;

void acquire([[maybe_unused]] void *place)
{
#ifdef SIMT_TSAN
    __tsan_acquire(place);
#endif
}

void release([[maybe_unused]] void *place)
{
#ifdef SIMT_TSAN
    __tsan_release(place);
#endif
}

struct dim3 thread_index()
{
    return current->index;
}

struct dim3 cta_index()
{
    return current->cta->index;
}

struct dim3 cta_size()
{
    return current->cta->size;
}

struct dim3 grid_size()
{
    return current->cta->grid;
}

uint8_t *shared_memory()
{
    return current->cta->shared;
}

static uint8_t *map_pages(size_t bytes, int flags)
{
    void *mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags,
                        -1, 0);
    if (mapped == MAP_FAILED)
        report("no memory for %zu bytes", bytes);
    return (uint8_t *)mapped;
}

static void to_scheduler()
{
    struct thread *me = current;
    counts.switches++;
#ifdef SIMT_TSAN
    __tsan_switch_to_fiber(running.tsan, 1);
#endif
    simt_switch(&me->stack_pointer, running.stack_pointer);
}

void wait_for_others(const char *where, uint64_t detail)
{
    current->state = WAITING;
    current->where = where;
    current->detail = detail;
    to_scheduler();
}

void spin(const char *where, uint64_t detail)
{
    current->where = where;
    current->detail = detail;
    to_scheduler();
}

static void thread_entry()
{
    acquire(&running.begins);
    running.body(running.context);
    release(&running.ends);
    if (current->copies_begin != current->copies_end)
        report("ends with asynchronous copies that it never waited for");
    current->state = DONE;
    current->cta->n_live--;
    progress++;
    barrier_thread_ended(current->cta);
    cluster_thread_ended();
    to_scheduler();
    abort();
}

#ifdef SIMT_TSAN
/* In reports of ThreadSanitizer. The CTA is another one in each launch: say. */
static std::string name_of(const struct thread *thread)
{
    return "thread " + std::to_string(thread->id) + " (warp " + std::to_string(thread->warp) +
           ", lane " + std::to_string(thread->lane) + ")";
}
#endif

static void begin_thread(struct seat *seat, unsigned i)
{
    struct thread *thread = &seat->threads[i];
    thread->cta = &seat->cta;
    thread->id = i;
    thread->lane = i % WARP_LANES;
    thread->warp = i / WARP_LANES;
    thread->index = dim3(i, 0, 0);
    thread->state = READY;
    thread->where = nullptr;
    thread->has_fenced = false;
    thread->not_fenced = nullptr;
    thread->has_arrived = false;
    thread->copies_begin = thread->copies_end = thread->groups_begin = thread->groups_end = 0;
    if (seat->stacks.size() <= i) {
        seat->stacks.push_back(map_pages(STACK_BYTES, MAP_NORESERVE));
        seat->copies.push_back(std::make_unique<struct copy[]>(COPIES_MAX));
#ifdef SIMT_TSAN
        seat->tsan.push_back(__tsan_create_fiber(0));
        __tsan_set_fiber_name(seat->tsan.back(), name_of(thread).c_str());
#endif
    }
    thread->stack = seat->stacks[i];
    thread->copies = seat->copies[i].get();
#ifdef SIMT_TSAN
    thread->tsan = seat->tsan[i];
#endif
    thread->stack_pointer = simt_switch_begin(thread->stack, STACK_BYTES, thread_entry);
}

/* Poison is 0xff: NaN in every format. n: a multiple of 8. Volatile, lest a compiler call something that ThreadSanitizer sees. */
static void poison(uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n / sizeof(uint64_t); i++)
        ((volatile uint64_t *)bytes)[i] = ~0ull;
}

/* Shared memory ends exactly at its guard page, as far as its alignment of 1024 lets it. */
static void begin_cta(struct seat *seat, unsigned number, dim3 grid, unsigned n_threads,
                      size_t shared_bytes)
{
    struct cta *cta = &seat->cta;
    if (!seat->shared) {
        const size_t most = (SHARED_BYTES_MAX + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
        seat->shared = map_pages(most + PAGE_BYTES, 0);
        if (mprotect(seat->shared + most, PAGE_BYTES, PROT_NONE))
            report("no guard page behind shared memory");
        seat->shared += most;
    }
    cta->number = number;
    cta->index = dim3(number % grid.x, number / grid.x % grid.y, number / grid.x / grid.y);
    cta->size = dim3(n_threads);
    cta->grid = grid;
    cta->rank = schedule.cluster ? number % schedule.cluster : 0;
    cta->n_threads = cta->n_live = n_threads;
    cta->shared_bytes = shared_bytes;
    cta->shared = seat->shared - (shared_bytes + 1023) / 1024 * 1024;
    poison(cta->shared, (size_t)(seat->shared - cta->shared));
    seat->threads.resize(n_threads);
    seat->warps.assign((n_threads + WARP_LANES - 1) / WARP_LANES, warp{});
    cta->threads = seat->threads.data();
    cta->warps = seat->warps.data();
    for (struct barrier &barrier : cta->barriers)
        barrier.arrived = barrier.expected = barrier.n_waiting = 0;
    cta->cluster = {};
    cta->has_begun = false;
    for (unsigned i = 0; i < n_threads; i++)
        begin_thread(seat, i);
}

/* 0 .. n - 1. n: at most 2^24. */
static size_t below(size_t n)
{
    running.random = running.random * 1664525u + 1013904223u;
    return (size_t)((uint64_t)(running.random >> 8) * n >> 24);
}

template <class T> static void shuffle(std::vector<T> &order)
{
    for (size_t i = order.size(); i > 1; i--)
        std::swap(order[i - 1], order[below(i)]);
}

static void run_thread(struct thread *thread)
{
    current = thread;
    thread->cta->has_begun = true;
#ifdef SIMT_TSAN
    __tsan_switch_to_fiber(thread->tsan, 1);
#endif
    simt_switch(&running.stack_pointer, thread->stack_pointer);
}

static bool is_group_done()
{
    for (unsigned i = 0; i < running.n_live; i++)
        if (running.seats[i]->cta.n_live)
            return false;
    return true;
}

static void report_stuck(bool is_deadlock)
{
    for (unsigned i = 0; i < running.n_live; i++)
        if (running.seats[i]->cta.n_live)
            report_threads(&running.seats[i]->cta, is_deadlock);
    abort();
}

/* Where threads are shuffled, one warp in turn stands still for HELD_ROUNDS, while others can run: as far behind as it may be. */
static unsigned warp_to_hold(unsigned n_threads)
{
    return (unsigned)below((n_threads + WARP_LANES - 1) / WARP_LANES * running.n_live);
}

/* Rounds of all threads until they have ended. */
static void run_group(unsigned n_threads)
{
    const unsigned warps = (n_threads + WARP_LANES - 1) / WARP_LANES;
    unsigned held = NO_WARP, n_rounds = 0;
    std::vector<struct thread *> order(running.n_live * n_threads);
    for (unsigned i = 0; i < order.size(); i++) {
        order[i] = &running.seats[i / n_threads]->threads[i % n_threads];
        order[i]->live_warp = i / n_threads * warps + order[i]->warp;
    }
    unsigned idle = 0;
    while (!is_group_done()) {
        const uint64_t before = progress;
        bool ran = false;
        if (schedule.seed)
            shuffle(order);
        if (schedule.seed && n_rounds++ % HELD_ROUNDS == 0)
            held = warp_to_hold(n_threads);
        for (struct thread *thread : order) {
            if (thread->state != READY || thread->live_warp == held)
                continue;
            run_thread(thread);
            ran = true;
        }
        if (held != NO_WARP &&
            (!ran || progress == before)) { /* who stands still is waited for: for a round */
            held = NO_WARP;
            n_rounds = HELD_ROUNDS - 1;
            continue;
        }
        if (progress != before) {
            idle = 0;
            continue;
        }
        if (is_group_done())
            break;
        if (!ran || ++idle > IDLE_ROUNDS_MAX)
            report_stuck(!ran);
    }
}

static void check_shape(dim3 grid, unsigned n_threads, size_t shared_bytes)
{
    if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.y > 65535 || grid.z > 65535)
        report("a grid of %u,%u,%u CTAs cannot be launched", grid.x, grid.y, grid.z);
    if (n_threads == 0 || n_threads > 1024)
        report("a CTA of %u threads cannot be launched", n_threads);
    if (shared_bytes > SHARED_BYTES_MAX)
        report("%zu bytes of shared memory: a CTA has at most %zu", shared_bytes,
               (size_t)SHARED_BYTES_MAX);
    if (cluster_size() > CLUSTER_CTAS_MAX)
        report("a cluster of %u CTAs cannot be launched", cluster_size());
    if (grid.x % cluster_size())
        report("%u CTAs along x are no whole number of clusters of %u", grid.x, cluster_size());
}

void launch(dim3 grid, unsigned n_threads, size_t shared_bytes, void (*body)(void *), void *context)
{
    current = nullptr;
    check_shape(grid, n_threads, shared_bytes);
    const unsigned n = grid.x * grid.y * grid.z;
    const unsigned cluster = cluster_size();
    const unsigned resident = std::min(n, (std::max(schedule.resident, 1u) + cluster - 1) /
                                              cluster * cluster);
    running.body = body;
    running.context = context;
    running.random = schedule.seed * 2654435761u + 1;
#ifdef SIMT_TSAN
    running.tsan = __tsan_get_current_fiber();
#endif
    while (running.seats.size() < resident)
        running.seats.push_back(std::make_unique<struct seat>());
    std::vector<unsigned> order((n + cluster - 1) /
                                cluster); /* of clusters: their CTAs stay together */
    for (unsigned i = 0; i < order.size(); i++)
        order[i] = i;
    if (schedule.seed)
        shuffle(order);
    checks_begin(n, __builtin_frame_address(0));
    for (unsigned first = 0; first < n; first += resident) {
        running.n_live = std::min(resident, n - first);
        acquire(&running.ends);
        release(&running.begins);
        for (unsigned i = 0; i < running.n_live; i++) {
            const unsigned k = first + i;
            begin_cta(running.seats[i].get(), order[k / cluster] * cluster + k % cluster, grid,
                      n_threads, shared_bytes);
        }
        run_group(n_threads);
        checks_end_group();
    }
    acquire(&running.ends);
    current = nullptr;
}

struct cta *live_cta(unsigned number)
{
    for (unsigned i = 0; i < running.n_live; i++)
        if (running.seats[i]->cta.number == number)
            return &running.seats[i]->cta;
    report("CTA number %u is not live", number);
}

bool is_on_stack(const void *p)
{
    const uint8_t *at = (const uint8_t *)p;
    for (unsigned i = 0; i < running.n_live; i++) {
        const struct seat *seat = running.seats[i].get();
        for (unsigned k = 0; k < seat->cta.n_threads; k++)
            if (at >= seat->stacks[k] && at < seat->stacks[k] + STACK_BYTES)
                return true;
    }
    return false;
}
} // namespace simt
