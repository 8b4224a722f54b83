/*
 * socket_owner - which user the other end of a connection belongs to, when it is on this host.
 *
 * Of TCP: asks the kernel (sock_diag), and where it has no such answers reads /proc/net/tcp. Needs no rights.
 * Thread: any.
 */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>

/* True: a process has that end open, and is that user's. An end that nobody holds any more is nobody's. */
bool socket_owner_is(const struct sockaddr_storage *theirs, const struct sockaddr_storage *ours,
                     uid_t user);
/* Of a Unix socket: the other end is a process of this user. */
bool socket_owner_is_us(int fd);
