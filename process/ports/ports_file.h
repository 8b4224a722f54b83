/*
 * ports_file - where a process tells its parent which addresses it has bound.
 *
 *     {"role": "router", "name": "...", "pid": 4711, "incarnation": "00f3...", "ready": true,
 *      "grpc": "127.0.0.1:50051", "control": "...", "health": "...", "metrics": "...", "unseen": ""}
 *
 * Written under another name beside it and renamed, so that a reader never sees half of it. What is
 * replaced or removed is a regular file: never a link, a device or a folder.
 *
 * Thread: any; no state.
 */
#pragma once

#include "process/ports/address.h"

#include <stdbool.h>
#include <stdint.h>

#define PORTS_UNSEEN_MAX 512 /* bytes, NUL included */

struct ports {
    char role[32];
    char name[128];
    uint32_t pid;
    uint64_t incarnation;
    bool is_ready;
    char grpc[ADDRESS_TEXT_MAX]; /* "" where nothing listens */
    char control[ADDRESS_TEXT_MAX];
    char health[ADDRESS_TEXT_MAX];
    char metrics[ADDRESS_TEXT_MAX];
    char unseen
        [PORTS_UNSEEN_MAX]; /* of a router: the workers that it has never seen ready, with why */
};

/* INVALID_ARGUMENT with the path: something else than a regular file has this name. IO_FAILED: nothing
 * can be written where it is to be. */
MUST_CHECK enum status ports_file_check(const char *path, struct error *error);
/* As ports_file_check; IO_FAILED, NO_MEMORY with the path. What is no UTF-8 in a text, and control
 * characters, become '?'. */
MUST_CHECK enum status ports_file_write(const char *path, const struct ports *ports,
                                        struct error *error);
/* NOT_FOUND: not there yet. CORRUPT: not what ports_file_write makes. IO_FAILED, NO_MEMORY. */
MUST_CHECK enum status ports_file_read(const char *path, struct ports *ports_out);
/* Nothing where it is gone, or no regular file. */
void ports_file_remove(const char *path);
