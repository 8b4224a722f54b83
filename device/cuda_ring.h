/*
 * cuda_ring - pinned memory of the host, by which bytes get to a GPU and back.
 *
 *     large   4 slots of DEVICE_VIEW_BYTES_MAX    weights at start, then results that a step waits for
 *     small   64 slots of DEVICE_PIECE_BYTES      pieces of blocks; results, too, unless hand-overs have them all
 *     twins   one an arena of DEVICE_STAGING      a step's, as large as the arena
 *
 * A view is a slot, from its first byte on: whole pages, nobody else's. One that was written is free again when its copy is
 * done, which an event of its own says. All of it is taken at start.
 *
 * Thread: any.
 */
#pragma once

#include "device/cuda_device.h"

/* NO_MEMORY, DEVICE_LOST: with a sentence. */
MUST_CHECK enum status cuda_ring_create(struct cuda_device *cuda, struct cuda_ring *ring,
                                        struct error *error);
/* Half-built ones too. */
void cuda_ring_destroy(struct cuda_device *cuda, struct cuda_ring *ring);

/* What is written to go to target goes by pages of its own. NO_MEMORY, DEVICE_LOST. */
MUST_CHECK enum status cuda_ring_add_twin(struct cuda_device *cuda, struct cuda_ring *ring,
                                          const uint8_t *target, size_t bytes);
/* None of that target is fine. */
void cuda_ring_drop_twin(struct cuda_device *cuda, struct cuda_ring *ring, const uint8_t *target);

/* To write to target, or, NULL, for a read of the copy queue. QUEUE_FULL, DEVICE_LOST. */
MUST_CHECK enum status cuda_ring_take(struct cuda_device *cuda, struct cuda_ring *ring,
                                      const uint8_t *target, size_t bytes, uint8_t **view_out);
/* For a read of the compute queue, whatever hand-overs have. QUEUE_FULL: its owner's own. DEVICE_LOST. */
MUST_CHECK enum status cuda_ring_take_result(struct cuda_device *cuda, struct cuda_ring *ring,
                                             size_t bytes, uint8_t **view_out);
/* The copy out of view has been enqueued on stream. DEVICE_LOST. */
MUST_CHECK enum status cuda_ring_sent(struct cuda_device *cuda, struct cuda_ring *ring,
                                      const uint8_t *view, cuda_stream stream);
/* Nothing is copied from or to it any more. */
void cuda_ring_give(struct cuda_ring *ring, const uint8_t *view);
