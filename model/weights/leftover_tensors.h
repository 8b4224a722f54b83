/*
 * leftover_tensors - tells which tensors of a model's files nothing uses.
 *
 * Thread: any; no state.
 */
#pragma once

#include "model/files/weight_files.h"

#include <stdbool.h>

/* Logs one line for each part that is skipped on purpose (what sees, what predicts more tokens), and a warning for all others, if
 * there are any. is_used: [files->n_entries]. */
void leftover_tensors_tell(const struct weight_files *files, const bool *is_used);
