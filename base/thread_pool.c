#include "base/thread_pool.h"

#include "base/clock.h"
#include "base/cpu_cores.h"
#include "base/thread_place.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * One word distributes the indices: remaining, the number of indices that no thread has taken yet.
 * The thread that lowers it from r to r - 1 owns index n - r, and so keeps the run open: n, body
 * and arg cannot change until this thread has lowered unfinished. Only owners read them, so they
 * need no atomics.
 *
 *     run:     n, body, arg -> unfinished = n -> remaining = n (release) -> epoch + 1 -> wake
 *     owner:   remaining - 1 (acquire) -> body -> unfinished - 1 (release)
 *     sleeper: sleepers + 1 -> still no work? -> wait while epoch has not changed
 *
 * No thread waits for one that took no index: a thread that the kernel does not run costs nothing.
 */

#define CACHE_LINE 64

/* In a virtual machine, waking a sleeping thread cost the waker 25 us; the serial part between two
 * kernels of a step takes a few us. Threads spin twice the wake-up time, so that during a step they
 * sleep only if its work is badly split. */
#define SPIN_NS (50 * NS_PER_US)

struct thread_pool {
    _Alignas(CACHE_LINE) atomic_uint remaining;
    _Alignas(CACHE_LINE) atomic_uint unfinished; /* futex of the caller */
    atomic_uint caller_sleeps;
    _Alignas(CACHE_LINE)
        atomic_uint epoch; /* futex of the others: changes with each run and at destroy */
    atomic_uint sleepers;
    atomic_bool stopping;

    _Alignas(CACHE_LINE) uint32_t n; /* of the present run, as are body and arg */
    thread_pool_body body;
    void *arg;

    uint32_t n_threads, n_started; /* n_started: without the caller */
    bool spins;
    pthread_t threads[];
};

static void futex_wait(atomic_uint *word, unsigned expected)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

static void futex_wake(atomic_uint *word, unsigned n)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

static void relax(void)
{
#if defined __x86_64__
    __builtin_ia32_pause();
#elif defined __aarch64__
    __asm__ volatile("yield");
#endif
}

static bool has_work(struct thread_pool *pool)
{
    return atomic_load_explicit(&pool->remaining, memory_order_relaxed) > 0 ||
           atomic_load_explicit(&pool->stopping, memory_order_relaxed);
}

static bool is_finished(struct thread_pool *pool)
{
    return atomic_load_explicit(&pool->unfinished, memory_order_acquire) == 0;
}

/* True: is_over became true while this thread was spinning. */
static bool spin(struct thread_pool *pool, bool (*is_over)(struct thread_pool *))
{
    if (is_over(pool))
        return true;
    if (!pool->spins)
        return false;
    uint64_t until_ns = clock_now_ns() + SPIN_NS;
    do {
        for (int i = 0; i < 32; i++) {
            if (is_over(pool))
                return true;
            relax();
        }
    } while (clock_now_ns() < until_ns);
    return false;
}

static bool take(struct thread_pool *pool, uint32_t *index_out)
{
    unsigned remaining = atomic_load_explicit(&pool->remaining, memory_order_relaxed);
    while (remaining > 0) {
        if (atomic_compare_exchange_weak_explicit(&pool->remaining, &remaining, remaining - 1,
                                                  memory_order_acquire, memory_order_relaxed)) {
            assert(remaining <= pool->n);
            *index_out = pool->n - remaining;
            return true;
        }
    }
    return false;
}

static void work(struct thread_pool *pool)
{
    uint32_t index;
    while (take(pool, &index)) {
        pool->body(pool->arg, index);
        if (atomic_fetch_sub(&pool->unfinished, 1) == 1 && atomic_load(&pool->caller_sleeps))
            futex_wake(&pool->unfinished, 1);
    }
}

static void sleep_until_run(struct thread_pool *pool)
{
    unsigned epoch = atomic_load(&pool->epoch);
    atomic_fetch_add(&pool->sleepers, 1);
    if (!has_work(pool))
        futex_wait(&pool->epoch, epoch);
    atomic_fetch_sub(&pool->sleepers, 1);
}

static void *thread_main(void *arg)
{
    struct thread_pool *pool = arg;
    while (!atomic_load(&pool->stopping)) {
        if (!spin(pool, has_work))
            sleep_until_run(pool);
        work(pool);
    }
    return NULL;
}

static void wake_others(struct thread_pool *pool, uint32_t n_useful)
{
    atomic_fetch_add(&pool->epoch, 1);
    if (atomic_load(&pool->sleepers) > 0)
        futex_wake(&pool->epoch, n_useful < INT_MAX ? n_useful : INT_MAX);
}

