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
