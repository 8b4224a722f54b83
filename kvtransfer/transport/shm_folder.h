/*
 * shm_folder - a place in /dev/shm where this process's shared memory and sockets have names.
 *
 *     /dev/shm/kvferry-XXXXXX/    locked (flock) for as long as its process lives
 *
 * UCX names each segment for as long as it makes it, a large one for a while: a process that is killed
 * then leaves it behind. Whoever opens a folder first removes those of this user whose lock is free.
 * A lock ends with its process, whatever ended that.
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
