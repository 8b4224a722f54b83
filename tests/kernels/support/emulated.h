/* emulated - the sets of this machine, and the matrix unit's products in C where no machine has them. */
#pragma once

#include "kernels/kernels.h"

#define EMULATED_MAX (KERNELS_MAX + 1u)

/* kernels_list, and the emulated set behind it if its other instructions are there. Returns how many. */
uint32_t emulated_list(const struct kernels *list_out[EMULATED_MAX]);
