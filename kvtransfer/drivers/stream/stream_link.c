#include "kvtransfer/drivers/stream/stream_link.h"

#include <assert.h>
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

static ssize_t outcome(ssize_t n)
{
    if (n > 0)
        return n;
    bool is_later = n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
    return is_later ? LINK_LATER : LINK_LOST;
}

ssize_t stream_link_read(struct stream_link *link, void *to, size_t bytes)
{
    assert(link->fd >= 0 &&
           bytes > 0); /* a read of 0 bytes would look like the end of the stream */
    if (link->tls)
        return tls_session_read(link->tls, to, bytes);
    return outcome(recv(link->fd, to, bytes, MSG_DONTWAIT));
}

static ssize_t write_records(struct stream_link *link, const struct iovec *parts, int n_parts)
{
    ssize_t done = 0;
    for (int i = 0; i < n_parts; i++) {
        for (size_t at = 0; at < parts[i].iov_len;) {
            ssize_t n = tls_session_write(link->tls, (const uint8_t *)parts[i].iov_base + at,
                                          parts[i].iov_len - at);
            if (n == TLS_LOST)
                return LINK_LOST;
            if (n == TLS_LATER)
                return done > 0 ? done : LINK_LATER;
            assert(n > 0 && (size_t)n <= parts[i].iov_len - at);
            at += (size_t)n;
            done += n;
        }
    }
    return done;
}

ssize_t stream_link_write(struct stream_link *link, const struct iovec *parts, int n_parts)
{
    assert(link->fd >= 0 && n_parts > 0);
    if (link->tls)
        return write_records(link, parts, n_parts);
    union {
        const struct iovec *in;
        struct iovec *out;
    } cast = {.in = parts}; /* sendmsg only reads them */
    const struct msghdr message = {.msg_iov = cast.out, .msg_iovlen = (size_t)n_parts};
    return outcome(sendmsg(link->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT));
}

int stream_link_flush(struct stream_link *link)
{
    return link->tls ? tls_session_flush(link->tls) : 1;
}

void stream_link_close(struct stream_link *link)
{
    tls_session_destroy(link->tls);
    if (link->fd >= 0)
        close(link->fd);
    *link = (struct stream_link){.fd = -1};
}
