/*
 * attention_backends - the attention back ends that are built in, as an explicit list.
 *
 * Each set of kernels has its own. Another one can be chosen by name, with any set of kernels for the products.
 */
#pragma once

#include "kernels/attention.h"

struct kernels;

/* The list. index counts from 0; NULL: the end. Some need instructions that this machine lacks. */
const char *attention_backend_name(uint32_t index);
/* Its name in the list. */
const char *attention_backend_set(const struct attention_backend *backend);

/* name NULL or empty: the environment's KVFERRY_ATTENTION, else the back end of kernels.
 * INVALID_ARGUMENT: no such name. UNSUPPORTED: this machine lacks the instructions. */
MUST_CHECK enum status attention_backend_select(const char *name, const struct kernels *kernels,
                                                const struct attention_backend **backend_out,
                                                struct error *error);
