/*
 * device_fetch - bytes of a device in memory of the host's, now: results that somebody on the host waits for.
 *
 * In pieces, of which a few are under way at a time: as many views as a device can stage are enough, whatever the size. On
 * the host it is a copy.
 *
 * Thread: the queue's.
 */
#pragma once

#include "device/device.h"

/* target has what source holds behind all that was enqueued on queue so far. Waits for it, as device_wait. DEVICE_LOST:
 * target is rubbish. QUEUE_FULL: others have all the views there are. */
MUST_CHECK enum status device_fetch(struct device *device, enum device_queue queue,
                                    const void *source, size_t bytes, void *target);
