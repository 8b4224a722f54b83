/*
 * descriptor_index - finds files and symbols in a serialized FileDescriptorSet.
 *
 * It walks the wire format of descriptor.proto, so that no descriptor code needs to be generated.
 * Symbols are messages, enums, services and methods, by full name ("kvferry.v1.Tokenize").
 *
 * Thread: any after creation; nothing changes.
 */
#pragma once

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

#define DESCRIPTOR_NONE SIZE_MAX /* index of a file that does not exist */

struct rpc_descriptor_index;

struct rpc_descriptor_file {
    const uint8_t *bytes; /* a serialized FileDescriptorProto, inside the set */
    size_t n_bytes;
};

/* set is borrowed until destroy. CORRUPT: it cannot be read, or an import is missing. */
MUST_CHECK enum status rpc_descriptor_index_create(const uint8_t *set, size_t n_set,
                                                   struct rpc_descriptor_index **index_out);
void rpc_descriptor_index_destroy(struct rpc_descriptor_index *index); /* NULL is fine */

size_t rpc_descriptor_index_count(const struct rpc_descriptor_index *index);
struct rpc_descriptor_file rpc_descriptor_index_file(const struct rpc_descriptor_index *index,
                                                     size_t file);
/* DESCRIPTOR_NONE: not found. */
size_t rpc_descriptor_index_by_name(const struct rpc_descriptor_index *index, const char *name);
size_t rpc_descriptor_index_by_symbol(const struct rpc_descriptor_index *index, const char *symbol);
/* Writes file and all its imports to files_out, file first, each once; files_out has room for all
 * files. Returns how many. */
size_t rpc_descriptor_index_closure(const struct rpc_descriptor_index *index, size_t file,
                                    size_t *files_out);
