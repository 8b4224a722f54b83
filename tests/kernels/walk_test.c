/* walk: each index runs exactly once; a thread that is held up keeps nobody from the indices of its run. */
#include "kernels/cpu/walk.h"

#include <criterion/criterion.h>
#include <sched.h>
#include <string.h>

enum { N_MAX = 300 };

static struct thread_pool *new_pool(uint32_t n_threads)
{
    struct thread_pool *pool;
    cr_assert_eq(thread_pool_create(n_threads, false, &pool), STATUS_OK);
    return pool;
}

static void count_index(void *arg, uint32_t index)
{
    uint32_t *times = arg; /* plain: two threads on one index are a data race for the sanitizer */
    times[index]++;
}

static void walk_and_check(struct thread_pool *pool, uint32_t n)
{
    uint32_t times[N_MAX] = {0};
    walk_all(pool, PARALLEL_WORK_MIN, n, count_index, times);
    for (uint32_t i = 0; i < N_MAX; i++)
        cr_assert_eq(times[i], i < n, "index %u of %u", i, n);
}

Test(walk, runs_each_index_once, .timeout = 120)
{
    static const uint32_t sizes[] = {1, 2, 3, 5};
    for (unsigned s = 0; s < 4; s++) {
        struct thread_pool *pool = new_pool(sizes[s]);
        for (uint32_t n = 0; n <= N_MAX; n += n < 20 ? 1 : 35)
            walk_and_check(pool, n);
        thread_pool_destroy(pool);
    }
    walk_and_check(NULL, N_MAX);
}

static void note_order(void *arg, uint32_t index)
{
    uint32_t *next = arg;
    cr_assert_eq(index, *next);
    ++*next;
}

Test(walk, small_work_stays_on_the_caller_in_order, .timeout = 60)
{
    uint32_t next = 0;
    struct thread_pool *pool = new_pool(3);
    walk_all(pool, PARALLEL_WORK_MIN - 1, N_MAX, note_order, &next);
    cr_expect_eq(next, N_MAX);
    thread_pool_destroy(pool);
}

struct held {
    uint32_t index, n_others;
    atomic_uint n_done; /* without it */
};

/* The held index ends only when all others have run, also those of the same run. */
static void hold(void *arg, uint32_t index)
{
    struct held *held = arg;
    if (index != held->index) {
        atomic_fetch_add(&held->n_done, 1);
        return;
    }
    while (atomic_load(&held->n_done) < held->n_others)
        sched_yield();
}

Test(walk, others_take_the_indices_of_a_thread_that_is_held_up, .timeout = 120)
{
    for (uint32_t n_threads = 2; n_threads <= 4; n_threads++) {
        struct thread_pool *pool = new_pool(n_threads);
        for (uint32_t index = 0; index < 40; index += 3) {
            struct held held = {.index = index, .n_others = 39};
            walk_all(pool, PARALLEL_WORK_MIN, 40, hold, &held);
            cr_expect_eq(held.n_done, 39u);
        }
        thread_pool_destroy(pool);
    }
}
