#include "router/text_thread.h"

#include "base/clock.h"
#include "base/ring.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct text_thread {
    struct ring *jobs;
    uint64_t bytes_max;
    _Atomic uint64_t bytes; /* of jobs that wait */
    pthread_t thread;
    atomic_bool stop;
};

struct job {
    text_job run;
    void *arg;
    uint64_t bytes;
};

static void *run(void *arg)
{
    struct text_thread *thread = arg;
    for (;;) {
        bool is_last = atomic_load(&thread->stop);
        struct job job;
        while (ring_pop(thread->jobs, &job)) {
            uint64_t before = atomic_fetch_sub(&thread->bytes, job.bytes);
            assert(before >= job.bytes);
            job.run(job.arg);
        }
        if (is_last)
            return NULL;
        ring_wait(thread->jobs, DEADLINE_NONE);
    }
}

enum status text_thread_start(uint32_t queue_max, uint64_t bytes_max,
                              struct text_thread **thread_out)
{
    struct text_thread *thread = calloc(1, sizeof *thread);
    if (!thread)
        return STATUS_NO_MEMORY;
    thread->bytes_max = bytes_max;
    enum status status = ring_create(sizeof(struct job), queue_max, &thread->jobs);
    if (status == STATUS_OK && pthread_create(&thread->thread, NULL, run, thread) != 0)
        status = STATUS_NO_THREAD;
    if (status != STATUS_OK) {
        ring_destroy(thread->jobs);
        free(thread);
        return status;
    }
    (void)pthread_setname_np(thread->thread, "text");
    *thread_out = thread;
    return STATUS_OK;
}

void text_thread_stop(struct text_thread *thread)
{
    if (!thread)
        return;
    atomic_store(&thread->stop, true);
    ring_wake(thread->jobs);
    pthread_join(thread->thread, NULL);
    assert(atomic_load(&thread->bytes) == 0 && "all that was queued has run");
    ring_destroy(thread->jobs);
    free(thread);
}

enum status text_thread_push(struct text_thread *thread, text_job job, void *arg, uint64_t bytes)
{
    assert(!atomic_load(&thread->stop) && "nobody is left to push");
    uint64_t before = atomic_fetch_add(&thread->bytes, bytes);
    struct job item = {job, arg, bytes};
    enum status status = STATUS_QUEUE_FULL;
    if (before == 0 || before + bytes <= thread->bytes_max)
        status = ring_push(thread->jobs, &item);
    if (status != STATUS_OK)
        atomic_fetch_sub(&thread->bytes, bytes);
    return status;
}
