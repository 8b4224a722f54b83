/* server: a grpc-timeout that nanoseconds cannot count is a deadline far away, not one that has passed.
 *
 * gRPC's own clients cap what they send, so the call is written to the socket as HTTP/2 has it. */
#include "support/probe.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FRAME_DATA = 0, FRAME_HEADERS = 1, FRAME_SETTINGS = 4, END_STREAM = 1, END_HEADERS = 4 };

struct frame {
    uint8_t bytes[512];
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

/* Holds the call open by its socket. */
static int call_with_timeout(const struct probe *probe, const char *timeout)
{
    struct frame all = {0}, headers = {0}, none = {0};
    struct frame empty_message = {.n = 5}; /* not compressed, 0 bytes */
    put_header(&headers, ":method", "POST");
    put_header(&headers, ":scheme", "http");
    put_header(&headers, ":path", "/kvferry.probe.Probe/Hold");
    put_header(&headers, ":authority", "probe");
    put_header(&headers, "content-type", "application/grpc");
    put_header(&headers, "te", "trailers");
    put_header(&headers, "grpc-timeout", timeout);
    put(&all, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
    put_frame(&all, FRAME_SETTINGS, 0, 0, &none);
    put_frame(&all, FRAME_HEADERS, END_HEADERS, 1, &headers);
    put_frame(&all, FRAME_DATA, END_STREAM, 1, &empty_message);

    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(rpc_server_port(probe->server))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    cr_assert_eq(write(fd, all.bytes, all.n), (ssize_t)all.n);
    return fd;
}

Test(far_deadline, is_not_taken_for_one_that_has_passed)
{
    /* The second makes 2^64 ns; the last is the most that the header can say. */
    static const char *const TIMEOUTS[] = {"27000H", "5124095H", "5124096H", "99999999H"};
    const uint64_t year_ns = 365 * 86400 * NS_PER_S;
    struct probe probe;
    probe_start(&probe, NULL);
    for (uint32_t i = 0; i < sizeof TIMEOUTS / sizeof *TIMEOUTS; i++) {
        int fd = call_with_timeout(&probe, TIMEOUTS[i]);
        probe_wait_held(&probe, i + 1);
        uint64_t deadline_ns = probe_last_call(&probe).deadline_ns;
        cr_assert_gt(deadline_ns, clock_now_ns() + year_ns, "%s", TIMEOUTS[i]);
        cr_assert_neq(deadline_ns, DEADLINE_NONE, "%s", TIMEOUTS[i]);
        cr_assert_not(rpc_call_is_over(probe.held[i]), "%s", TIMEOUTS[i]);
        close(fd);
        probe_wait_ends(&probe, i + 1);
    }
    probe_release_held(&probe);
    probe_stop(&probe);
}
