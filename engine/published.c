#include "engine/published.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum status published_init(struct published *published, size_t bytes)
{
    assert(bytes > 0 && !published->copy);
    void *copy = calloc(1, bytes);
    if (!copy)
        return STATUS_NO_MEMORY;
    if (pthread_mutex_init(&published->lock, NULL) != 0) {
        free(copy);
        return STATUS_NO_MEMORY;
    }
    published->bytes = bytes;
    published->copy = copy;
    return STATUS_OK;
}

void published_finish(struct published *published)
{
    if (!published->copy)
        return;
    pthread_mutex_destroy(&published->lock);
    free(published->copy);
    published->copy = NULL;
}

void published_put(struct published *published, const void *value, size_t bytes)
{
    assert(bytes == published->bytes);
    pthread_mutex_lock(&published->lock);
    memcpy(published->copy, value, bytes);
    pthread_mutex_unlock(&published->lock);
}

void published_get(struct published *published, void *value_out, size_t bytes)
{
    assert(bytes == published->bytes);
    pthread_mutex_lock(&published->lock);
    memcpy(value_out, published->copy, bytes);
    pthread_mutex_unlock(&published->lock);
}