void thread_pool_run(struct thread_pool *pool, uint32_t n, thread_pool_body body, void *arg)
{
    assert(body && atomic_load(&pool->unfinished) == 0);
    if (n < 2 || pool->n_threads == 1) {
        for (uint32_t i = 0; i < n; i++)
            body(arg, i);
        return;
    }

    pool->n = n;
    pool->body = body;
    pool->arg = arg;
    atomic_store_explicit(&pool->unfinished, n, memory_order_relaxed);
    atomic_store(&pool->remaining, n);
    wake_others(pool, n - 1);
    work(pool);

    if (spin(pool, is_finished))
        return;
    atomic_store(&pool->caller_sleeps, 1);
    for (unsigned left; (left = atomic_load(&pool->unfinished)) > 0;)
        futex_wait(&pool->unfinished, left);
    atomic_store(&pool->caller_sleeps, 0);
}

/* Best effort: a pool that cannot bind its threads is slower, not wrong. */
static void pin_thread(pthread_t thread, const cpu_set_t *allowed, uint32_t nth)
{
    cpu_set_t one;
    cpu_set_nth(allowed, nth, &one);
    pthread_setaffinity_np(thread, sizeof one, &one);
}

static enum status start_threads(struct thread_pool *pool, const cpu_set_t *pin_to)
{
    for (uint32_t i = 1; i < pool->n_threads; i++) {
        pthread_t *thread = &pool->threads[pool->n_started];
        if (pthread_create(thread, NULL, thread_main, pool) != 0)
            return STATUS_NO_THREAD;
        pool->n_started++;

        char name[16];
        snprintf(name, sizeof name, "compute-%u", i % (THREADS_MAX + 1));
        pthread_setname_np(*thread, name);
        if (pin_to)
            pin_thread(*thread, pin_to, i % (uint32_t)CPU_COUNT(pin_to));
    }
    return STATUS_OK;
}

/* With fewer CPUs than threads, spinning takes time from threads that have work. */
static bool has_cpu_each(const struct cpu_room *room, uint32_t n_threads)
{
    return n_threads <= (uint32_t)CPU_COUNT(&room->allowed) &&
           (room->quota == 0 || n_threads <= room->quota);
}

uint32_t thread_pool_default(const struct cpu_cores *cores)
{
    return cores->threads < THREADS_MAX ? cores->threads : THREADS_MAX;
}

enum status thread_pool_create(uint32_t n_threads, bool pin, struct thread_pool **pool_out)
{
    if (n_threads > THREADS_MAX)
        return STATUS_INVALID_ARGUMENT;

    struct cpu_room room;
    struct cpu_cores cores;
    cpu_room_read("", &room);
    cpu_cores_read("", &room, &cores);
    if (n_threads == 0)
        n_threads = thread_pool_default(&cores);
    const bool has_core_each = n_threads <= (uint32_t)CPU_COUNT(&cores.computing);

    assert(n_threads > 0);
    size_t bytes = sizeof(struct thread_pool) + n_threads * sizeof(pthread_t);
    bytes = (bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    struct thread_pool *pool = aligned_alloc(CACHE_LINE, bytes);
    if (!pool)
        return STATUS_NO_MEMORY;
    *pool = (struct thread_pool){.n_threads = n_threads, .spins = has_cpu_each(&room, n_threads)};

    enum status status = start_threads(pool, !pin            ? NULL
                                             : has_core_each ? &cores.computing
                                                             : &room.allowed);
    if (status != STATUS_OK)
        goto fail;
    *pool_out = pool;
    return STATUS_OK;

fail:
    thread_pool_destroy(pool);
    return status;
}

void thread_pool_place(struct thread_pool *pool, const struct cpu_cores *cores)
{
    for (uint32_t i = 0; i < pool->n_started; i++) {
        cpu_set_t cpus;
        cpu_cores_of_thread(cores, i + 1, &cpus);
        pthread_setaffinity_np(pool->threads[i], sizeof cpus, &cpus);
    }
}

void thread_pool_destroy(struct thread_pool *pool)
{
    if (!pool)
        return;
    assert(atomic_load(&pool->unfinished) == 0); /* no run is in progress */
    atomic_store(&pool->stopping, true);
    wake_others(pool, INT_MAX);
    for (uint32_t i = 0; i < pool->n_started; i++)
        pthread_join(pool->threads[i], NULL);
    free(pool);
}

uint32_t thread_pool_size(const struct thread_pool *pool)
{
    return pool->n_threads;
}
