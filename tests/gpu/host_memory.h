/*
 * host_memory - memory of the host that kernels of a GPU read and write where it is: pinned and mapped by the driver, at the
 * same address on both sides. For tests alone: the product's kernels are given memory of the device.
 *
 * Thread: one, with the device's context.
 */
#pragma once

#include "device/device.h"

/* Until disown. Ends the program where the driver cannot. */
void host_memory_adopt(struct device *device, const void *base, size_t bytes);
/* Before it is unmapped. What was not adopted: nothing. */
void host_memory_disown(struct device *device, const void *base, size_t bytes);
