/*
 * host - this machine as a device: memory of the process, queues that run their work at once.
 *
 * Nothing is copied: the view of a read or a write is the memory itself. Every record is done when it is made.
 *
 * Thread: as device.h.
 */
#pragma once

#include "device/device.h"

MUST_CHECK enum status host_open(struct device **device_out);
