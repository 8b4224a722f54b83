/*
 * run_folder - the folder in which processes of one user on one host find each other's cluster key. Other
 * users cannot read it.
 *
 *     $XDG_RUNTIME_DIR/kvferry, else, for root, /run/kvferry, else /tmp/kvferry-UID, else (a container whose
 *     root is read-only) /dev/shm/kvferry.run-UID: the first that can be made or is this user's with mode 0700
 *
 *     user.key        for processes without another key; made at first use, and stays
 *     serve-PID.key   drawn by a `kvferry serve`; locked (flock) while it runs, and removed at
 *                     its end; the next process removes a file without a lock
 *     serve-PID.ports the ports of that `kvferry serve`, one on each line, then a point; removed with the key
 *
 * Thread: main.
 */
#pragma once

#include "base/status.h"
#include "rpc/auth/key_file.h"

#include <stdint.h>

#define RUN_PATH_MAX  256 /* bytes, NUL included */
#define RUN_KEYS_MAX  32u /* that run_folder_keys returns */
#define RUN_PORTS_MAX 128u

/* IO_FAILED: no folder can be made, or the existing one is not only this user's; the sentence names the one in /tmp. */
MUST_CHECK enum status run_folder_open(char path_out[RUN_PATH_MAX], struct error *error);

/* Returns the path of the user's key, and makes it if it does not exist. Fails as run_folder_open. */
MUST_CHECK enum status run_folder_user_key(char path_out[RUN_PATH_MAX], struct error *error);

/* A key in the folder, for other commands; zero it first. */
struct run_key {
    char path[RUN_PATH_MAX]; /* "": none */
    int descriptor;          /* its lock */
};

/* Fails as run_folder_open. */
MUST_CHECK enum status run_folder_leave(const struct key_set *keys, struct run_key *key_out,
                                        struct error *error);
void run_folder_take_away(struct run_key *key); /* fine if there is none */

/* Writes the ports that accept calls under that key; before that, any port might. Fine if there is no key. */
void run_folder_tell_ports(const struct run_key *key, const uint16_t *ports, uint32_t n);

/* Reads the keys of this user's processes, the most likely for the port first, because a process logs a warning for a
 * call under a wrong key. Port 0: any. At most n. Returns how many. The caller wipes them. */
uint32_t run_folder_keys(uint16_t port, struct key_set *keys_out, uint32_t n);
