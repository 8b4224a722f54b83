/*
 * device_fetch - copies results from a device to host memory, and waits for them.
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
