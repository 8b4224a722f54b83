#include "engine/request_queue.h"

#include "base/clock.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum status request_queue_init(struct request_queue *queue, uint32_t requests_max,
                               uint64_t wait_limit_ns)
{
    assert(requests_max > 0);
    queue->requests_max = requests_max;
    queue->n = 0;
    queue->wait_limit_ns = wait_limit_ns;
    queue->requests = calloc(requests_max, sizeof *queue->requests);
    return queue->requests ? STATUS_OK : STATUS_NO_MEMORY;
}

void request_queue_finish(struct request_queue *queue)
{
    for (uint32_t i = 0; i < queue->n; i++)
        engine_request_destroy(queue->requests[i]);
    free(queue->requests);
    queue->requests = NULL;
    queue->n = 0;
}

bool request_queue_push(struct request_queue *queue, struct engine_request *request)
{
    assert(queue->n <= queue->requests_max);
    if (queue->n == queue->requests_max)
        return false;
    queue->requests[queue->n++] = request;
    return true;
}

uint32_t request_queue_count(const struct request_queue *queue)
{
    return queue->n;
}

struct engine_request *request_queue_at(const struct request_queue *queue, uint32_t index)
{
    assert(index < queue->n);
    return queue->requests[index];
}

/* n: there is none. */
static uint32_t find_request(const struct request_queue *queue, const char *request_id)
{
    uint64_t id_hash = engine_request_id_hash(request_id);
    uint32_t i = 0;
    while (i < queue->n && !engine_request_is_named(queue->requests[i], request_id, id_hash))
        i++;
    return i;
}

bool request_queue_has(const struct request_queue *queue, const char *request_id)
{
    return find_request(queue, request_id) < queue->n;
}

struct engine_request *request_queue_find(const struct request_queue *queue, uint32_t schedule_id)
{
    for (uint32_t i = 0; i < queue->n; i++)
        if (queue->requests[i]->schedule_id == schedule_id)
            return queue->requests[i];
    return NULL;
}

uint64_t request_queue_tokens(const struct request_queue *queue)
{
    uint64_t n_tokens = 0;
    for (uint32_t i = 0; i < queue->n; i++)
        n_tokens += queue->requests[i]->n_tokens;
    return n_tokens;
}

/* ---- removal ---- */

struct engine_request *request_queue_remove_at(struct request_queue *queue, uint32_t index)
{
    if (index >= queue->n)
        return NULL;
    struct engine_request *request = queue->requests[index];
    queue->n--;
    memmove(queue->requests + index, queue->requests + index + 1,
            (queue->n - index) * sizeof *queue->requests);
    return request;
}

struct engine_request *request_queue_pop(struct request_queue *queue)
{
    return request_queue_remove_at(queue, 0);
}

struct engine_request *request_queue_remove_stream(struct request_queue *queue, const void *stream)
{
    uint32_t i = 0;
    while (i < queue->n && queue->requests[i]->stream != stream)
        i++;
    return request_queue_remove_at(queue, i);
}

struct engine_request *request_queue_remove_request(struct request_queue *queue,
                                                    const char *request_id)
{
    return request_queue_remove_at(queue, find_request(queue, request_id));
}

void request_queue_remove(struct request_queue *queue, const struct engine_request *request)
{
    uint32_t i = 0;
    while (i < queue->n && queue->requests[i] != request)
        i++;
    assert(i < queue->n);
    (void)request_queue_remove_at(queue, i);
}

/* ---- time ---- */

static uint64_t expiry_ns(const struct request_queue *queue, const struct engine_request *request)
{
    uint64_t limit_ns = request->arrived_ns + queue->wait_limit_ns;
    if (limit_ns < request->held_until_ns)
        limit_ns = request->held_until_ns; /* it waits for its own blocks, not for others */
    return limit_ns < request->deadline_ns ? limit_ns : request->deadline_ns;
}

struct engine_request *request_queue_remove_expired(struct request_queue *queue, uint64_t now_ns)
{
    for (uint32_t i = queue->n; i-- > 0;)
        if (expiry_ns(queue, queue->requests[i]) <= now_ns)
            return request_queue_remove_at(queue, i);
    return NULL;
}

uint64_t request_queue_next_expiry_ns(const struct request_queue *queue)
{
    uint64_t next_ns = DEADLINE_NONE;
    for (uint32_t i = 0; i < queue->n; i++) {
        uint64_t end_ns = expiry_ns(queue, queue->requests[i]);
        if (end_ns < next_ns)
            next_ns = end_ns;
    }
    return next_ns;
}
