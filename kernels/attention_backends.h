/*
 * attention_backends - the attention back ends that are built in, as an explicit list.
 */
#pragma once

#include "kernels/attention.h"

/* reference, avx2, avx512; NULL: none is called so. A machine may lack the instructions of one:
 * kernels_select knows. */
const struct attention_backend *attention_backend_find(const char *name);
