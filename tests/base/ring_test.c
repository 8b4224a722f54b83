/* ring: bounded, first in first out per producer, and nobody's message is lost between threads. */

#include "base/clock.h"
#include "base/ring.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>

static struct ring *new_ring(uint32_t items_max)
{
    struct ring *ring;
    cr_assert_eq(ring_create(sizeof(uint64_t), items_max, &ring), STATUS_OK);
    return ring;
}

Test(ring, refuses_what_cannot_be)
{
    struct ring *ring;
    cr_expect_eq(ring_create(0, 4, &ring), STATUS_INVALID_ARGUMENT);
    cr_expect_eq(ring_create(4, 0, &ring), STATUS_INVALID_ARGUMENT);
    cr_expect_eq(ring_create(SIZE_MAX / 2, 3, &ring), STATUS_NO_MEMORY);
    ring_destroy(NULL);
}

Test(ring, a_look_at_what_is_queued_takes_nothing)
{
    struct ring *ring = new_ring(3);
    uint64_t item = 0;
    cr_assert_not(ring_peek(ring, 0, &item));
    for (uint64_t i = 0; i < 10; i++) { /* around its end, too */
        cr_assert_eq(ring_push(ring, &i), STATUS_OK);
        cr_assert_eq(ring_push(ring, &(uint64_t){i + 100}), STATUS_OK);
        cr_assert(ring_peek(ring, 1, &item));
        cr_assert_eq(item, i + 100);
        cr_assert(ring_peek(ring, 0, &item));
        cr_assert_eq(item, i);
        cr_assert_not(ring_peek(ring, 2, &item));
        cr_assert_eq(ring_count(ring), 2);
        cr_assert(ring_pop(ring, &item) && item == i);
        cr_assert(ring_pop(ring, &item) && item == i + 100);
    }
    ring_destroy(ring);
}

Test(ring, a_full_ring_changes_nothing)
{
    struct ring *ring = new_ring(3);
    uint64_t item;
    for (uint64_t round = 0; round < 10; round++) { /* around its end, too */
        for (uint64_t i = 0; i < 3; i++)
            cr_assert_eq(ring_push(ring, &(uint64_t){10 * round + i}), STATUS_OK);
        cr_assert_eq(ring_push(ring, &(uint64_t){99}), STATUS_QUEUE_FULL);
        cr_assert_eq(ring_count(ring), 3);
        for (uint64_t i = 0; i < 3; i++) {
            cr_assert(ring_pop(ring, &item));
            cr_assert_eq(item, 10 * round + i);
        }
        cr_assert_not(ring_pop(ring, &item));
        if (round == 4) { /* from here on the oldest is not at the start */
            cr_assert_eq(ring_push(ring, &(uint64_t){7}), STATUS_OK);
            cr_assert(ring_pop(ring, &item));
        }
    }
    ring_destroy(ring);
}

Test(ring, wait_returns_at_once_for_an_item_a_wake_or_a_passed_time)
{
    struct ring *ring = new_ring(1);
    ring_wait(ring, 0); /* passed */

    ring_wake(ring);
    ring_wait(ring, DEADLINE_NONE);

    cr_assert_eq(ring_push(ring, &(uint64_t){1}), STATUS_OK);
    ring_wait(ring, DEADLINE_NONE);
    ring_destroy(ring);
}

enum { N_PRODUCERS = 4, PER_PRODUCER = 5000 };

struct producer {
    struct ring *ring;
    uint64_t id;
};

static void *produce(void *arg)
{
    const struct producer *producer = arg;
    for (uint64_t i = 0; i < PER_PRODUCER; i++) {
        uint64_t item = producer->id << 32 | i;
        while (ring_push(producer->ring, &item) != STATUS_OK)
            sched_yield();
    }
    return NULL;
}

Test(ring, takes_from_many_threads_in_order_of_each, .timeout = 60)
{
    struct ring *ring = new_ring(8);
    struct producer producers[N_PRODUCERS];
    pthread_t threads[N_PRODUCERS];
    uint64_t next[N_PRODUCERS] = {0}, item;

    for (uint64_t i = 0; i < N_PRODUCERS; i++) {
        producers[i] = (struct producer){ring, i};
        pthread_create(&threads[i], NULL, produce, &producers[i]);
    }
    for (int n_got = 0; n_got < N_PRODUCERS * PER_PRODUCER;) {
        ring_wait(ring, DEADLINE_NONE);
        while (ring_pop(ring, &item)) {
            cr_assert_eq((uint32_t)item, next[item >> 32]++);
            n_got++;
        }
    }
    for (int i = 0; i < N_PRODUCERS; i++)
        pthread_join(threads[i], NULL);
    cr_expect_eq(ring_count(ring), 0);
    ring_destroy(ring);
}

static void *wake(void *arg)
{
    ring_wake(arg);
    return NULL;
}

Test(ring, a_wake_reaches_a_waiting_thread, .timeout = 60)
{
    struct ring *ring = new_ring(1);
    for (int i = 0; i < 200; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, wake, ring);
        ring_wait(ring, DEADLINE_NONE);
        pthread_join(thread, NULL);
    }
    ring_destroy(ring);
}
