/*
 * attention_list - the sets of kernels whose attention differs.
 */
#pragma once

#include "kernels/kernels.h"

#include <stdbool.h>

/* Of the sets that this machine runs and that share one attention back end the first; the reference is
 * list_out[0]. Returns their number. */
uint32_t attention_list(const struct kernels *list_out[KERNELS_MAX]);

/* The math whose products a set adds in an order of its own; MATH_COMPUTE: all have the bits of the
 * others. */
enum attention_math attention_own_math(const char *name);

/* Whether a set rounds products before it adds them: its sums of any kind have bits of their own. */
bool rounds_products(const char *name);
