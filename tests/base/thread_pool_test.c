/* thread_pool: each index runs exactly once, run is a barrier, whatever the threads do meanwhile. */

#include "base/thread_place.h"
#include "base/thread_pool.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { N_MAX = 300 };

struct count {
    uint32_t times[N_MAX]; /* plain: two threads on one index are a data race for the sanitizer */
    uint64_t sum;
};

static void count_index(void *arg, uint32_t index)
{
    struct count *count = arg;
    count->times[index]++;
}

static struct thread_pool *new_pool(uint32_t n_threads)
{
    struct thread_pool *pool;
    cr_assert_eq(thread_pool_create(n_threads, false, &pool), STATUS_OK);
    return pool;
}

static void run_and_check(struct thread_pool *pool, uint32_t n)
{
    struct count count;
    memset(&count, 0, sizeof count);
    thread_pool_run(pool, n, count_index, &count);
    for (uint32_t i = 0; i < N_MAX; i++)
        cr_assert_eq(count.times[i], i < n, "index %u of %u", i, n);
}

Test(thread_pool, runs_each_index_once, .timeout = 120)
{
    static const uint32_t sizes[] = {1, 2, 3, 5};
    for (unsigned s = 0; s < 4; s++) {
        struct thread_pool *pool = new_pool(sizes[s]);
        cr_expect_eq(thread_pool_size(pool), sizes[s]);
        for (uint32_t n = 0; n <= N_MAX; n += n < 20 ? 1 : 35)
            run_and_check(pool, n);
        thread_pool_destroy(pool);
    }
}

static void add_own(void *arg, uint32_t index)
{
    uint64_t *cells = arg;
    cells[index] += cells[(index + 1) % 8 + 8]; /* reads what the run before wrote */
}

static void copy_over(void *arg, uint32_t index)
{
    uint64_t *cells = arg;
    cells[index + 8] = cells[index];
}

/* Two kernels that read each other's output: a missing barrier is a wrong sum and a data race. */
Test(thread_pool, a_run_sees_all_that_the_run_before_wrote, .timeout = 120)
{
    struct thread_pool *pool = new_pool(3);
    uint64_t cells[16] = {0}, expected[16] = {0};
    for (int i = 0; i < 8; i++)
        cells[i] = expected[i] = cells[i + 8] = expected[i + 8] = (uint64_t)i + 1;

    for (int round = 0; round < 5000; round++) {
        thread_pool_run(pool, 8, add_own, cells);
        thread_pool_run(pool, 8, copy_over, cells);
        for (uint32_t i = 0; i < 8; i++)
            add_own(expected, i);
        for (uint32_t i = 0; i < 8; i++)
            copy_over(expected, i);
    }
    cr_expect_arr_eq(cells, expected, sizeof cells);
    thread_pool_destroy(pool);
}

/* Gaps longer than the spinning, so that the others sleep when a run begins. */
Test(thread_pool, wakes_threads_that_fell_asleep, .timeout = 120)
{
    struct thread_pool *pool = new_pool(4);
    for (int round = 0; round < 300; round++) {
        for (int i = 0; i < round; i++)
            sched_yield();
        run_and_check(pool, 40);
    }
    thread_pool_destroy(pool);
}

struct meeting {
    atomic_uint n_here;
};

static void meet(void *arg, uint32_t index)
{
    (void)index;
    struct meeting *meeting = arg;
    atomic_fetch_add(&meeting->n_here, 1);
    while (atomic_load(&meeting->n_here) < 3)
        sched_yield();
}

/* Ends only if three threads are inside at the same time. */
Test(thread_pool, really_runs_at_the_same_time, .timeout = 60)
{
    struct thread_pool *pool = new_pool(3);
    for (int round = 0; round < 200; round++) {
        struct meeting meeting = {0};
        thread_pool_run(pool, 3, meet, &meeting);
        cr_assert_eq(meeting.n_here, 3);
    }
    thread_pool_destroy(pool);
}

Test(thread_pool, is_made_and_ended_without_a_run, .timeout = 60)
{
    for (int i = 0; i < 100; i++)
        thread_pool_destroy(new_pool(4));
    thread_pool_destroy(NULL);
}

Test(thread_pool, takes_the_cpus_by_default_and_refuses_too_many)
{
    struct cpu_room room;
    struct cpu_cores cores;
    struct thread_pool *pool;
    cpu_room_read("", &room);
    cpu_cores_read("", &room, &cores);
    cr_assert_eq(thread_pool_create(0, true, &pool), STATUS_OK);
    cr_expect_eq(thread_pool_size(pool), cores.threads);
    run_and_check(pool, 50);
    thread_pool_destroy(pool);
    cr_expect_eq(thread_pool_create(THREADS_MAX + 1, false, &pool), STATUS_INVALID_ARGUMENT);
}

struct places {
    atomic_uint n_here;
    atomic_uint n_bound; /* threads whose CPUs are those of the placement */
    cpu_set_t wanted;
    pthread_t caller;
};

static void look_where(void *arg, uint32_t index)
{
    (void)index;
    struct places *places = arg;
    cpu_set_t here;
    sched_getaffinity(0, sizeof here, &here);
    if (!pthread_equal(pthread_self(), places->caller))
        atomic_fetch_add(&places->n_bound, CPU_EQUAL(&here, &places->wanted));
    atomic_fetch_add(&places->n_here, 1);
    while (atomic_load(&places->n_here) < 3)
        sched_yield();
}

Test(thread_pool, placed_threads_run_on_the_cpus_of_their_node, .timeout = 60)
{
    struct cpu_room room;
    struct cpu_cores cores = {.nodes = 1, .n_cores = 1, .threads = 1};
    struct places places = {.caller = pthread_self()};
    cpu_room_read("", &room);
    uint32_t last = CPU_SETSIZE - 1;
    while (!CPU_ISSET(last, &room.allowed))
        last--;
    CPU_SET(last, &cores.computing);
    CPU_SET(last, &cores.fast);
    places.wanted = cores.fast;
    struct thread_pool *pool = new_pool(3);
    thread_pool_place(pool, &cores);
    thread_pool_run(pool, 3, look_where, &places);
    cr_expect_eq(places.n_bound, 2);
    thread_pool_destroy(pool);
}

/* Room for the pool, not for a stack. The sanitizers' own threads and shadows want more than a limit. */
#ifndef KVFERRY_SANITIZED
Test(thread_pool, a_thread_that_cannot_start_is_not_called_memory, .timeout = 60)
{
    struct thread_pool *pool = NULL;
    unsigned long pages = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    cr_assert(statm && fscanf(statm, "%lu", &pages) == 1);
    fclose(statm);
    const rlim_t bytes = pages * (rlim_t)sysconf(_SC_PAGESIZE) + (1 << 20);
    cr_assert_eq(setrlimit(RLIMIT_AS, &(struct rlimit){bytes, bytes}), 0);
    cr_assert_eq(thread_pool_create(64, false, &pool), STATUS_NO_THREAD);
    cr_assert_null(pool);
}
#endif
