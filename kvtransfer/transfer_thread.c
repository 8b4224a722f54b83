#include "kvtransfer/transfer_thread.h"

#include "base/clock.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct transfer_thread {
    struct transfer_thread_options options;
    char name[16];
    pthread_t thread;
    _Atomic bool is_stopping;
    _Atomic uint64_t rounds;
};

static void *run(void *arg)
{
    struct transfer_thread *thread = arg;
    const struct transfer_thread_options *options = &thread->options;
    struct transport *transport = options->transport;
    pthread_setname_np(pthread_self(), thread->name);

    while (!atomic_load(&thread->is_stopping)) {
        uint64_t now_ns = clock_now_ns(), deadline_ns = DEADLINE_NONE;
        unsigned work = 0;
        if (options->sender) {
            work += kv_sender_progress(options->sender, now_ns);
            deadline_ns = kv_sender_deadline_ns(options->sender);
        }
        if (options->receiver) {
            work += kv_receiver_progress(options->receiver, now_ns);
            deadline_ns = clock_earlier(deadline_ns, kv_receiver_deadline_ns(options->receiver));
        }
        atomic_fetch_add_explicit(&thread->rounds, 1, memory_order_relaxed);
        if (work == 0)
            transport->ops->wait(transport, deadline_ns);
    }
    return NULL;
}

enum status transfer_thread_start(const struct transfer_thread_options *options,
                                  struct transfer_thread **thread_out)
{
    assert(options->transport && (options->sender || options->receiver));
    struct transfer_thread *thread = calloc(1, sizeof *thread);
    if (!thread)
        return STATUS_NO_MEMORY;
    thread->options = *options;
    snprintf(thread->name, sizeof thread->name, "%s", options->name);
    if (pthread_create(&thread->thread, NULL, run, thread) != 0) {
        free(thread);
        return STATUS_NO_THREAD;
    }
    *thread_out = thread;
    return STATUS_OK;
}

void transfer_thread_stop(struct transfer_thread *thread)
{
    if (!thread)
        return;
    struct transport *transport = thread->options.transport;
    atomic_store(&thread->is_stopping, true);
    transport->ops->wake(transport);
    pthread_join(thread->thread, NULL);
    free(thread);
}

uint64_t transfer_thread_rounds(const struct transfer_thread *thread)
{
    return atomic_load_explicit(&thread->rounds, memory_order_relaxed);
}
