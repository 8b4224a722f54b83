/*
 * attention_backends - lists the attention back ends that are built in, and selects one.
 *
 * Each set of kernels has its own back end. A user can choose another one by name, with any set of kernels for the
 * products.
 */
#pragma once

#include "kernels/attention.h"

struct kernels;

/* The name at index of the list, from 0; NULL: the end. The list also has back ends that this machine cannot run. */
const char *attention_backend_name(uint32_t index);
/* The name of backend in the list. */
const char *attention_backend_set(const struct attention_backend *backend);

/* name NULL or empty: the environment variable KVFERRY_ATTENTION decides, else the back end of kernels.
 * INVALID_ARGUMENT: no such name. UNSUPPORTED: this machine lacks the instructions. */
MUST_CHECK enum status attention_backend_select(const char *name, const struct kernels *kernels,
                                                const struct attention_backend **backend_out,
                                                struct error *error);
