#include "gen_worker/gen_queue.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum status gen_queue_init(struct gen_queue *queue, uint32_t jobs_max)
{
    queue->jobs_max = jobs_max;
    queue->n = 0;
    queue->jobs = calloc(jobs_max, sizeof *queue->jobs);
    return queue->jobs ? STATUS_OK : STATUS_NO_MEMORY;
}

void gen_queue_finish(struct gen_queue *queue)
{
    for (uint32_t i = 0; i < queue->n; i++)
        job_destroy(queue->jobs[i]);
    free(queue->jobs);
    queue->jobs = NULL;
    queue->n = 0;
}

bool gen_queue_push(struct gen_queue *queue, struct job *job)
{
    if (queue->n == queue->jobs_max)
        return false;
    queue->jobs[queue->n++] = job;
    return true;
}

uint32_t gen_queue_count(const struct gen_queue *queue)
{
    return queue->n;
}

struct job *gen_queue_at(const struct gen_queue *queue, uint32_t index)
{
    assert(index < queue->n);
    return queue->jobs[index];
}

bool gen_queue_has(const struct gen_queue *queue, const char *request_id)
{
    for (uint32_t i = 0; i < queue->n; i++)
        if (strcmp(queue->jobs[i]->request_id, request_id) == 0)
            return true;
    return false;
}

struct job *gen_queue_remove_at(struct gen_queue *queue, uint32_t index)
{
    if (index >= queue->n)
        return NULL;
    struct job *job = queue->jobs[index];
    queue->n--;
    memmove(queue->jobs + index, queue->jobs + index + 1, (queue->n - index) * sizeof *queue->jobs);
    return job;
}

struct job *gen_queue_pop(struct gen_queue *queue)
{
    return gen_queue_remove_at(queue, 0);
}

struct job *gen_queue_remove_stream(struct gen_queue *queue, const void *stream)
{
    uint32_t i = 0;
    while (i < queue->n && queue->jobs[i]->stream != stream)
        i++;
    return gen_queue_remove_at(queue, i);
}
