/*
 * host - the device that is this machine: memory of the process, queues that run what they are given at once.
 *
 * Nothing is copied: a read's view is the memory itself, and so is a write's. Every record is done when it is made.
 *
 * Thread: as device.h.
 */
#pragma once

#include "device/device.h"

MUST_CHECK enum status host_open(struct device **device_out);
