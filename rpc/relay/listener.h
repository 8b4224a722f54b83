/*
 * listener - the listening sockets of one port, and accept that survives a lack of descriptors.
 *
 * A name is every address it has. "[::]" takes IPv4 too. A Unix socket that nobody listens on is
 * replaced, and its file removed at the end. One descriptor is kept in reserve: when there is no other,
 * it is spent to take the next connection and refuse it, so that the queue does not stand.
 *
 * Thread: the relay's; open before it starts.
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#define LISTENER_SOCKETS_MAX 8

struct listener {
    int fds[LISTENER_SOCKETS_MAX];
    uint32_t n;
    uint16_t port; /* 0: of a Unix socket */
    int reserve;
    char path[sizeof((struct sockaddr_un *)0)->sun_path]; /* "": no Unix socket */
};

/* address: "127.0.0.1:0", "[::1]:50051", "name:80", "unix:/path".
 * IO_FAILED, INVALID_ARGUMENT: the sentence has the address and why. */
MUST_CHECK enum status listener_open(struct listener *listener, const char *address,
                                     struct error *error);
void listener_close(struct listener *listener); /* closed, or all zeros, is fine */

enum listener_answer {
    LISTENER_ACCEPTED,
    LISTENER_NONE,    /* nobody waits */
    LISTENER_REFUSED, /* no descriptor: the next one was refused */
    LISTENER_STUCK,   /* not even that could be done; look again later */
};

/* *fd_out is the caller's, non-blocking. */
enum listener_answer listener_accept(struct listener *listener, uint32_t index, int *fd_out,
                                     struct sockaddr_storage *peer_out);
/* Closes it so that the peer sees a reset. */
void listener_refuse(int fd);
