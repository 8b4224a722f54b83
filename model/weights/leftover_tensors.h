/*
 * leftover_tensors - says which tensors of the files a model does not use.
 *
 * Thread: any; no state.
 */
#pragma once

#include "model/config/model_config.h"
#include "model/files/weight_files.h"

/* is_used: [files->n_entries]. Logs a line for each part that is skipped on purpose (what sees, what predicts further tokens), and the
 * number and the first of those that nobody expects, if there are any. */
void leftover_tensors_say(const struct model_config *config, const struct weight_files *files,
                          const bool *is_used);
