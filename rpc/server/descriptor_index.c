/*
 * descriptor_index - see descriptor_index.h. Field numbers of descriptor.proto that are read:
 *
 *     FileDescriptorSet     1 file
 *     FileDescriptorProto   1 name  2 package  3 dependency  4 message  5 enum  6 service
 *     DescriptorProto       1 name  3 nested message  4 enum
 *     EnumDescriptorProto   1 name
 *     ServiceDescriptor     1 name  2 method (1 name)
 */
#include "rpc/server/descriptor_index.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SYMBOL_BYTES_MAX 256 /* a full name, with its NUL */
#define NESTING_MAX      8   /* of messages declared in messages */

struct span {
    const uint8_t *bytes;
    size_t n_bytes;
};

struct file {
    struct span raw;
    struct span name;
    struct span package;
};

struct symbol {
    char *name;
    size_t file;
};

struct rpc_descriptor_index {
    struct file *files;
    size_t n_files;
    struct symbol *symbols; /* sorted by name */
    size_t n_symbols;
    size_t symbols_max;
};

static bool read_varint(struct span *span, uint64_t *value_out)
{
    *value_out = 0;
    for (unsigned shift = 0; shift < 64 && span->n_bytes > 0; shift += 7) {
        uint8_t byte = *span->bytes++;
        span->n_bytes--;
        *value_out |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

static bool take(struct span *span, uint64_t n_bytes, struct span *taken_out)
{
    if (n_bytes > span->n_bytes)
        return false;
    *taken_out = (struct span){span->bytes, (size_t)n_bytes};
    span->bytes += n_bytes;
    span->n_bytes -= (size_t)n_bytes;
    return true;
}

/* Reads the next field; number 0: the end of span. value is empty for a field without bytes. False: malformed. */
static bool next_field(struct span *span, uint32_t *number_out, struct span *value_out)
{
    uint64_t key, length;
    struct span skipped;
    *number_out = 0;
    *value_out = (struct span){span->bytes, 0};
    if (span->n_bytes == 0)
        return true;
    if (!read_varint(span, &key))
        return false;
    *number_out = (uint32_t)(key >> 3);
    switch (key & 7) {
    case 0:
        return read_varint(span, &length);
    case 1:
        return take(span, 8, &skipped);
    case 2:
        return read_varint(span, &length) && take(span, length, value_out);
    case 5:
        return take(span, 4, &skipped);
    default:
        return false;
    }
}

/* The first field with that number; empty: none. */
static struct span find_field(struct span message, uint32_t wanted)
{
    uint32_t number;
    struct span value;
    while (next_field(&message, &number, &value) && number != 0)
        if (number == wanted)
            return value;
    return (struct span){message.bytes, 0};
}

static enum status add_symbol(struct rpc_descriptor_index *index, const char *prefix,
                              struct span name, char full_out[SYMBOL_BYTES_MAX])
{
    assert(index->n_files > 0); /* the last file declares it */
    int n = snprintf(full_out, SYMBOL_BYTES_MAX, "%s%s%.*s", prefix, prefix[0] ? "." : "",
                     (int)name.n_bytes, (const char *)name.bytes);
    if (n < 0 || n >= SYMBOL_BYTES_MAX || name.n_bytes == 0)
        return STATUS_CORRUPT;
    if (index->n_symbols == index->symbols_max) {
        size_t symbols_max = index->symbols_max ? 2 * index->symbols_max : 64;
        struct symbol *grown = realloc(index->symbols, symbols_max * sizeof *grown);
        if (!grown)
            return STATUS_NO_MEMORY;
        index->symbols = grown;
        index->symbols_max = symbols_max;
    }
    char *copy = strdup(full_out);
    if (!copy)
        return STATUS_NO_MEMORY;
    index->symbols[index->n_symbols++] = (struct symbol){copy, index->n_files - 1};
    return STATUS_OK;
}

/* Adds a message, an enum or a service, and the declarations inside. */
enum declaration { IS_MESSAGE, IS_ENUM, IS_SERVICE };

static enum status add_declaration(struct rpc_descriptor_index *index, const char *prefix,
                                   struct span body, enum declaration kind, unsigned depth)
{
    char full[SYMBOL_BYTES_MAX], inner[SYMBOL_BYTES_MAX];
    TRY(add_symbol(index, prefix, find_field(body, 1), full));
    if (depth >= NESTING_MAX)
        return STATUS_CORRUPT;
    uint32_t number;
    struct span value;
    while (next_field(&body, &number, &value)) {
        if (number == 0)
            return STATUS_OK;
        if (kind == IS_MESSAGE && number == 3)
            TRY(add_declaration(index, full, value, IS_MESSAGE, depth + 1));
        else if (kind == IS_MESSAGE && number == 4)
            TRY(add_declaration(index, full, value, IS_ENUM, depth + 1));
        else if (kind == IS_SERVICE && number == 2)
            TRY(add_symbol(index, full, find_field(value, 1), inner));
    }
    return STATUS_CORRUPT;
}

static enum status add_file(struct rpc_descriptor_index *index, struct span raw)
{
    struct file *file = &index->files[index->n_files++];
    *file = (struct file){raw, find_field(raw, 1), find_field(raw, 2)};
    char package[SYMBOL_BYTES_MAX];
    if (file->package.n_bytes >= sizeof package || file->name.n_bytes == 0)
        return STATUS_CORRUPT;
    memcpy(package, file->package.bytes, file->package.n_bytes);
    package[file->package.n_bytes] = '\0';

    uint32_t number;
    struct span value;
    while (next_field(&raw, &number, &value)) {
        if (number == 0)
            return STATUS_OK;
        if (number == 4)
            TRY(add_declaration(index, package, value, IS_MESSAGE, 0));
        else if (number == 5)
            TRY(add_declaration(index, package, value, IS_ENUM, 0));
        else if (number == 6)
            TRY(add_declaration(index, package, value, IS_SERVICE, 0));
    }
    return STATUS_CORRUPT;
}

static size_t find_file(const struct rpc_descriptor_index *index, struct span name)
{
    for (size_t i = 0; i < index->n_files; i++) {
        struct span other = index->files[i].name;
        if (other.n_bytes == name.n_bytes && memcmp(other.bytes, name.bytes, name.n_bytes) == 0)
            return i;
    }
    return DESCRIPTOR_NONE;
}

static enum status check_imports(const struct rpc_descriptor_index *index)
{
    for (size_t i = 0; i < index->n_files; i++) {
        struct span body = index->files[i].raw, value;
        uint32_t number;
        while (next_field(&body, &number, &value) && number != 0)
            if (number == 3 && find_file(index, value) == DESCRIPTOR_NONE)
                return STATUS_CORRUPT;
    }
    return STATUS_OK;
}

static int compare_symbols(const void *a, const void *b)
{
    return strcmp(((const struct symbol *)a)->name, ((const struct symbol *)b)->name);
}

static enum status read_set(struct rpc_descriptor_index *index, struct span set)
{
    size_t n_files = 0;
    uint32_t number;
    struct span value;
    for (struct span rest = set; next_field(&rest, &number, &value) && number != 0;)
        n_files += number == 1;
    index->files = calloc(n_files + 1, sizeof *index->files);
    if (!index->files)
        return STATUS_NO_MEMORY;
    while (next_field(&set, &number, &value)) {
        if (number == 0) {
            if (index->n_symbols > 0)
                qsort(index->symbols, index->n_symbols, sizeof *index->symbols, compare_symbols);
            return check_imports(index);
        }
        if (number == 1)
            TRY(add_file(index, value));
    }
    return STATUS_CORRUPT;
}

enum status rpc_descriptor_index_create(const uint8_t *set, size_t n_set,
                                        struct rpc_descriptor_index **index_out)
{
    struct rpc_descriptor_index *index = calloc(1, sizeof *index);
    if (!index)
        return STATUS_NO_MEMORY;
    enum status status = read_set(index, (struct span){set, n_set});
    if (status != STATUS_OK) {
        rpc_descriptor_index_destroy(index);
        return status;
    }
    *index_out = index;
    return STATUS_OK;
}

void rpc_descriptor_index_destroy(struct rpc_descriptor_index *index)
{
    if (!index)
        return;
    for (size_t i = 0; i < index->n_symbols; i++)
        free(index->symbols[i].name);
    free(index->symbols);
    free(index->files);
    free(index);
}

size_t rpc_descriptor_index_count(const struct rpc_descriptor_index *index)
{
    return index->n_files;
}

struct rpc_descriptor_file rpc_descriptor_index_file(const struct rpc_descriptor_index *index,
                                                     size_t file)
{
    assert(file < index->n_files);
    struct span raw = index->files[file].raw;
    return (struct rpc_descriptor_file){raw.bytes, raw.n_bytes};
}

size_t rpc_descriptor_index_by_name(const struct rpc_descriptor_index *index, const char *name)
{
    return find_file(index, (struct span){(const uint8_t *)name, strlen(name)});
}

size_t rpc_descriptor_index_by_symbol(const struct rpc_descriptor_index *index, const char *symbol)
{
    struct symbol wanted = {.name = (char *)symbol};
    const struct symbol *found = NULL;
    if (index->n_symbols > 0)
        found = bsearch(&wanted, index->symbols, index->n_symbols, sizeof wanted, compare_symbols);
    return found ? found->file : DESCRIPTOR_NONE;
}

static bool contains(const size_t *files, size_t n_files, size_t file)
{
    for (size_t i = 0; i < n_files; i++)
        if (files[i] == file)
            return true;
    return false;
}

size_t rpc_descriptor_index_closure(const struct rpc_descriptor_index *index, size_t file,
                                    size_t *files_out)
{
    size_t n = 0;
    assert(file < index->n_files);
    files_out[n++] = file;
    for (size_t i = 0; i < n; i++) {
        struct span body = index->files[files_out[i]].raw, value;
        uint32_t number;
        while (next_field(&body, &number, &value) && number != 0) {
            if (number != 3)
                continue;
            size_t import = find_file(index, value);
            assert(import != DESCRIPTOR_NONE);
            if (!contains(files_out, n, import))
                files_out[n++] = import;
        }
    }
    return n;
}
