/* text_thread: every job that was taken runs once, in order but for long texts, before stop returns; a queue that is full
 * by count or by bytes says so at once. */
#include "router/text_thread.h"

#include <criterion/criterion.h>
#include <semaphore.h>

enum { N_JOBS = 200 };

static uint32_t order[N_JOBS], n_run;
static sem_t began, may_go;
static struct error error;

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
    cr_assert_eq(text_thread_start(256, 1, &thread), STATUS_OK);
    for (uint32_t i = 0; i < N_JOBS; i++) {
        numbers[i] = i;
        cr_assert_eq(text_thread_push(thread, note, &numbers[i], 0, &error), STATUS_OK);
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
    cr_assert_eq(text_thread_start(4, 1, &thread), STATUS_OK);
    cr_assert_eq(text_thread_push(thread, block, NULL, 0, &error), STATUS_OK);
    sem_wait(&began);
    enum status status;
    while ((status = text_thread_push(thread, note, &number, 0, &error)) == STATUS_OK)
        cr_assert_leq(++n_taken, 4);
    cr_assert_eq(status, STATUS_QUEUE_FULL);
    cr_assert_str_eq(error.text, "4 texts wait to be read; no more may wait (text_queue_max)");
    cr_assert_eq(n_taken, 4);
    sem_post(&may_go);
    text_thread_stop(thread);
    cr_assert_eq(n_run, n_taken, "what was refused does not run");
    text_thread_stop(NULL);
}

Test(text_thread, refuses_more_bytes_than_may_wait_but_never_one_text_alone)
{
    struct text_thread *thread;
    uint32_t number = 0;
    sem_init(&began, 0, 0);
    sem_init(&may_go, 0, 0);
    cr_assert_eq(text_thread_start(64, 1000, &thread), STATUS_OK);
    cr_assert_eq(text_thread_push(thread, block, NULL, 400, &error), STATUS_OK);
    sem_wait(&began); /* what runs does not wait */
    cr_assert_eq(text_thread_push(thread, block, NULL, 5000, &error), STATUS_OK,
                 "nothing else waits");
    cr_assert_eq(text_thread_push(thread, note, &number, 1, &error), STATUS_QUEUE_FULL);
    sem_post(&may_go);
    sem_wait(&began);
    cr_assert_eq(text_thread_push(thread, note, &number, 400, &error), STATUS_OK,
                 "its bytes came free");
    cr_assert_eq(text_thread_push(thread, note, &number, 601, &error), STATUS_QUEUE_FULL);
    cr_assert_str_eq(error.text, "texts of 400 bytes wait to be read; with 601 more they are over "
                                 "1000 (text_queue_bytes_max)");
    cr_assert_eq(text_thread_push(thread, note, &number, 600, &error), STATUS_OK,
                 "a refused one is not held");
    cr_assert_eq(text_thread_push(thread, note, &number, 1, &error), STATUS_QUEUE_FULL);
    sem_post(&may_go);
    text_thread_stop(thread);
    cr_assert_eq(n_run, 2);
}

Test(text_thread, long_texts_stand_back_and_have_their_turn)
{
    enum { N_LONG = 3, N_SHORT = 20 };
    static const uint32_t EXPECTED[] = {3,  4,  5,  6,  7,  8, 9,  10, 0,  11, 12, 13,
                                        14, 15, 16, 17, 18, 1, 19, 20, 21, 22, 2};
    struct text_thread *thread;
    static uint32_t numbers[N_LONG + N_SHORT];
    sem_init(&began, 0, 0);
    sem_init(&may_go, 0, 0);
    n_run = 0;
    cr_assert_eq(text_thread_start(64, UINT64_MAX / 2, &thread), STATUS_OK);
    cr_assert_eq(text_thread_push(thread, block, NULL, 0, &error), STATUS_OK);
    sem_wait(&began);
    for (uint32_t i = 0; i < N_LONG + N_SHORT; i++) {
        numbers[i] = i;
        cr_assert_eq(text_thread_push(thread, note, &numbers[i],
                                      i < N_LONG ? TEXT_LONG_BYTES : TEXT_LONG_BYTES - 1, &error),
                     STATUS_OK);
    }
    sem_post(&may_go);
    text_thread_stop(thread);
    cr_assert_eq(n_run, N_LONG + N_SHORT);
    cr_assert_arr_eq(order, EXPECTED, sizeof EXPECTED);
}
