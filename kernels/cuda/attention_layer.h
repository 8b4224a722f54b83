/*
 * attention_layer - a layer on the device: arrays in the host's memory are copied there once.
 *
 * Thread: as kernels/attention.h.
 */
#pragma once

#include "device/device.h"
#include "kernels/backend/attention_layer.h"

#define CUDA_HEAD_DIM_MAX 256u

struct attention {
    struct attention_layer layer;
    struct device *device;
    struct device_memory memory;                   /* the arrays below, one after the other */
    const float *slopes, *sinks, *table, *buckets; /* on the device; NULL: none */
    const uint32_t *bucket_starts; /* [n_buckets of one direction] smallest distance of each */
};

/* Statuses of attention_backend.create. */
MUST_CHECK enum status cuda_layer_create(const struct attention_config *config, uint64_t features,
                                         struct attention **attention_out, struct error *error);
void cuda_layer_destroy(struct attention *attention); /* NULL is fine */

/* Enqueues a copy of bytes of the host to target. Waits while the queue is full. DEVICE_LOST. */
MUST_CHECK enum status cuda_send(struct device *device, uint8_t *target, const void *source,
                                 size_t bytes);
