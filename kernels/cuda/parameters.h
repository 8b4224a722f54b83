/*
 * parameters - how the argument of a kernel is declared: one struct, in C, for the host's compiler and the device's.
 *
 * Between PARAMETERS_BEGIN and PARAMETERS_END a hole that the compiler would fill in is an error: a field lost in one is the
 * mistake that no test of the sizes sees. Fields are fixed-width numbers, flags as uint32_t, and addresses of the
 * device; what is at an address is said in a comment, with its shape.
 */
#pragma once

#include <stdint.h>

#define PARAMETERS_BEGIN _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic error \"-Wpadded\"")
#define PARAMETERS_END   _Pragma("GCC diagnostic pop")
