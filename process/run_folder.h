/*
 * run_folder - where the processes of one user on one host find each other's cluster key: a folder that
 * nobody else can look into.
 *
 *     $XDG_RUNTIME_DIR/kvferry, else, for root, /run/kvferry, else /tmp/kvferry-UID, else (a container whose
 *     root is read-only) /dev/shm/kvferry.run-UID: the first that can be made or is this user's with mode 0700
 *
 *     user.key        of processes that were given no other; made at first use, and stays
 *     serve-PID.key   that a `kvferry serve` has drawn; locked (flock) while it runs, and taken away at
 *                     its end; one that nobody locks is swept by the next who looks
 *     serve-PID.ports the ports of that `kvferry serve`, a line each, then a point: goes with the key
 *
 * Thread: main.
 */
#pragma once

#include "base/status.h"
#include "rpc/auth/key_file.h"

#include <stdint.h>

#define RUN_PATH_MAX  256 /* bytes, NUL included */
#define RUN_KEYS_MAX  32u /* that run_folder_keys gives */
#define RUN_PORTS_MAX 128u

/* IO_FAILED: no folder can be made, or what is there is not this user's alone; the sentence names the one
 * in /tmp. */
MUST_CHECK enum status run_folder_open(char path_out[RUN_PATH_MAX], struct error *error);

/* The path of the user's key, which is there from then on. As run_folder_open. */
MUST_CHECK enum status run_folder_user_key(char path_out[RUN_PATH_MAX], struct error *error);

/* A key that is left for others; zero it first. */
struct run_key {
    char path[RUN_PATH_MAX]; /* "": none */
    int descriptor;          /* its lock */
};

/* As run_folder_open. */
MUST_CHECK enum status run_folder_leave(const struct key_set *keys, struct run_key *key_out,
                                        struct error *error);
void run_folder_take_away(struct run_key *key); /* one that was never left is fine */

/* At which ports inner calls under that key are taken; until it is told they may be any. No key that was left is fine. */
void run_folder_tell_ports(const struct run_key *key, const uint16_t *ports, uint32_t n);

/* The keys of this user's processes, those first that are likeliest at the port: a key that is none of a process's own makes it
 * warn of strangers. 0: of any port. At most n. Returns how many. The caller wipes them. */
uint32_t run_folder_keys(uint16_t port, struct key_set *keys_out, uint32_t n);
