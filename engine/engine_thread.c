#include "engine/engine_thread.h"

#include "base/clock.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STOPPING_WAIT_NS (5 * NS_PER_MS) /* between checks while it is not quiet yet */

struct engine_thread {
    struct engine_thread_options options;
    pthread_t thread;
    atomic_bool stop;
    atomic_uint_fast64_t give_up_ns; /* when to stop although it is not quiet */
    atomic_uint_fast64_t step_began_ns;
    bool was_quiet; /* written before the thread ends */
};

/* Whether the loop may end. */
static bool is_over(struct engine_thread *thread, uint64_t now_ns)
{
    if (!atomic_load(&thread->stop))
        return false;
    assert(atomic_load(&thread->give_up_ns) > 0 && "set before stop");
    thread->was_quiet = thread->options.is_quiet(thread->options.engine);
    return thread->was_quiet || now_ns >= atomic_load(&thread->give_up_ns);
}

static void *run(void *arg)
{
    struct engine_thread *thread = arg;
    const struct engine_thread_options *options = &thread->options;
    for (;;) {
        uint64_t began_ns = clock_now_ns();
        assert(atomic_load(&thread->step_began_ns) == 0 && "one step at a time");
        atomic_store(&thread->step_began_ns, began_ns);
        uint64_t until_ns = options->step(options->engine, began_ns);
        uint64_t now_ns = clock_now_ns();
        atomic_store(&thread->step_began_ns, 0);
        options->after_step(options->arg, now_ns - began_ns);
        if (is_over(thread, now_ns))
            return NULL;
        if (atomic_load(&thread->stop) && until_ns > now_ns + STOPPING_WAIT_NS)
            until_ns = now_ns + STOPPING_WAIT_NS;
        if (until_ns > now_ns)
            options->wait(options->engine, until_ns);
    }
}

enum status engine_thread_start(const struct engine_thread_options *options,
                                struct engine_thread **thread_out)
{
    struct engine_thread *thread = calloc(1, sizeof *thread);
    if (!thread)
        return STATUS_NO_MEMORY;
    thread->options = *options;
    if (pthread_create(&thread->thread, NULL, run, thread) != 0) {
        free(thread);
        return STATUS_NO_THREAD;
    }
    char name[16]; /* the limit of pthread_setname_np */
    assert(strlen(options->name) < sizeof name);
    snprintf(name, sizeof name, "%s", options->name);
    (void)pthread_setname_np(thread->thread, name);
    if (CPU_COUNT(&options->cpus) > 0) /* a failure costs speed alone */
        (void)pthread_setaffinity_np(thread->thread, sizeof options->cpus, &options->cpus);
    *thread_out = thread;
    return STATUS_OK;
}

bool engine_thread_stop(struct engine_thread *thread, uint64_t limit_ns)
{
    if (!thread)
        return true;
    assert(!pthread_equal(pthread_self(), thread->thread) && "it would wait for itself");
    assert(!atomic_load(&thread->stop));
    atomic_store(&thread->give_up_ns, clock_now_ns() + limit_ns);
    atomic_store(&thread->stop, true);
    thread->options.wake(thread->options.engine);
    pthread_join(thread->thread, NULL);
    bool was_quiet = thread->was_quiet;
    free(thread);
    return was_quiet;
}

uint64_t engine_thread_stuck_ns(const struct engine_thread *thread, uint64_t now_ns)
{
    uint64_t began_ns = atomic_load(&thread->step_began_ns);
    return began_ns != 0 && now_ns > began_ns ? now_ns - began_ns : 0;
}

uint64_t engine_thread_now_ns(void *arg)
{
    (void)arg;
    return clock_now_ns();
}
