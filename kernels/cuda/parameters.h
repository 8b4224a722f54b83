/*
 * parameters - declares the argument of a kernel: one struct in C, for the compilers of the host and of the device.
 *
 * Between PARAMETERS_BEGIN and PARAMETERS_END padding is an error: tests compare sizes, and padding could hide a missing
 * field. Fields are fixed-width numbers, flags as uint32_t, and addresses of the device. A comment gives the shape of the
 * data at an address.
 */
#pragma once

#include <stdint.h>

#define PARAMETERS_BEGIN _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic error \"-Wpadded\"")
#define PARAMETERS_END   _Pragma("GCC diagnostic pop")
