/*
 * regular_file - opens and reads what a person or a model's folder names: a regular file or nothing.
 *
 * A FIFO, a device, a socket or a folder is refused by name, and none of them holds the caller.
 *
 * The functions _in take a file of a folder that comes from elsewhere. Its name is one plain
 * component: no slash, no "." or "..". A symbolic link is followed only if it ends below the folder
 * (as those of a mounted ConfigMap do), or in the blobs folder of a Hugging Face cache that the folder
 * is a snapshot of (CACHE/snapshots/REVISION and CACHE/blobs): a model folder from elsewhere cannot
 * make a process read other files.
 *
 * All fail with NOT_FOUND, IO_FAILED; CORRUPT: no regular file, more than bytes_max, a name or link
 * that leads elsewhere; NO_MEMORY.
 *
 * Thread: any; no state.
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stat;

/* The caller closes the descriptor. */
MUST_CHECK enum status regular_file_open_in(const char *folder, const char *name,
                                            uint64_t bytes_max, int *descriptor_out,
                                            size_t *bytes_out, struct error *error);

/* The whole file and a NUL behind it; the caller frees. A file that grows meanwhile is cut. */
MUST_CHECK enum status regular_file_read(const char *path, uint64_t bytes_max, char **text_out,
                                         size_t *bytes_out, struct error *error);
MUST_CHECK enum status regular_file_read_in(const char *folder, const char *name,
                                            uint64_t bytes_max, char **text_out, size_t *bytes_out,
                                            struct error *error);

/* Two looks at a path, as stat tells them (zeros: it could not): nothing has been written, moved or swapped between
 * them, as far as the file system's clock can tell. */
bool regular_file_is_same(const struct stat *before, const struct stat *now);
