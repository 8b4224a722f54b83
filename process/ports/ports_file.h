/*
 * ports_file - the file in which a process tells its parent the addresses that it has bound.
 *
 *     {"role": "router", "name": "...", "pid": 4711, "incarnation": "00f3...", "ready": true,
 *      "grpc": "127.0.0.1:50051", "http": "", "engine": "", "control": "...", "health": "...",
 *      "metrics": "...", "unseen": ""}
 *
 * It is written under another name in the same folder and renamed, so that a reader never sees half
 * of it. Only a regular file is replaced or removed: never a link, a device or a folder.
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
    char grpc[ADDRESS_TEXT_MAX];   /* "": no such port */
    char http[ADDRESS_TEXT_MAX];   /* the same; of a router */
    char engine[ADDRESS_TEXT_MAX]; /* the same */
    char control[ADDRESS_TEXT_MAX];
    char health[ADDRESS_TEXT_MAX];
    char metrics[ADDRESS_TEXT_MAX];
    char unseen
        [PORTS_UNSEEN_MAX]; /* of a router: the workers that it has never seen ready, with reasons */
};

/* INVALID_ARGUMENT: the path exists and is not a regular file. IO_FAILED: the folder cannot be
 * written. Both with the path. */
MUST_CHECK enum status ports_file_check(const char *path, struct error *error);
/* As ports_file_check; IO_FAILED, NO_MEMORY with the path. Invalid UTF-8 and control characters become '?'. */
MUST_CHECK enum status ports_file_write(const char *path, const struct ports *ports,
                                        struct error *error);
/* NOT_FOUND: not written yet. CORRUPT: not a file of ports_file_write. IO_FAILED, NO_MEMORY. */
MUST_CHECK enum status ports_file_read(const char *path, struct ports *ports_out);
/* Does nothing if it does not exist, or is not a regular file. */
void ports_file_remove(const char *path);
