/*
 * manifest - checks the files of a model's folder against a list of digests of `sha256sum`.
 *
 *     2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae  model.safetensors
 *
 * One line for each file: 64 hex digits, a space, a space or '*', a plain name. Empty lines are ignored. Every file
 * of the model (*.json, *.safetensors) must be in the list, so that no other file can be added.
 *
 * Bound: a list of MANIFEST_BYTES_MAX. Thread: any; no state.
 */
#pragma once

#include "base/status.h"

#include <stdint.h>

#define MANIFEST_BYTES_MAX (1u << 20)

/* n_files_out: the number of compared files. CORRUPT: a malformed line, a file that differs or is not in the list, an
 * empty list; NOT_FOUND, IO_FAILED: the list or a file. The sentence has the name of the file. */
MUST_CHECK enum status manifest_check(const char *path, const char *folder, uint32_t *n_files_out,
                                      struct error *error);
