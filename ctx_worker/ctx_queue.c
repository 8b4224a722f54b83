#include "ctx_worker/ctx_queue.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum status ctx_queue_init(struct ctx_queue *queue, uint32_t prompts_max)
{
    queue->prompts_max = prompts_max;
    queue->n = 0;
    queue->prompts = calloc(prompts_max, sizeof *queue->prompts);
    return queue->prompts ? STATUS_OK : STATUS_NO_MEMORY;
}

void ctx_queue_finish(struct ctx_queue *queue)
{
    for (uint32_t i = 0; i < queue->n; i++)
        prompt_destroy(queue->prompts[i]);
    free(queue->prompts);
    queue->prompts = NULL;
    queue->n = 0;
}

bool ctx_queue_push(struct ctx_queue *queue, struct prompt *prompt)
{
    if (queue->n == queue->prompts_max)
        return false;
    queue->prompts[queue->n++] = prompt;
    return true;
}

uint32_t ctx_queue_count(const struct ctx_queue *queue)
{
    return queue->n;
}

struct prompt *ctx_queue_at(const struct ctx_queue *queue, uint32_t index)
{
    assert(index < queue->n);
    return queue->prompts[index];
}

static uint32_t find_request(const struct ctx_queue *queue, const char *request_id)
{
    uint32_t i = 0;
    while (i < queue->n && strcmp(queue->prompts[i]->request_id, request_id) != 0)
        i++;
    return i;
}

bool ctx_queue_has(const struct ctx_queue *queue, const char *request_id)
{
    return find_request(queue, request_id) < queue->n;
}

struct prompt *ctx_queue_remove_at(struct ctx_queue *queue, uint32_t index)
{
    if (index >= queue->n)
        return NULL;
    struct prompt *prompt = queue->prompts[index];
    queue->n--;
    memmove(queue->prompts + index, queue->prompts + index + 1,
            (queue->n - index) * sizeof *queue->prompts);
    return prompt;
}

struct prompt *ctx_queue_pop(struct ctx_queue *queue)
{
    return ctx_queue_remove_at(queue, 0);
}

struct prompt *ctx_queue_remove_stream(struct ctx_queue *queue, const void *stream)
{
    uint32_t i = 0;
    while (i < queue->n && queue->prompts[i]->stream != stream)
        i++;
    return ctx_queue_remove_at(queue, i);
}

struct prompt *ctx_queue_remove_request(struct ctx_queue *queue, const char *request_id)
{
    return ctx_queue_remove_at(queue, find_request(queue, request_id));
}
