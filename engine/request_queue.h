/*
 * request_queue - requests that wait for a slot and blocks, in the order of their arrival. The schedule decides which of them
 * starts.
 *
 * Bounds: requests_max; a push to a full queue changes nothing. A removal in the middle moves the younger ones: the queue is
 * short, and this is rare.
 *
 * Thread: the engine's.
 */
#pragma once

#include "engine/engine_request.h"

#include <stdbool.h>

struct request_queue {
    uint32_t requests_max, n;
    uint64_t wait_limit_ns;           /* of each, from its arrival */
    struct engine_request **requests; /* [requests_max], the oldest first; owned */
};

MUST_CHECK enum status request_queue_init(struct request_queue *queue, uint32_t requests_max,
                                          uint64_t wait_limit_ns);
/* Destroys the requests in it. A zeroed one is fine. */
void request_queue_finish(struct request_queue *queue);

bool request_queue_push(struct request_queue *queue,
                        struct engine_request *request); /* false: full */
uint32_t request_queue_count(const struct request_queue *queue);
struct engine_request *request_queue_at(const struct request_queue *queue,
                                        uint32_t index); /* borrowed */
bool request_queue_has(const struct request_queue *queue, const char *request_id);
/* By schedule_id; NULL: none. */
struct engine_request *request_queue_find(const struct request_queue *queue, uint32_t schedule_id);
uint64_t request_queue_tokens(const struct request_queue *queue); /* of all prompts */

/* The caller becomes the owner; NULL: none. */
struct engine_request *request_queue_pop(struct request_queue *queue);
struct engine_request *request_queue_remove_at(struct request_queue *queue, uint32_t index);
struct engine_request *request_queue_remove_stream(struct request_queue *queue, const void *stream);
struct engine_request *request_queue_remove_request(struct request_queue *queue,
                                                    const char *request_id);
/* Of a request that is in the queue. */
void request_queue_remove(struct request_queue *queue, const struct engine_request *request);
/* The youngest of those whose deadline or wait limit has come. */
struct engine_request *request_queue_remove_expired(struct request_queue *queue, uint64_t now_ns);
/* When the first of them expires; DEADLINE_NONE: never. */
uint64_t request_queue_next_expiry_ns(const struct request_queue *queue);
