/*
 * gguf_file - lists the keys and tensors of a GGUF file of version 2 or 3 without copying them.
 *
 *     0     "GGUF", u32 version, u64 n_tensors, u64 n_keys          all numbers are little-endian
 *     24    n_keys times       text name, u32 kind, value            a text is u64 n, n bytes
 *           n_tensors times    text name, u32 n_dims, u64 dims[], u32 type, u64 offset
 *           the data           from the next multiple of general.alignment (32 if absent) on
 *
 * dims are in the order of memory: dims[0] is the length of a row. A file that breaks these rules is refused: keys or tensors
 * twice, a value that ends behind the file, a row that is no whole number of blocks, data outside the file, tensors that
 * overlap, names that are empty or longer than 255 bytes.
 *
 * A model may be split: NAME-00001-of-0000N.gguf and so on, each with its own tensors; the keys of the first one count.
 *
 * Thread: immutable after open.
 */
#pragma once

#include "gguf/gguf_table.h"

/* Maps the file, and the other parts of a split model. NOT_FOUND, IO_FAILED, NO_MEMORY; CORRUPT, UNSUPPORTED with a sentence that
 * names the file, and the key or tensor. */
MUST_CHECK enum status gguf_open(const char *path, struct gguf_file *file_out, struct error *error);
/* The same of one file in memory, which outlives file_out. */
MUST_CHECK enum status gguf_parse(const void *data, size_t bytes, const char *name,
                                  struct gguf_file *file_out, struct error *error);
void gguf_close(struct gguf_file *file); /* a zeroed one is fine */

/* Whether the file begins as GGUF does. */
bool gguf_is(const char *path);
