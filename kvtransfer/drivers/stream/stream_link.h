/*
 * stream_link - a connected socket, with or without TLS. Nothing here waits; SIGPIPE is never raised.
 *
 * Thread: the transport's.
 */
#pragma once

#include "kvtransfer/drivers/stream/stream_tls.h"

#include <sys/uio.h>

struct stream_link {
    int fd;                  /* -1: closed */
    struct tls_session *tls; /* NULL: none */
};

/* Both return the bytes moved, LINK_LATER, or LINK_LOST, also at the end of the stream. */
enum { LINK_LATER = TLS_LATER, LINK_LOST = TLS_LOST };

ssize_t stream_link_read(struct stream_link *link, void *to, size_t bytes);
/* After LINK_LATER the same bytes must come first in the next call. */
ssize_t stream_link_write(struct stream_link *link, const struct iovec *parts, int n_parts);
/* 1: all that was written is on its way. */
int stream_link_flush(struct stream_link *link);
void stream_link_close(struct stream_link *link);
