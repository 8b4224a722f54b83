/*
 * shm_folder - a folder in /dev/shm for the names of this process's shared memory and sockets.
 *
 *     /dev/shm/kvferry-XXXXXX/    locked (flock) for as long as its process lives
 *
 * UCX gives each segment a name while it makes it. A process that is killed meanwhile leaves the segment
 * behind. Opening a folder first removes the folders of this user whose lock is free. A lock ends with its
 * process, for whatever reason that ends.
 *
 * Thread: open and close by one; any number of processes.
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

struct shm_folder {
    char path[32]; /* "": not open */
    int fd;        /* holds the lock */
};

/* UNSUPPORTED: there can be none here; error says why. */
MUST_CHECK enum status shm_folder_open(struct shm_folder *folder, struct error *error);
/* A path right in such a folder, of whatever process. */
bool shm_folder_has(const char *path, size_t bytes);
/* Removes it. One that was not opened is fine. */
void shm_folder_close(struct shm_folder *folder);
