/*
 * stage - what the host lays out for a step (token ids, rows, attention's metadata), and how kernels get it: two arenas
 * used by turns, so that a step is laid out while the one before it still runs, and one copy a step.
 *
 *     take -> view: the host writes    send -> where kernels read it    ... kernels ...    keep(ticket)
 *                                      drop
 *
 * An arena's turn comes again when the ticket that it was kept until is done: a copy that is enqueued is read later. On
 * the host the view is the arena and nothing is copied.
 *
 * Bounds: as many bytes as at creation, in whole pages; a step takes the first of them, and copies what it used of these. Thread: the queue's.
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

/* Before the first step: device_touch of both arenas. threads may be NULL. */
void stage_touch(struct stage *stage, struct thread_pool *threads);

/* Rubbish, to be written; then send or drop. Waits until the arena's last use is over. QUEUE_FULL as device_write_begin,
 * DEVICE_LOST: there is nothing to send. */
MUST_CHECK enum status stage_take(struct stage *stage, size_t bytes, uint8_t **view_out);
/* Bytes, between take and send. */
size_t stage_taken(const struct stage *stage);
/* There is no step. */
void stage_drop(struct stage *stage);
/* Where kernels find it that are enqueued behind this; then keep. DEVICE_LOST: there is nothing to keep, and for
 * kernels nothing to read. */
MUST_CHECK enum status stage_send(struct stage *stage, const uint8_t **sent_out);
/* The first so many bytes of what was taken; kernels find rubbish behind them. */
MUST_CHECK enum status stage_send_part(struct stage *stage, size_t bytes, const uint8_t **sent_out);
/* ticket was recorded behind the last kernel that reads what was sent. */
void stage_keep(struct stage *stage, struct device_ticket ticket);
