/*
 * listener - the listening sockets of one port, with an accept that works without free descriptors.
 *
 * It listens on all addresses of a name. "[::]" also accepts IPv4. A Unix socket without a listener is
 * replaced, and its file is removed at close. One descriptor is kept in reserve: without another free
 * descriptor it is used to accept the next connection and refuse it, so that the queue does not stop.
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
 * IO_FAILED, INVALID_ARGUMENT: the sentence has address and reason. */
MUST_CHECK enum status listener_open(struct listener *listener, const char *address,
                                     struct error *error);
void listener_close(struct listener *listener); /* fine if closed already, or all zeros */

enum listener_answer {
    LISTENER_ACCEPTED,
    LISTENER_NONE,    /* no connection waits */
    LISTENER_REFUSED, /* no free descriptor: the next connection was refused */
    LISTENER_STUCK,   /* not even a refusal was possible; try again later */
};

/* The caller owns *fd_out, which is non-blocking. */
enum listener_answer listener_accept(struct listener *listener, uint32_t index, int *fd_out,
                                     struct sockaddr_storage *peer_out);
/* Closes fd with a reset. */
void listener_refuse(int fd);
