/*
 * operators - prints a line for each operator of a set that is no attention: its name and sizes, the digest of its result.
 *
 * Thread: any.
 */
#pragma once

#include "kernels/kernels.h"

void operators_print(const struct kernels *kernels);
