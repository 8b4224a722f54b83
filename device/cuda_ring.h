/*
 * cuda_ring - pinned host memory for copies to a GPU and back.
 *
 *     large   4 slots of DEVICE_VIEW_BYTES_MAX    weights at start, then results that a step waits for
 *     small   64 slots of DEVICE_PIECE_BYTES      pieces of blocks; results, too, unless KV transfers use them all
 *     twins   one per arena of DEVICE_STAGING     inputs of a step, as large as the arena
 *
 * A view is a slot, from its first byte: whole pages that nothing else uses. A written slot is free again when its copy
 * is done, which the slot's event shows. All memory is allocated at start.
 *
 * Thread: any.
 */
#pragma once

#include "device/cuda_device.h"

/* NO_MEMORY, DEVICE_LOST: with a sentence. */
MUST_CHECK enum status cuda_ring_create(struct cuda_device *cuda, struct cuda_ring *ring,
                                        struct error *error);
/* Also for half-built ones. */
void cuda_ring_destroy(struct cuda_device *cuda, struct cuda_ring *ring);

/* Writes to target use their own pages from now on. NO_MEMORY, DEVICE_LOST. */
MUST_CHECK enum status cuda_ring_add_twin(struct cuda_device *cuda, struct cuda_ring *ring,
                                          const uint8_t *target, size_t bytes);
/* Fine if target has none. */
void cuda_ring_drop_twin(struct cuda_device *cuda, struct cuda_ring *ring, const uint8_t *target);

/* A slot for a write to target, or, with NULL, for a read of the copy queue. QUEUE_FULL,
 * DEVICE_LOST. */
MUST_CHECK enum status cuda_ring_take(struct cuda_device *cuda, struct cuda_ring *ring,
                                      const uint8_t *target, size_t bytes, uint8_t **view_out);
/* A slot for a read of the compute queue, whatever KV transfers use. QUEUE_FULL: only if the compute
 * queue's owner uses all of its slots. DEVICE_LOST. */
MUST_CHECK enum status cuda_ring_take_result(struct cuda_device *cuda, struct cuda_ring *ring,
                                             size_t bytes, uint8_t **view_out);
/* Call it after the copy out of view is enqueued on stream. DEVICE_LOST. */
MUST_CHECK enum status cuda_ring_sent(struct cuda_device *cuda, struct cuda_ring *ring,
                                      const uint8_t *view, cuda_stream stream);
/* Frees the view; no copy uses it any more. */
void cuda_ring_give(struct cuda_ring *ring, const uint8_t *view);
