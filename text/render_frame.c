#include "text/render_frame.h"

#include "base/clock.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

static void put(uint8_t *out, uint64_t value, unsigned n_bytes)
{
    for (unsigned i = 0; i < n_bytes; i++)
        out[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t take(const uint8_t *bytes, unsigned n_bytes)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < n_bytes; i++)
        value |= (uint64_t)bytes[i] << (8 * i);
    return value;
}

void render_frame_encode(const struct render_frame *frame, uint8_t out[RENDER_FRAME_BYTES])
{
    assert(frame->body_bytes <= RENDER_BODY_LIMIT);
    put(out, frame->kind, 4);
    put(out + 4, frame->body_bytes, 4);
    put(out + 8, frame->a, 8);
    put(out + 16, frame->b, 8);
}

static bool is_sound(const struct render_frame *frame)
{
    switch (frame->kind) {
    case RENDER_TOKENS:
        return true;
    case RENDER_TEMPLATE:
        return frame->a <= RENDER_NAME_MAX && frame->a <= frame->body_bytes && frame->b == 0;
    case RENDER_RENDER:
        return frame->b <= 0x10ffff && frame->a <= INT64_MAX;
    case RENDER_ANSWER:
        return frame->a < RENDER_ANSWER_MAX && frame->b <= 1;
    }
    return false;
}

bool render_frame_decode(const uint8_t bytes[RENDER_FRAME_BYTES], uint32_t body_bytes_max,
                         struct render_frame *frame_out)
{
    *frame_out = (struct render_frame){.kind = (enum render_kind)take(bytes, 4),
                                       .body_bytes = (uint32_t)take(bytes + 4, 4),
                                       .a = take(bytes + 8, 8),
                                       .b = take(bytes + 16, 8)};
    return frame_out->body_bytes <= body_bytes_max && frame_out->body_bytes <= RENDER_BODY_LIMIT &&
           is_sound(frame_out);
}

/* Until it is ready for the event. */
static enum status wait_for(int fd, short event, uint64_t deadline_ns)
{
    struct pollfd wanted = {.fd = fd, .events = event};
    for (;;) {
        uint64_t now_ns = clock_now_ns();
        if (now_ns >= deadline_ns)
            return STATUS_TIMED_OUT;
        int n = poll(&wanted, 1, clock_poll_ms(now_ns, deadline_ns));
        if (n > 0)
            return STATUS_OK;
        if (n < 0 && errno != EINTR)
            return STATUS_PEER_LOST;
    }
}

enum status render_frame_send(int fd, const struct render_frame *frame, const char *body,
                              uint64_t deadline_ns)
{
    uint8_t head[RENDER_FRAME_BYTES];
    struct iovec parts[] = {{head, sizeof head}, {(char *)(uintptr_t)body, frame->body_bytes}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};

    render_frame_encode(frame, head);
    while (parts[0].iov_len + parts[1].iov_len > 0) {
        ssize_t n = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return STATUS_PEER_LOST;
        if (n < 0) {
            TRY(wait_for(fd, POLLOUT, deadline_ns));
            continue;
        }
        for (unsigned i = 0; i < 2; i++) {
            size_t sent = (size_t)n < parts[i].iov_len ? (size_t)n : parts[i].iov_len;
            parts[i].iov_base = (char *)parts[i].iov_base + sent;
            parts[i].iov_len -= sent;
            n -= (ssize_t)sent;
        }
    }
    return STATUS_OK;
}

static enum status receive(int fd, void *bytes, size_t n_bytes, uint64_t deadline_ns)
{
    size_t n_done = 0;
    while (n_done < n_bytes) {
        ssize_t n = recv(fd, (char *)bytes + n_done, n_bytes - n_done, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return STATUS_PEER_LOST;
        if (n < 0)
            TRY(wait_for(fd, POLLIN, deadline_ns));
        else
            n_done += (size_t)n;
    }
    return STATUS_OK;
}

enum status render_frame_receive(int fd, uint32_t body_bytes_max, uint64_t deadline_ns,
                                 struct render_frame *frame_out, char **body_out)
{
    uint8_t head[RENDER_FRAME_BYTES];
    struct render_frame frame;

    TRY(receive(fd, head, sizeof head, deadline_ns));
    if (!render_frame_decode(head, body_bytes_max, &frame))
        return STATUS_CORRUPT;
    char *body = malloc((size_t)frame.body_bytes + 1);
    if (!body)
        return STATUS_NO_MEMORY;
    enum status status = receive(fd, body, frame.body_bytes, deadline_ns);
    if (status != STATUS_OK) {
        free(body);
        return status;
    }
    body[frame.body_bytes] = '\0';
    *frame_out = frame;
    *body_out = body;
    return STATUS_OK;
}
