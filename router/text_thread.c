#include "router/text_thread.h"

#include "base/clock.h"
#include "base/ring.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct job {
    text_job run;
    void *arg;
    uint64_t bytes;
};

/* Only for the thread. */
struct line {
    struct job *jobs; /* [jobs_max] */
    uint32_t first, n;
};

struct text_thread {
    struct ring *jobs; /* in the order of arrival */
    struct line short_jobs, long_jobs;
    uint32_t n_short; /* consecutive short jobs while a long one waits */
    uint32_t jobs_max;
    uint64_t bytes_max;
    _Atomic uint32_t n_waiting; /* in all three */
    _Atomic uint64_t bytes;     /* of those */
    pthread_t thread;
    atomic_bool stop;
};

static void line_add(struct line *line, uint32_t jobs_max, const struct job *job)
{
    assert(line->n < jobs_max && "who pushes counts what waits");
    line->jobs[(line->first + line->n++) % jobs_max] = *job;
}

static struct job line_take(struct line *line, uint32_t jobs_max)
{
    assert(line->n > 0);
    struct job job = line->jobs[line->first];
    line->first = (line->first + 1) % jobs_max;
    line->n--;
    return job;
}

static void sort_in(struct text_thread *thread)
{
    struct job job;
    while (ring_pop(thread->jobs, &job))
        line_add(job.bytes < TEXT_LONG_BYTES ? &thread->short_jobs : &thread->long_jobs,
                 thread->jobs_max, &job);
}

/* False when none waits. */
static bool take_next(struct text_thread *thread, struct job *job_out)
{
    struct line *shorts = &thread->short_jobs, *longs = &thread->long_jobs;
    sort_in(thread);
    if (shorts->n + longs->n == 0)
        return false;
    bool is_long = longs->n > 0 && (shorts->n == 0 || thread->n_short == TEXT_SHORT_RUN);
    thread->n_short = is_long || longs->n == 0 ? 0 : thread->n_short + 1;
    *job_out = line_take(is_long ? longs : shorts, thread->jobs_max);
    return true;
}

static void *run(void *arg)
{
    struct text_thread *thread = arg;
    for (;;) {
        bool is_last = atomic_load(&thread->stop);
        struct job job;
        while (take_next(thread, &job)) {
            uint64_t before = atomic_fetch_sub(&thread->bytes, job.bytes);
            assert(before >= job.bytes);
            atomic_fetch_sub(&thread->n_waiting, 1);
            job.run(job.arg);
        }
        if (is_last)
            return NULL;
        ring_wait(thread->jobs, DEADLINE_NONE);
    }
}

static void destroy(struct text_thread *thread)
{
    ring_destroy(thread->jobs);
    free(thread->short_jobs.jobs);
    free(thread->long_jobs.jobs);
    free(thread);
}

enum status text_thread_start(uint32_t queue_max, uint64_t bytes_max,
                              struct text_thread **thread_out)
{
    struct text_thread *thread = calloc(1, sizeof *thread);
    if (!thread)
        return STATUS_NO_MEMORY;
    thread->jobs_max = queue_max;
    thread->bytes_max = bytes_max;
    thread->short_jobs.jobs = calloc(queue_max, sizeof *thread->short_jobs.jobs);
    thread->long_jobs.jobs = calloc(queue_max, sizeof *thread->long_jobs.jobs);
    enum status status = STATUS_NO_MEMORY;
    if (thread->short_jobs.jobs && thread->long_jobs.jobs)
        status = ring_create(sizeof(struct job), queue_max, &thread->jobs);
    if (status == STATUS_OK && pthread_create(&thread->thread, NULL, run, thread) != 0)
        status = STATUS_NO_THREAD;
    if (status != STATUS_OK) {
        destroy(thread);
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
    destroy(thread);
}

static enum status refuse(const struct text_thread *thread, uint32_t n_before, uint64_t before,
                          uint64_t bytes, struct error *error)
{
    if (n_before >= thread->jobs_max)
        return error_set(error, STATUS_QUEUE_FULL,
                         "%" PRIu32 " texts wait to be read; no more may wait (text_queue_max)",
                         n_before);
    return error_set(error, STATUS_QUEUE_FULL,
                     "texts of %" PRIu64 " bytes wait to be read; with %" PRIu64
                     " more they are over %" PRIu64 " (text_queue_bytes_max)",
                     before, bytes, thread->bytes_max);
}

enum status text_thread_push(struct text_thread *thread, text_job job, void *arg, uint64_t bytes,
                             struct error *error)
{
    assert(!atomic_load(&thread->stop) && "nobody is left to push");
    struct job item = {job, arg, bytes};
    uint32_t n_before = atomic_fetch_add(&thread->n_waiting, 1);
    uint64_t before = atomic_fetch_add(&thread->bytes, bytes);
    if (n_before < thread->jobs_max && (before == 0 || before + bytes <= thread->bytes_max) &&
        ring_push(thread->jobs, &item) == STATUS_OK)
        return STATUS_OK;
    atomic_fetch_sub(&thread->bytes, bytes);
    atomic_fetch_sub(&thread->n_waiting, 1);
    return refuse(thread, n_before, before, bytes, error);
}
