/* gguf_copy - copies of the files of tests/golden/gguf, each with something changed. They assert on failure. */
#pragma once

#include "gguf/gguf_table.h"

#include <stddef.h>
#include <stdint.h>

#define GOLDEN_GGUF KVFERRY_SOURCE_DIR "/tests/golden/gguf"

/* A tensor of floats says that it has blocks. */
void gguf_copy_with_blocks(const char *golden, const char *tensor, const char *path);
/* Another name of a key, as long as its own, or another value, of 32 bits. */
void gguf_copy_with_key(const char *golden, const char *key, const char *name, uint32_t value,
                        const char *path);
/* Another element of an array of numbers of so many bytes, or another number of elements: element UINT64_MAX. */
void gguf_copy_with_element(const char *golden, const char *key, uint64_t element,
                            size_t element_bytes, uint64_t value, const char *path);
/* Another float of a tensor; first: how it begins. */
void gguf_copy_with_float(const char *golden, const float *first, size_t n_first, size_t element,
                          float value, const char *path);
/* One more key: its length, name, type and value, in a multiple of the 32 bytes to which tensors are aligned. */
void gguf_copy_with_more(const char *golden, const void *key, size_t key_bytes, const char *path);
/* The same of a key with one number, or true or false, without a condition on its length. */
void gguf_copy_with_number(const char *golden, const char *name, enum gguf_kind kind,
                           const void *value, const char *path);

/* The file is not loaded, and the error has the sentence. what: for messages. */
void gguf_copy_refused(const char *path, const char *what, const char *sentence);
