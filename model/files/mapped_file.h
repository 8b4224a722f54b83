/*
 * mapped_file - a file of a model folder, mapped read-only, or copied into memory.
 *
 * base/regular_file.h says which files and links are accepted.
 *
 * Truncating a mapped file kills the process (SIGBUS). Users must replace files, never rewrite them. What is read while requests run is
 * copied into memory instead (mapped_file_read).
 *
 * Thread: any; immutable until close.
 */
#pragma once

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct mapped_file {
    const uint8_t *data; /* [bytes]; NULL when empty */
    size_t bytes;
};

/* As regular_file_open_in. */
MUST_CHECK enum status mapped_file_open(const char *folder, const char *name, uint64_t bytes_max,
                                        struct mapped_file *file_out, struct error *error);
/* The file's first bytes in memory of this process: what happens to the file later changes nothing here. descriptor stays the
 * caller's. name: of the file, for sentences. IO_FAILED: it cannot be read, or was changed meanwhile; NO_MEMORY. */
MUST_CHECK enum status mapped_file_read(int descriptor, size_t bytes, const char *name,
                                        struct mapped_file *file_out, struct error *error);
/* Releases the whole pages of a part that is not needed any more. A later access reads them again; of a file that was copied it
 * finds zeros. */
void mapped_file_give_back(const void *data, size_t bytes);
void mapped_file_close(struct mapped_file *file); /* a zeroed one is fine */
