/*
 * attention_backends - the attention back ends that are built in, as an explicit list.
 */
#pragma once

#include "kernels/attention.h"

/* NULL: none is called so. */
const struct attention_backend *attention_backend_find(const char *name);

/* Every back end, reference first; some need instructions that this machine may lack: kernels.h. */
uint32_t attention_backends(const struct attention_backend *const **backends_out);
