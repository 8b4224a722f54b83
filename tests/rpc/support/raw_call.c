#include "raw_call.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FRAME_DATA = 0, FRAME_HEADERS = 1, FRAME_RST_STREAM = 3, FRAME_SETTINGS = 4 };
enum { END_STREAM = 1, END_HEADERS = 4, CANCEL = 8 };

struct frame {
    uint8_t bytes[4096];
    size_t n;
};

static void put(struct frame *frame, const void *bytes, size_t n)
{
    cr_assert_leq(frame->n + n, sizeof frame->bytes);
    if (n > 0)
        memcpy(frame->bytes + frame->n, bytes, n);
    frame->n += n;
}

static void put_frame(struct frame *out, uint8_t type, uint8_t flags, uint8_t stream,
                      const struct frame *payload)
{
    const uint8_t head[9] = {
        0, (uint8_t)(payload->n >> 8), (uint8_t)payload->n, type, flags, 0, 0, 0, stream};
    put(out, head, sizeof head);
    put(out, payload->bytes, payload->n);
}

/* HPACK: a literal with a new name, neither indexed nor Huffman coded. */
static void put_header(struct frame *out, const char *name, const char *value)
{
    const uint8_t lengths[2] = {(uint8_t)strlen(name), (uint8_t)strlen(value)};
    put(out, "\0", 1);
    put(out, &lengths[0], 1);
    put(out, name, lengths[0]);
    put(out, &lengths[1], 1);
    put(out, value, lengths[1]);
}

static void put_headers(struct frame *out, const struct raw_call *call)
{
    put_header(out, ":method", "POST");
    put_header(out, ":scheme", "http");
    put_header(out, ":path", call->path);
    put_header(out, ":authority", "localhost");
    put_header(out, "content-type", "application/grpc");
    put_header(out, "te", "trailers");
    if (call->timeout)
        put_header(out, "grpc-timeout", call->timeout);
}

/* What follows the headers. */
static void put_rest(struct frame *all, const struct raw_call *call)
{
    struct frame data = {0};
    const uint8_t prefix[5] = {0, 0, 0, (uint8_t)(call->message_bytes >> 8),
                               (uint8_t)call->message_bytes};
    put(&data, prefix, sizeof prefix);
    put(&data, call->message, call->is_cut ? call->message_bytes / 2 : call->message_bytes);
    if (!call->is_half && !call->lacks_message)
        put_frame(all, FRAME_DATA, call->is_cut ? 0 : END_STREAM, 1, &data);
}

int raw_call_start(uint16_t port, const struct raw_call *call)
{
    static const char PREFACE[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    struct frame all = {0}, settings = {0}, headers = {0};
    put(&settings, (const uint8_t[]){0, 4, 0, 0, 0, call->window}, 6); /* INITIAL_WINDOW_SIZE */
    put_headers(&headers, call);
    put(&all, PREFACE, sizeof PREFACE - 1);
    put_frame(&all, FRAME_SETTINGS, 0, 0, &settings);
    put_frame(&all, FRAME_HEADERS, END_HEADERS | (call->lacks_message ? END_STREAM : 0), 1,
              &headers);
    put_rest(&all, call);

    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    cr_assert_eq(write(fd, all.bytes, all.n), (ssize_t)all.n);
    return fd;
}

void raw_call_cancel(int fd)
{
    struct frame all = {0}, reset = {0};
    put(&reset, (const uint8_t[]){0, 0, 0, CANCEL}, 4);
    put_frame(&all, FRAME_RST_STREAM, 0, 1, &reset);
    cr_assert_eq(write(fd, all.bytes, all.n), (ssize_t)all.n);
}

static bool read_all(int fd, void *bytes, size_t n)
{
    for (size_t at = 0; at < n;) {
        ssize_t got = read(fd, (uint8_t *)bytes + at, n - at);
        if (got <= 0)
            return false;
        at += (size_t)got;
    }
    return true;
}

bool raw_call_await_trailers(int fd)
{
    uint8_t head[9], payload[16384];
    while (read_all(fd, head, sizeof head)) {
        size_t n = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
        cr_assert_leq(n, sizeof payload);
        if (!read_all(fd, payload, n))
            return false;
        if (head[3] == FRAME_HEADERS && head[4] & END_STREAM && head[8] == 1)
            return true;
    }
    return false;
}
