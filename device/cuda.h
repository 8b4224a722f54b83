/*
 * cuda - a device that is an NVIDIA GPU: memory of its own, a compute and a copy stream, kernels of an image.
 *
 * The driver is opened at run time (cuda_driver.h). The primary context is made current in whichever thread makes a call.
 * What the host writes or reads goes through pinned memory that is taken at open (cuda_ring.h). Once the device is lost
 * nothing more is asked of the driver: frees fail then too, or never return, and the process ends.
 *
 * Thread: as device.h.
 */
#pragma once

#include "device/device.h"

/* number: as the driver counts them. NOT_FOUND: no driver, no GPU, none of that number. UNSUPPORTED: driver or GPU is older than the
 * kernels. NO_MEMORY, DEVICE_LOST. All with a sentence. */
MUST_CHECK enum status cuda_open(uint32_t number, struct device **device_out, struct error *error);
