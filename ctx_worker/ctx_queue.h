/*
 * ctx_queue - prompts that wait for a slot and blocks, in the order of their arrival. Who of them starts
 * is fair_share's to say.
 *
 * Bounds: prompts_max; a push to a full queue changes nothing. Removal in the middle moves the
 * younger ones: the queue is short and this is rare.
 *
 * Thread: the engine's.
 */
#pragma once

#include "ctx_worker/prompt.h"

struct ctx_queue {
    uint32_t prompts_max, n;
    struct prompt **prompts; /* [prompts_max], the oldest first; owned */
};

MUST_CHECK enum status ctx_queue_init(struct ctx_queue *queue, uint32_t prompts_max);
void ctx_queue_finish(struct ctx_queue *queue); /* a zeroed one is fine */

bool ctx_queue_push(struct ctx_queue *queue, struct prompt *prompt); /* false: full */
uint32_t ctx_queue_count(const struct ctx_queue *queue);
struct prompt *ctx_queue_at(const struct ctx_queue *queue, uint32_t index); /* borrowed */
bool ctx_queue_has(const struct ctx_queue *queue, const char *request_id);

/* The caller becomes the owner; NULL: none. */
struct prompt *ctx_queue_pop(struct ctx_queue *queue);
struct prompt *ctx_queue_remove_at(struct ctx_queue *queue, uint32_t index);
struct prompt *ctx_queue_remove_stream(struct ctx_queue *queue, const void *stream);
struct prompt *ctx_queue_remove_request(struct ctx_queue *queue, const char *request_id);
