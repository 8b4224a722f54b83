/*
 * activation_name - the names that config.json has for activations.
 *
 * Thread: any; no state.
 */
#pragma once

#include "kernels/kernel_set.h"
#include "model/files/json_fields.h"

/* key: whose value name is, for the sentence. UNSUPPORTED: the name is none of those that are computed. */
MUST_CHECK enum status activation_name_read(const struct json_fields *fields, const char *key,
                                            const char *name, enum activation *activation_out);
