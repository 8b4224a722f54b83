/*
 * plan_device - another device on paper: of its traits, but memory of it is counted and not taken, what is written goes nowhere,
 * and nothing runs. What is created on it says what a start takes (device_bytes), on a device that others are at work on. There is
 * memory for it as far as the other device has some free.
 *
 * It reads nothing, launches nothing and captures nothing: whoever is created on it enqueues nothing but writes.
 *
 * Thread: main.
 */
#pragma once

#include "device/device.h"

/* of: one with kernels of its own; borrowed until close. NO_MEMORY. */
MUST_CHECK enum status plan_device_open(struct device *of, struct device **device_out);
