/*
 * server - `kvferry serve` of the demo model on free ports, and the processes it has.
 *
 * All functions assert (Criterion) on anything unexpected.
 */
#pragma once

#include "child.h"

/* more: further flags, a NULL last; or NULL. Returns when it is ready. */
void server_start(struct child *server, const char *const *more);

#define SERVER_MEMBERS_MAX 8

struct server_members {
    uint32_t n;
    pid_t pids[SERVER_MEMBERS_MAX];
};

/* The children of a process, and theirs, as the kernel knows them. */
void server_members(pid_t parent, struct server_members *members_out);
bool process_is_alive(pid_t pid);
void expect_all_gone(const struct server_members *members);
/* Whole, or as much as there is room for, with a NUL behind it. Returns its bytes; 0: it is empty, or not there. */
size_t read_whole(const char *path, char *text_out, size_t bytes_max);
/* Where the process of that role has its ports file; false: it is another one, or gone. */
bool member_ports_file(pid_t pid, const char *role, char path_out[256]);
