/*
 * device_fetch - copies results from a device to host memory, or what the host has to the device, and waits.
 *
 * It copies in pieces, a few at a time, so the device's views are enough for any size; views of the copy queue do not
 * matter (device_read). On the host it is a plain copy.
 *
 * Thread: the compute queue's owner, which holds no view.
 */
#pragma once

#include "device/device.h"

/* Copies source to target after all work that is enqueued on the compute queue, and waits, as device_wait. DEVICE_LOST
 * is the only failure; then target has no useful content. */
MUST_CHECK enum status device_fetch(struct device *device, const void *source, size_t bytes,
                                    void *target);
/* Copies bytes to target, likewise; other copies may use the device's views meanwhile. DEVICE_LOST; QUEUE_FULL: they always did. */
MUST_CHECK enum status device_put(struct device *device, uint8_t *target, const uint8_t *bytes,
                                  size_t n_bytes);
