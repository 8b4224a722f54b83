#include "tests/sim/step_thread.h"

#include <pthread.h>
#include <stdlib.h>

struct step_thread {
    void (*run)(void *arg);
    void *arg;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t turned;
    bool is_its_turn, has_ended, is_over; /* has_ended: the step; is_over: there are no more */
};

/* The turn is the other's, until it is this one's again. Under the lock. */
static void hand_over(struct step_thread *thread, bool to_step)
{
    thread->is_its_turn = to_step;
    pthread_cond_broadcast(&thread->turned);
    while (thread->is_its_turn == to_step)
        pthread_cond_wait(&thread->turned, &thread->lock);
}

static void *loop(void *arg)
{
    struct step_thread *thread = arg;
    pthread_mutex_lock(&thread->lock);
    while (!thread->is_its_turn)
        pthread_cond_wait(&thread->turned, &thread->lock);
    while (!thread->is_over) {
        pthread_mutex_unlock(&thread->lock);
        thread->run(thread->arg);
        pthread_mutex_lock(&thread->lock);
        thread->has_ended = true;
        hand_over(thread, false);
    }
    pthread_mutex_unlock(&thread->lock);
    return NULL;
}

struct step_thread *step_thread_create(void (*run)(void *arg), void *arg)
{
    struct step_thread *thread = calloc(1, sizeof *thread);
    if (!thread)
        abort();
    thread->run = run;
    thread->arg = arg;
    pthread_mutex_init(&thread->lock, NULL);
    pthread_cond_init(&thread->turned, NULL);
    if (pthread_create(&thread->thread, NULL, loop, thread) != 0)
        abort();
    return thread;
}

void step_thread_destroy(struct step_thread *thread)
{
    if (!thread)
        return;
    pthread_mutex_lock(&thread->lock);
    thread->is_over = thread->is_its_turn = true;
    pthread_cond_broadcast(&thread->turned);
    pthread_mutex_unlock(&thread->lock);
    pthread_join(thread->thread, NULL);
    pthread_cond_destroy(&thread->turned);
    pthread_mutex_destroy(&thread->lock);
    free(thread);
}

bool step_thread_go(struct step_thread *thread)
{
    pthread_mutex_lock(&thread->lock);
    thread->has_ended = false;
    hand_over(thread, true);
    bool has_ended = thread->has_ended;
    pthread_mutex_unlock(&thread->lock);
    return has_ended;
}

void step_thread_pause(struct step_thread *thread)
{
    pthread_mutex_lock(&thread->lock);
    hand_over(thread, false);
    pthread_mutex_unlock(&thread->lock);
}
