#include "kernels/context_threads.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct carried {
    struct context_threads *threads;
    uint32_t rank;
    const void *sent;
    size_t bytes;
};

struct context_threads {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t n_here;    /* ranks that have offered and wait for the others */
    uint32_t n_copying; /* ranks that still copy what the others offered */
    uint64_t meeting;
    enum status status;
    uint32_t n_ranks;
    struct carried ranks[];
};

enum status context_threads_create(uint32_t n_ranks, struct context_threads **threads_out,
                                   struct error *error)
{
    if (n_ranks == 0)
        return error_set(error, STATUS_INVALID_ARGUMENT, "n_ranks is 0");
    struct context_threads *threads = calloc(1,
                                             sizeof *threads + n_ranks * sizeof threads->ranks[0]);
    if (!threads)
        return error_set(error, STATUS_NO_MEMORY, "no memory for n_ranks %u", n_ranks);
    pthread_mutex_init(&threads->lock, NULL);
    pthread_cond_init(&threads->changed, NULL);
    threads->n_ranks = n_ranks;
    for (uint32_t rank = 0; rank < n_ranks; rank++)
        threads->ranks[rank] = (struct carried){.threads = threads, .rank = rank};
    *threads_out = threads;
    return STATUS_OK;
}

void context_threads_destroy(struct context_threads *threads)
{
    if (!threads)
        return;
    assert(threads->n_here == 0 || threads->status != STATUS_OK);
    pthread_cond_destroy(&threads->changed);
    pthread_mutex_destroy(&threads->lock);
    free(threads);
}

static void end_locked(struct context_threads *threads, enum status status)
{
    if (threads->status == STATUS_OK)
        threads->status = status;
    pthread_cond_broadcast(&threads->changed);
}

void context_threads_end(struct context_threads *threads, enum status status)
{
    assert(status != STATUS_OK);
    pthread_mutex_lock(&threads->lock);
    end_locked(threads, status);
    pthread_mutex_unlock(&threads->lock);
}

/* Offers send, and waits until all ranks have offered. OK: this rank may copy from all ranks until leave. */
static enum status offer(struct carried *own, const void *send, size_t bytes)
{
    struct context_threads *threads = own->threads;
    own->sent = send;
    own->bytes = bytes;
    pthread_mutex_lock(&threads->lock);
    assert(own->rank < threads->n_ranks);
    assert(threads->status != STATUS_OK || threads->n_here < threads->n_ranks);
    const uint64_t meeting = threads->meeting;
    if (threads->status == STATUS_OK && ++threads->n_here == threads->n_ranks) {
        threads->n_here = 0;
        threads->meeting++;
        for (uint32_t rank = 1; rank < threads->n_ranks; rank++)
            if (threads->ranks[rank].bytes != threads->ranks[0].bytes)
                end_locked(threads, STATUS_INVALID_ARGUMENT);
        if (threads->status == STATUS_OK)
            threads->n_copying = threads->n_ranks;
        pthread_cond_broadcast(&threads->changed);
    }
    while (threads->meeting == meeting && threads->status == STATUS_OK)
        pthread_cond_wait(&threads->changed, &threads->lock);
    bool may_copy = threads->meeting != meeting && threads->n_copying > 0;
    enum status status = may_copy ? STATUS_OK : threads->status;
    pthread_mutex_unlock(&threads->lock);
    return status;
}

/* Waits until no rank copies any more: even after the group has ended, other ranks may still read the offered memory. */
static enum status leave(struct context_threads *threads)
{
    pthread_mutex_lock(&threads->lock);
    assert(threads->n_copying > 0);
    if (--threads->n_copying == 0)
        pthread_cond_broadcast(&threads->changed);
    while (threads->n_copying > 0)
        pthread_cond_wait(&threads->changed, &threads->lock);
    enum status status = threads->status;
    pthread_mutex_unlock(&threads->lock);
    return status;
}

static enum status shift(void *arg, const void *send, void *receive, size_t bytes)
{
    struct carried *own = arg;
    struct context_threads *threads = own->threads;
    TRY(offer(own, send, bytes));
    memcpy(receive, threads->ranks[(own->rank + threads->n_ranks - 1) % threads->n_ranks].sent,
           bytes);
    return leave(threads);
}

static enum status gather(void *arg, const void *send, void *receive, size_t bytes)
{
    struct carried *own = arg;
    struct context_threads *threads = own->threads;
    TRY(offer(own, send, bytes));
    for (uint32_t rank = 0; rank < threads->n_ranks; rank++)
        memcpy((char *)receive + rank * bytes, threads->ranks[rank].sent, bytes);
    return leave(threads);
}

struct context_group context_threads_group(struct context_threads *threads, uint32_t rank)
{
    assert(rank < threads->n_ranks);
    return (struct context_group){.rank = rank,
                                  .n_ranks = threads->n_ranks,
                                  .arg = &threads->ranks[rank],
                                  .shift = shift,
                                  .gather = gather};
}
