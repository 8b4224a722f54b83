/*
 * manifest - whether the files of a model's folder have the digests that a list of `sha256sum` gives.
 *
 *     2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae  model.safetensors
 *
 * A line a file: 64 hex digits, a space, a space or '*', a plain name. Empty lines are passed over. Every file that a
 * model is read from (*.json, *.safetensors) must be in the list, so that none can be put beside those that are.
 *
 * Bound: MANIFEST_BYTES_MAX of list. Thread: any; no state.
 */
#pragma once

#include "base/status.h"

#include <stdint.h>

#define MANIFEST_BYTES_MAX (1u << 20)

/* n_files_out: the files that were compared. CORRUPT: a line that is none, a file that differs or that the list lacks,
 * an empty list; NOT_FOUND, IO_FAILED: of the list or a file. The sentence has the file's name. */
MUST_CHECK enum status manifest_check(const char *path, const char *folder, uint32_t *n_files_out,
                                      struct error *error);
