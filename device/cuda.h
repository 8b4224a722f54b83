/*
 * cuda - an NVIDIA GPU as a device: its own memory, a compute and a copy stream, kernels from an image.
 *
 * The driver is opened at run time (cuda_driver.h). The primary context is made current in each thread that makes a
 * call. The host writes and reads through pinned memory that is allocated at open (cuda_ring.h). When the device is
 * lost, the driver is not called any more: even frees would fail or never return. The process ends then.
 *
 * Thread: as device.h.
 */
#pragma once

#include "device/device.h"

/* number: the driver's index. NOT_FOUND: no driver, no GPU, or no GPU with that number. UNSUPPORTED: driver or GPU is
 * too old for the kernels. NO_MEMORY, DEVICE_LOST. All with a sentence. */
MUST_CHECK enum status cuda_open(uint32_t number, struct device **device_out, struct error *error);
