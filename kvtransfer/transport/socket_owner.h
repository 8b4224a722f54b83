/*
 * socket_owner - tells which user the other end of a connection belongs to, when it is on this host.
 *
 * For TCP it asks the kernel (sock_diag); a kernel without that has /proc/net/tcp. It needs no privileges.
 * Thread: any.
 */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>

/* True: a process of that user has that end open. An end that no process holds any more belongs to nobody. */
bool socket_owner_is(const struct sockaddr_storage *theirs, const struct sockaddr_storage *ours,
                     uid_t user);
/* Of a Unix socket: the other end is a process of this user. */
bool socket_owner_is_us(int fd);
