/* text_thread: every job that was taken runs once, in order, before stop returns; a full queue says
 * so at once. */
#include "router/text_thread.h"

#include <criterion/criterion.h>
#include <semaphore.h>

enum { N_JOBS = 200 };

static uint32_t order[N_JOBS], n_run;
static sem_t began, may_go;

static void note(void *arg)
{
    order[n_run++] = *(const uint32_t *)arg;
}

static void block(void *arg)
{
    (void)arg;
    sem_post(&began);
    sem_wait(&may_go);
}

Test(text_thread, runs_all_in_order_before_it_stops)
{
    struct text_thread *thread;
    static uint32_t numbers[N_JOBS];
    cr_assert_eq(text_thread_start(256, &thread), STATUS_OK);
    for (uint32_t i = 0; i < N_JOBS; i++) {
        numbers[i] = i;
        cr_assert_eq(text_thread_push(thread, note, &numbers[i]), STATUS_OK);
    }
    text_thread_stop(thread);
    cr_assert_eq(n_run, N_JOBS);
    for (uint32_t i = 0; i < N_JOBS; i++)
        cr_assert_eq(order[i], i);
}

Test(text_thread, refuses_when_the_queue_is_full)
{
    struct text_thread *thread;
    uint32_t number = 0, n_taken = 0;
    sem_init(&began, 0, 0);
    sem_init(&may_go, 0, 0);
    cr_assert_eq(text_thread_start(4, &thread), STATUS_OK);
    cr_assert_eq(text_thread_push(thread, block, NULL), STATUS_OK);
    sem_wait(&began);
    enum status status;
    while ((status = text_thread_push(thread, note, &number)) == STATUS_OK)
        cr_assert_leq(++n_taken, 4);
    cr_assert_eq(status, STATUS_QUEUE_FULL);
    cr_assert_eq(n_taken, 4);
    sem_post(&may_go);
    text_thread_stop(thread);
    cr_assert_eq(n_run, n_taken, "what was refused does not run");
    text_thread_stop(NULL);
}
