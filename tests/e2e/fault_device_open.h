/*
 * fault_device_open - the program kvferry_fault_device: the product's with a device that copies what it is given, late, and
 * is lost when it is told.
 *
 *     from the start    environment FAULT_DEVICE_FAILS="CALL N", CALL an enum fault_call: the nth such call fails
 *     while it runs     sigqueue(SIGRTMIN, fault_signal(CALL, N)): the nth from now on
 */
#pragma once

#include "tests/device/fault_device.h"

#define FAULT_ENVIRONMENT "FAULT_DEVICE_FAILS"

static inline int fault_signal(enum fault_call call, uint32_t n)
{
    return (int)(n * FAULT_CALLS + (uint32_t)call);
}
