/*
 * threads - the machine that kernels run on here: the threads of one CTA, or of several that are live at once, are fibers
 * of the calling thread, switched where a thread waits. What a kernel may not do ends the process with a sentence.
 *
 * Every function is compiled without a sanitizer; under ThreadSanitizer (SIMT_TSAN) each fiber is a thread to it, and
 * only acquire and release order them: of fibers only what a barrier, warp_sync, a fence or a release orders on the device.
 *
 * Thread: one at a time.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c)
    {
    }
};

namespace simt
{
enum : unsigned { WARP_LANES = 32, BARRIERS = 16, COPIES_MAX = 1024, COPY_GROUPS_MAX = 64 };
enum : size_t { STACK_BYTES = 256 << 10 };

/* Sixteen bytes from global to shared memory; zeros where source is NULL. */
struct copy {
    uint8_t *target;
    const uint8_t *source;
};

enum : uint64_t { BARRIER = 1ull << 32, CLUSTER = 1ull << 33 };
enum thread_state { READY, WAITING, DONE };

struct cta;
struct thread {
    void *stack_pointer;
    uint8_t *stack;
    void *tsan;
    struct cta *cta;
    dim3 index;
    unsigned id, lane, warp;
    unsigned live_warp; /* among those of the CTAs that are live */
    thread_state state;
    const char *where;      /* the collective it waits in */
    uint64_t detail;        /* the lanes it waits for, BARRIER + the barrier's number, or CLUSTER */
    bool has_fenced;        /* since its last atomic operation */
    const void *not_fenced; /* the place of that, if no fence has followed */
    bool has_arrived;       /* at the cluster's barrier, and has not waited since ... */
    uint32_t arrived_in;    /* ... in this phase */
    /* Rings: asynchronous copies not made yet, and where their groups end. */
    unsigned copies_begin, copies_end, groups_begin, groups_end;
    unsigned group_end[COPY_GROUPS_MAX];
    struct copy *copies; /* COPIES_MAX; apart, as all threads are looked at all the time */
};

struct collective_slot {
    uint32_t mask, arrived;
    const char *name;
    void *arguments[WARP_LANES];
};

struct warp {
    struct collective_slot slots[4]; /* of different masks */
    char order;                      /* what acquire and release of the warp go by */
};

struct barrier {
    unsigned arrived, expected; /* expected: of the arrivals so far */
    unsigned n_waiting;
    struct thread *waiting[1024];
};

struct cta {
    dim3 index, size, grid;
    unsigned number; /* in the grid */
    unsigned rank;   /* in its cluster */
    unsigned n_threads, n_live;
    uint8_t *shared; /* begins at a page, ends at a guard page */
    size_t shared_bytes;
    struct thread *threads;
    struct warp *warps;
    struct barrier barriers[BARRIERS];
    struct {
        unsigned n_arrived; /* threads that have not ended */
        uint32_t phase;     /* barriers that are complete */
    } cluster;              /* of the one with rank 0 */
    bool has_begun;         /* a thread of it has run */
};

struct schedule {
    bool copies_late;
    uint32_t seed;
    uint32_t resident, cluster;
    bool count_banks;
    bool only_bounds;
};

struct counts {
    uint64_t switches, collectives, barriers, products;
    uint64_t shared_accesses,
        bank_conflicts; /* of warps; conflicts: turns more than it takes at best */
};

extern struct thread *current;
extern struct schedule schedule;
extern struct counts counts;
/* Moves when a thread does something that another may wait for: without it a round of all threads is a deadlock. */
extern uint64_t progress;

/* Runs body in every thread of every CTA. */
void launch(dim3 grid, unsigned n_threads, size_t shared_bytes, void (*body)(void *context),
            void *context);
template <class Body> void launch(dim3 grid, unsigned n_threads, size_t shared_bytes, Body body)
{
    launch(
        grid, n_threads, shared_bytes, [](void *context) { (*(Body *)context)(); }, &body);
}

/* The lanes of mask meet; the last one to come calls all with their arguments, by lane. name: a literal. */
void collective(uint32_t mask, const char *name, void *argument,
                void (*all)(void **arguments, uint32_t mask));
/* n_threads 0: all of the CTA that have not ended. */
void barrier_sync(unsigned id, unsigned n_threads, const char *name);
void barrier_arrive(unsigned id, unsigned n_threads);
void warp_sync(uint32_t mask);
/* The others' turn; the thread stays ready. where: what it spins on. */
void spin(const char *where, uint64_t detail);

bool are_copies_late();
void copy_begin(const struct copy &copy);
void copy_commit();
/* What wait_group n makes now, one copy at a time; false: nothing more. */
bool copy_take(unsigned n_groups, struct copy *copy_out);

/* For ThreadSanitizer: what was done before release(place) happens before what follows acquire(place). */
void acquire(void *place);
void release(void *place);

/* A kernel's own, the same during all of its life. */
struct dim3 thread_index() __attribute__((const));
struct dim3 cta_index() __attribute__((const));
struct dim3 cta_size() __attribute__((const));
struct dim3 grid_size() __attribute__((const));
uint8_t *shared_memory() __attribute__((const));

/* Prints "simt: CTA 0,0,0 thread 5 (warp 0, lane 5): ..." and ends the process. */
[[noreturn]] void report(const char *format, ...) __attribute__((format(printf, 1, 2)));
} // namespace simt

#define threadIdx (simt::thread_index())
#define blockIdx  (simt::cta_index())
#define blockDim  (simt::cta_size())
#define gridDim   (simt::grid_size())
