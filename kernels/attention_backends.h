/*
 * attention_backends - the attention back ends that are built in, as an explicit list.
 *
 * Each set of kernels has one of its own; another can be asked for by name, whatever computes the
 * products beside it.
 */
#pragma once

#include "kernels/attention.h"

struct kernels;

/* The list; some need instructions that this machine lacks. index from 0; NULL: the list has ended. */
const char *attention_backend_name(uint32_t index);
/* Its name in the list. */
const char *attention_backend_set(const struct attention_backend *backend);

/* name NULL or empty: the environment's KVFERRY_ATTENTION, else the back end of kernels.
 * INVALID_ARGUMENT: no such name. UNSUPPORTED: this machine lacks the instructions. */
MUST_CHECK enum status attention_backend_select(const char *name, const struct kernels *kernels,
                                                const struct attention_backend **backend_out,
                                                struct error *error);
