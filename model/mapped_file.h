/*
 * mapped_file - a file of a model folder, mapped read-only.
 *
 * A name is one plain component: no slash, no "." or "..". A symbolic link is followed only if it
 * ends in the folder itself, or in the blobs folder of a Hugging Face cache that the folder is a
 * snapshot of (CACHE/snapshots/REVISION and CACHE/blobs): a model folder from elsewhere cannot make
 * a worker read other files.
 *
 * Whoever truncates a mapped file kills the process (SIGBUS): replace files, never rewrite them.
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

/* NOT_FOUND, IO_FAILED; CORRUPT: a name or link that leads elsewhere, no regular file, or more than
 * bytes_max. */
MUST_CHECK enum status mapped_file_open(const char *folder, const char *name, uint64_t bytes_max,
                                        struct mapped_file *file_out, struct error *error);
void mapped_file_close(struct mapped_file *file); /* a zeroed one is fine */
