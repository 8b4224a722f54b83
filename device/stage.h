/*
 * stage - brings the inputs of a step (token ids, rows, metadata of attention) from the host to the kernels. It has two
 * arenas, used in turn, so that the host prepares a step while the previous one still runs. One copy for each step.
 *
 *     take -> view: the host writes    send -> address for kernels      ... kernels ...    keep(ticket)
 *                                      drop
 *
 * An arena is reused when the ticket of its keep is done, because an enqueued copy is read later. On the host the view
 * is the arena, and nothing is copied.
 *
 * Bounds: the number of bytes given at creation, in whole pages; a step uses the first of them, and copies only the
 * used ones. Thread: the queue's.
 */
#pragma once

#include "device/device.h"

struct stage;
struct thread_pool;

enum { STAGE_ARENAS = 2 };

/* NO_MEMORY, DEVICE_LOST. */
MUST_CHECK enum status stage_create(struct device *device, enum device_queue queue, size_t bytes,
                                    struct stage **stage_out);
/* NULL is fine. */
void stage_destroy(struct stage *stage);

/* Before the first step: calls device_touch for both arenas. threads may be NULL. */
void stage_touch(struct stage *stage, struct thread_pool *threads);

/* Returns memory without useful content to write to; then call send or drop. Waits until the arena's last use is over.
 * QUEUE_FULL as device_write_begin; DEVICE_LOST. After a failure there is nothing to send. */
MUST_CHECK enum status stage_take(struct stage *stage, size_t bytes, uint8_t **view_out);
/* The size in bytes, between take and send. */
size_t stage_taken(const struct stage *stage);
/* Ends a take without a step. */
void stage_drop(struct stage *stage);
/* Returns the address for kernels that are enqueued after this; then call keep. DEVICE_LOST: there is nothing to
 * keep or to read. */
MUST_CHECK enum status stage_send(struct stage *stage, const uint8_t **sent_out);
/* The same with only the first so many bytes; kernels must not use the bytes after them. */
MUST_CHECK enum status stage_send_part(struct stage *stage, size_t bytes, const uint8_t **sent_out);
/* ticket was recorded after the last kernel that reads the sent bytes. */
void stage_keep(struct stage *stage, struct device_ticket ticket);
