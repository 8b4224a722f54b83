/*
 * placed_weights - puts the tensors of a model where the kernels of its device can read them.
 *
 * On a device that reads the host's memory they stay in place: in the mapped files, or in the memory of
 * quantized_weights.h; no byte is read. Other devices get copies, and the originals may be freed.
 *
 * Thread: made on one, which owns the device's copy queue; immutable afterwards.
 */
#pragma once

#include "device/device_place.h"
#include "model/weights/weights.h"

struct placed_weights {
    struct device *device;          /* borrowed until finish */
    struct device_memory *memories; /* [n_memories] */
    uint32_t n_memories;
    uint64_t in_place_bytes; /* of tensors that stay where they are */
};

struct placed_weights_options {
    struct device *device;
    void (*on_progress)(void *arg, uint64_t bytes_done, uint64_t bytes_all); /* may be NULL */
    void *arg;
};

/* Rewrites the tensors of weights. All copies are complete when it returns. DEVICE_LOST, NO_MEMORY with a sentence. */
MUST_CHECK enum status placed_weights_make(const struct placed_weights_options *options,
                                           struct weights *weights, uint32_t n_layers,
                                           struct placed_weights *placed_out, struct error *error);
void placed_weights_finish(struct placed_weights *placed); /* a zeroed one is fine */

/* The device memory of one tensor: its data and its scales. */
enum { PLACED_MEMORIES = 2 };

/* Places the rows and columns of slice, in the order of the copy queue. Scales go with their rows. The columns of a slice
 * must begin and end where a group of scale_columns does, unless there is one scale a row. A packed tensor is placed whole.
 * Statuses of device_place; INVALID_ARGUMENT also for a slice that divides a group or a packed tensor. The caller frees
 * memories_out; base NULL: the tensor stays in place. */
MUST_CHECK enum status tensor_place(struct device *device, const struct tensor *tensor,
                                    const struct device_slice *slice, struct error *error,
                                    struct tensor *placed_out,
                                    struct device_memory memories_out[PLACED_MEMORIES]);
/* The bytes of data and scales. */
uint64_t tensor_bytes(const struct tensor *tensor);
