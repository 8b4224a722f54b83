/*
 * adapter_file - the tensors of adapter_model.safetensors, by name, and which of them were used.
 *
 * The whole file is read into memory: a mapped one that is cut meanwhile would end the process, which may serve.
 *
 * Thread: used on one.
 */
#pragma once

#include "kernels/dtype.h"
#include "model/files/mapped_file.h"
#include "model/files/safetensors.h"

#include <stdbool.h>

#define ADAPTER_FILE "adapter_model.safetensors"

struct adapter_file {
    struct mapped_file file; /* a copy */
    struct safetensors tensors;
    const struct safetensor **by_name; /* [tensors.n_tensors] */
    bool *is_used;                     /* [tensors.n_tensors] in the order of by_name */
};

/* bytes_max: of the file. NOT_FOUND, IO_FAILED, CORRUPT, UNSUPPORTED, INVALID_ARGUMENT (larger) with a sentence; NO_MEMORY. */
MUST_CHECK enum status adapter_file_open(const char *folder, uint64_t bytes_max,
                                         struct error *error, struct adapter_file *file_out);
void adapter_file_close(struct adapter_file *file); /* a zeroed one is fine */

/* Marks it as used. NULL: there is none. */
const struct safetensor *adapter_file_find(struct adapter_file *file, const char *name);
/* Whether a name begins with prefix. */
bool adapter_file_has_prefix(const struct adapter_file *file, const char *prefix);

/* F32, BF16 or F16 of that shape with finite values. CORRUPT, UNSUPPORTED: names tensor and value. */
MUST_CHECK enum status adapter_file_check(const struct safetensor *tensor, uint64_t n_rows,
                                          uint64_t n_columns, struct error *error,
                                          enum dtype *dtype_out);
/* UNSUPPORTED: names the first tensor that was not used, and what it would be. */
MUST_CHECK enum status adapter_file_check_used(const struct adapter_file *file,
                                               struct error *error);
