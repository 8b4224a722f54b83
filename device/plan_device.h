/*
 * plan_device - a dry run of another device: it has the same traits, but memory is only counted, writes are dropped,
 * and nothing runs. So it shows how much memory a start needs (device_bytes), also if other processes use the real
 * device. It has as much memory as the other device has free.
 *
 * It cannot read, launch or capture: objects on it may only enqueue writes.
 *
 * Thread: main.
 */
#pragma once

#include "device/device.h"

/* of: a device that runs an image of kernels; borrowed until close. NO_MEMORY. */
MUST_CHECK enum status plan_device_open(struct device *of, struct device **device_out);
