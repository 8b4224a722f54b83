/*
 * weight_table - finds the tensors of a decoder in the files, by the names, shapes and conditions of tensor_names.c.
 *
 * Thread: any; no state.
 */
#pragma once

#include "model/weights/weight_binding.h"

/* Sets weights; data points into the mapped files. CORRUPT, UNSUPPORTED: the sentence names the tensor. */
MUST_CHECK enum status weight_table_bind(struct weight_binding *binding, struct error *error);
