/*
 * gen_queue - requests that wait for a slot and blocks, in the order of their arrival.
 *
 * Bounds: jobs_max; a push to a full queue changes nothing. Removal in the middle moves the
 * younger ones: the queue is short and this is rare.
 *
 * Thread: the engine's.
 */
#pragma once

#include "gen_worker/job.h"

struct gen_queue {
    uint32_t jobs_max, n;
    struct job **jobs; /* [jobs_max], the oldest first; owned */
};

MUST_CHECK enum status gen_queue_init(struct gen_queue *queue, uint32_t jobs_max);
void gen_queue_finish(struct gen_queue *queue); /* a zeroed one is fine */

bool gen_queue_push(struct gen_queue *queue, struct job *job); /* false: full */
uint32_t gen_queue_count(const struct gen_queue *queue);
struct job *gen_queue_at(const struct gen_queue *queue, uint32_t index); /* borrowed */
bool gen_queue_has(const struct gen_queue *queue, const char *request_id);

/* The caller becomes the owner; NULL: none. */
struct job *gen_queue_pop(struct gen_queue *queue);
struct job *gen_queue_remove_at(struct gen_queue *queue, uint32_t index);
struct job *gen_queue_remove_stream(struct gen_queue *queue, const void *stream);
