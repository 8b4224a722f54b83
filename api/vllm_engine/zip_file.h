/*
 * zip_file - a zip file whose entries are stored, in memory: for readers that take zip and nothing simpler.
 *
 *     local header, name, bytes    of each entry
 *     central header, name         of each entry
 *     end record
 *
 * Bounds: ZIP_ENTRIES_MAX entries; less than 4 GiB (the format without its 64-bit records).
 *
 * Thread: one at a time.
 */
#pragma once

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

#define ZIP_ENTRIES_MAX 16u
#define ZIP_NAME_MAX    64u /* bytes, NUL included */

struct zip_entry {
    char name[ZIP_NAME_MAX];
    uint32_t crc, n_bytes, at; /* at: of the local header */
};

struct zip_file {
    uint8_t *bytes; /* [n_bytes] */
    size_t n_bytes, room;
    struct zip_entry entries[ZIP_ENTRIES_MAX];
    uint32_t n_entries;
};

/* zip is all zero at first. NO_MEMORY; INVALID_ARGUMENT: a name that is too long, an entry too many, 4 GiB. */
MUST_CHECK enum status zip_file_add(struct zip_file *zip, const char *name, const void *data,
                                    size_t n_bytes);
/* Nothing is added afterwards. As zip_file_add. */
MUST_CHECK enum status zip_file_end(struct zip_file *zip);
void zip_file_finish(struct zip_file *zip);
