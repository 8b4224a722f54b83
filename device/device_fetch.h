/*
 * device_fetch - bytes of a device in memory of the host's, now: results that somebody on the host waits for.
 *
 * In pieces, of which a few are under way at a time: as many views as a device can stage are enough, whatever the size, and
 * those that copies have are none of its concern (device_read). On the host it is a copy.
 *
 * Thread: the compute queue's owner, which holds no view.
 */
#pragma once

#include "device/device.h"

/* target has what source holds behind all that was enqueued on the compute queue so far. Waits for it, as device_wait.
 * DEVICE_LOST, nothing else: target is rubbish. */
MUST_CHECK enum status device_fetch(struct device *device, const void *source, size_t bytes,
                                    void *target);
