#include "base/ring.h"

#include "base/cond.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* A mutex, not a lock-free queue: threads send messages for each request and chunk, not for each
 * token and layer, and a plain lock is easy to check. */
struct ring {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t item_bytes;
    uint32_t items_max, head, count; /* head: the oldest */
    bool woken;                      /* since the last wait */
    unsigned char items[];
};

enum status ring_create(size_t item_bytes, uint32_t items_max, struct ring **ring_out)
{
    size_t bytes;
    if (item_bytes == 0 || items_max == 0)
        return STATUS_INVALID_ARGUMENT;
    if (__builtin_mul_overflow(item_bytes, items_max, &bytes) ||
        __builtin_add_overflow(bytes, sizeof(struct ring), &bytes))
        return STATUS_NO_MEMORY;

    struct ring *ring = calloc(1, bytes);
    if (!ring)
        return STATUS_NO_MEMORY;
    ring->item_bytes = item_bytes;
    ring->items_max = items_max;
    pthread_mutex_init(&ring->lock, NULL);
    cond_init(&ring->changed);
    *ring_out = ring;
    return STATUS_OK;
}

void ring_destroy(struct ring *ring)
{
    if (!ring)
        return;
    pthread_cond_destroy(&ring->changed);
    pthread_mutex_destroy(&ring->lock);
    free(ring);
}

enum status ring_push(struct ring *ring, const void *item)
{
    pthread_mutex_lock(&ring->lock);
    assert(ring->head < ring->items_max && ring->count <= ring->items_max);
    bool full = ring->count == ring->items_max;
    if (!full) {
        size_t slot = ((size_t)ring->head + ring->count) % ring->items_max;
        memcpy(ring->items + slot * ring->item_bytes, item, ring->item_bytes);
        ring->count++;
        pthread_cond_signal(&ring->changed);
    }
    pthread_mutex_unlock(&ring->lock);
    return full ? STATUS_QUEUE_FULL : STATUS_OK;
}

bool ring_pop(struct ring *ring, void *item_out)
{
    pthread_mutex_lock(&ring->lock);
    bool got = ring->count > 0;
    if (got) {
        assert(ring->head < ring->items_max);
        memcpy(item_out, ring->items + ring->head * ring->item_bytes, ring->item_bytes);
        ring->head = ring->head + 1 == ring->items_max ? 0 : ring->head + 1;
        ring->count--;
    }
    pthread_mutex_unlock(&ring->lock);
    return got;
}

bool ring_peek(struct ring *ring, uint32_t at, void *item_out)
{
    pthread_mutex_lock(&ring->lock);
    bool got = at < ring->count;
    if (got) {
        size_t slot = ((size_t)ring->head + at) % ring->items_max;
        memcpy(item_out, ring->items + slot * ring->item_bytes, ring->item_bytes);
    }
    pthread_mutex_unlock(&ring->lock);
    return got;
}

void ring_wait(struct ring *ring, uint64_t until_ns)
{
    pthread_mutex_lock(&ring->lock);
    while (ring->count == 0 && !ring->woken &&
           cond_wait_until(&ring->changed, &ring->lock, until_ns))
        ;
    ring->woken = false;
    pthread_mutex_unlock(&ring->lock);
}

void ring_wake(struct ring *ring)
{
    pthread_mutex_lock(&ring->lock);
    ring->woken = true;
    pthread_cond_signal(&ring->changed);
    pthread_mutex_unlock(&ring->lock);
}

uint32_t ring_count(const struct ring *ring)
{
    struct ring *mutable = (struct ring *)ring; /* the lock is not part of the value */
    pthread_mutex_lock(&mutable->lock);
    uint32_t count = mutable->count;
    pthread_mutex_unlock(&mutable->lock);
    return count;
}
