/*
 * gguf_weights - the tensors of a GGUF file in one table with names and shapes as a safetensors file has them.
 *
 * Thread: open and close on one; immutable in between.
 */
#pragma once

#include "gguf/gguf_file.h"
#include "model/files/safetensors.h"

/* A table for each part: [file->n_parts]. Data stays in the mapped file. Tensors that the architecture does not use keep their
 * own names; one with the matrices of all experts becomes one for each. NO_MEMORY; UNSUPPORTED, CORRUPT with a sentence. */
MUST_CHECK enum status gguf_weights_list(const struct gguf_file *file,
                                         struct safetensors *tables_out, struct error *error);
