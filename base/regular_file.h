/*
 * regular_file - opens and reads a file that a user or a model's folder names, only if it is a regular
 * file.
 *
 * A FIFO, a device, a socket or a folder is refused, with its kind in the sentence, and does not block
 * the caller.
 *
 * The functions _in open a file in an untrusted folder. The name is one plain component: no slash, no
 * "." or "..". A symbolic link is followed only if its target is below the folder (as in a mounted
 * ConfigMap), or in the blobs folder of the Hugging Face cache of which the folder is a snapshot
 * (CACHE/snapshots/REVISION and CACHE/blobs). So an untrusted model folder cannot make a process read
 * other files.
 *
 * All fail with NOT_FOUND, IO_FAILED, NO_MEMORY, or CORRUPT: no regular file, more than bytes_max, a
 * name or link that leads out of the folder.
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

/* Opens what a file holds under a name, as a file in memory: fails as regular_file_open_in. */
typedef enum status (*regular_file_opener)(const char *path, const char *name, uint64_t bytes_max,
                                           int *descriptor_out, size_t *bytes_out,
                                           struct error *error);

/* From now on the functions _in take a file for a folder if holds says so of its path, and opener opens what it holds.
 * Called once, before other threads run. */
void regular_file_set_container(bool (*holds)(const char *path), regular_file_opener opener);

/* Reads the whole file and adds a NUL; the caller frees it. A file that grows meanwhile is cut. */
MUST_CHECK enum status regular_file_read(const char *path, uint64_t bytes_max, char **text_out,
                                         size_t *bytes_out, struct error *error);
MUST_CHECK enum status regular_file_read_in(const char *folder, const char *name,
                                            uint64_t bytes_max, char **text_out, size_t *bytes_out,
                                            struct error *error);

/* A new file at path takes the place of nothing, or of a regular file: no device, no FIFO, no folder. Else IO_FAILED. */
MUST_CHECK enum status regular_file_check_place(const char *path, struct error *error);

/* Compares two results of stat for a path (zeros: stat failed). True: between them the file was not written, moved
 * or replaced, as far as the clock of the file system shows. */
bool regular_file_is_same(const struct stat *before, const struct stat *now);
