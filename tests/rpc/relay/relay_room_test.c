/* relay: a large request waits, its stream alone, until there is room for it, and goes on by itself. The test is the
 * core. */
#include "rpc/relay/request_window.h"
#include "tests/rpc/support/relay_bed.h"

#include <criterion/criterion.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

TestSuite(relay_room, .timeout = 120);

#define MESSAGE_BYTES (8u << 20)
#define MORE_BYTES    (1u << 20)

struct end {
    int fd, core;
};

/* HEADERS, and DATA that begins a message of 8 MiB. */
static void begin_large(const struct end *end, uint32_t stream)
{
    uint8_t bytes[256], heard[256];
    size_t n = relay_bed_put_frame(bytes, 20, FRAME_HEADERS, FRAME_FLAG_END_HEADERS, stream);
    size_t at = n + FRAME_HEAD_BYTES;
    n += relay_bed_put_frame(bytes + n, 100, FRAME_DATA, 0, stream);
    memcpy(bytes + at, "\0\0\x80\0\0", 5);
    relay_bed_say(end->fd, bytes, n);
    relay_bed_hear_all(end->core, heard, n);
    cr_assert_arr_eq(heard, bytes, n);
}

static void allow(const struct end *end, uint32_t stream, size_t n_at_once)
{
    uint8_t update[FRAME_UPDATE_BYTES];
    frame_put_update(update, stream, MORE_BYTES);
    for (size_t at = 0; at < sizeof update; at += n_at_once) {
        size_t n = sizeof update - at < n_at_once ? sizeof update - at : n_at_once;
        relay_bed_say(end->core, update + at, n);
    }
}

static void expect_allowed(const struct end *end, uint32_t stream, uint32_t n_bytes)
{
    uint8_t expected[FRAME_UPDATE_BYTES], heard[FRAME_UPDATE_BYTES];
    frame_put_update(expected, stream, n_bytes);
    relay_bed_hear_all(end->fd, heard, sizeof heard);
    cr_assert_arr_eq(heard, expected, sizeof heard);
}

/* A PING of the core's goes past what waits. */
static void expect_nothing_but(const struct end *end, enum frame_type type)
{
    uint8_t frame[32], heard[32];
    size_t n = relay_bed_put_frame(frame, 8, type, 0, 0);
    relay_bed_say(end->core, frame, n);
    relay_bed_hear_all(end->fd, heard, n);
    cr_assert_arr_eq(heard, frame, n);
}

static struct end greet(uint8_t last)
{
    struct end end;
    end.fd = relay_bed_greet(last, &end.core);
    return end;
}

static void start(void)
{
    relay_bed_prepare("127.0.0.1:0");
    relay_bed.options.limits.connection_request_bytes_max = MESSAGE_BYTES + 64;
    relay_bed_start();
}

Test(relay_room, the_second_large_request_of_a_connection_waits_for_the_first)
{
    start();
    struct end end = greet(1);
    begin_large(&end, 1);
    begin_large(&end, 3);
    allow(&end, 1, FRAME_UPDATE_BYTES);
    expect_allowed(&end, 1, MORE_BYTES);
    allow(&end, 3, 1); /* byte by byte */
    allow(&end, 3, 5);
    relay_bed_wait_struck(RELAY_LIMIT_CONNECTION_REQUEST_BYTES, 2);
    expect_nothing_but(&end, FRAME_PING);
    allow(&end, 1, FRAME_UPDATE_BYTES);
    expect_allowed(&end, 1, MORE_BYTES);

    uint8_t reset[FRAME_RESET_BYTES], heard[FRAME_RESET_BYTES];
    frame_put_reset(reset, 1, FRAME_CANCEL);
    relay_bed_say(end.fd, reset, sizeof reset);
    relay_bed_hear_all(end.core, heard, sizeof heard);
    expect_allowed(&end, 3, 2 * MORE_BYTES);
    close(end.fd);
    relay_bed_stop();
}

/* A message of a little more than a first window: what is missing of it is in the first window's second filling. */
Test(relay_room, what_needs_no_room_any_more_is_not_kept_waiting)
{
    enum { FIRST = 16384, REST = REQUEST_WINDOW_BYTES - FIRST };
    static const uint8_t prefix[] = {0, 0, 1, 0x11, 0x70}; /* 70,000 bytes */
    static uint8_t bytes[REQUEST_WINDOW_BYTES + 64], heard[sizeof bytes];
    uint8_t update[FRAME_UPDATE_BYTES];
    start();
    struct end end = greet(1);
    begin_large(&end, 1);
    allow(&end, 1, FRAME_UPDATE_BYTES);
    expect_allowed(&end, 1, MORE_BYTES);

    size_t n = relay_bed_put_frame(bytes, 20, FRAME_HEADERS, FRAME_FLAG_END_HEADERS, 3);
    memcpy(bytes + n + relay_bed_put_frame(bytes + n, FIRST, FRAME_DATA, 0, 3) - FIRST, prefix,
           sizeof prefix);
    n += FRAME_HEAD_BYTES + FIRST;
    relay_bed_say(end.fd, bytes, n);
    relay_bed_hear_all(end.core, heard, n);
    frame_put_update(update, 3, 70005 - FIRST);
    relay_bed_say(end.core, update, sizeof update);
    relay_bed_wait_struck(RELAY_LIMIT_CONNECTION_REQUEST_BYTES, 1);
    expect_nothing_but(&end, FRAME_PING);
    n = relay_bed_put_frame(bytes, REST, FRAME_DATA, 0, 3);
    relay_bed_say(end.fd, bytes, n);
    relay_bed_hear_all(end.core, heard, n);
    expect_allowed(&end, 3, 70005 - FIRST);
    close(end.fd);
    relay_bed_stop();
}

/* It is no half-open call, and holds what others wait for all the same. */
Test(relay_room, a_large_message_on_an_answered_stream_has_its_time_too)
{
    uint8_t bytes[256], heard[256], reset[FRAME_RESET_BYTES];
    relay_bed_prepare("127.0.0.1:0");
    relay_bed.options.limits.half_open_ns = 200 * NS_PER_MS;
    relay_bed_start();
    struct end end = greet(1);
    begin_large(&end, 1);
    size_t n = relay_bed_put_frame(bytes, 20, FRAME_HEADERS, FRAME_FLAG_END_HEADERS, 1);
    relay_bed_say(end.core, bytes, n);
    relay_bed_hear_all(end.fd, heard, n);
    allow(&end, 1, FRAME_UPDATE_BYTES);
    expect_allowed(&end, 1, MORE_BYTES);
    frame_put_reset(reset, 1, FRAME_CANCEL);
    relay_bed_hear_all(end.fd, heard, sizeof reset);
    cr_assert_arr_eq(heard, reset, sizeof reset);
    relay_bed_hear_all(end.core, heard, sizeof reset);
    cr_assert_arr_eq(heard, reset, sizeof reset);
    cr_expect_eq(relay_bed_n_struck(RELAY_LIMIT_HALF_OPEN_TIME), 1);
    expect_nothing_but(&end, FRAME_PING);
    close(end.fd);
    relay_bed_stop();
}

Test(relay_room, what_is_granted_waits_for_the_end_of_the_cores_frame)
{
    uint8_t frame[512], heard[512];
    start();
    struct end end = greet(1);
    begin_large(&end, 1);
    begin_large(&end, 3);
    begin_large(&end, 5);
    allow(&end, 1, FRAME_UPDATE_BYTES);
    expect_allowed(&end, 1, MORE_BYTES);
    allow(&end, 3, FRAME_UPDATE_BYTES);
    size_t n = relay_bed_put_frame(frame, 200, FRAME_DATA, 0, 5);
    relay_bed_say(end.core, frame, 100);
    relay_bed_hear_all(end.fd, heard, 100);

    uint8_t reset[FRAME_RESET_BYTES];
    frame_put_reset(reset, 1, FRAME_CANCEL);
    relay_bed_say(end.fd, reset, sizeof reset);
    relay_bed_hear_all(end.core, heard + 100, sizeof reset);
    relay_bed_say(end.core, frame + 100, n - 100);
    relay_bed_hear_all(end.fd, heard + 100, n - 100);
    cr_assert_arr_eq(heard, frame, n);
    expect_allowed(&end, 3, MORE_BYTES);
    close(end.fd);
    relay_bed_stop();
}

Test(relay_room, a_connection_that_leaves_makes_room_for_others)
{
    relay_bed_prepare("127.0.0.1:0");
    relay_bed.options.limits.request_bytes_max = MESSAGE_BYTES + 64;
    relay_bed_start();
    struct end first = greet(1), second = greet(2);
    begin_large(&first, 1);
    begin_large(&second, 1);
    allow(&first, 1, FRAME_UPDATE_BYTES);
    expect_allowed(&first, 1, MORE_BYTES);
    allow(&second, 1, FRAME_UPDATE_BYTES);
    relay_bed_wait_struck(RELAY_LIMIT_REQUEST_BYTES, 1);
    close(first.fd);
    expect_allowed(&second, 1, MORE_BYTES);
    close(second.fd);
    relay_bed_stop();
}

Test(relay_room, who_sends_what_he_was_not_allowed_is_closed)
{
    static uint8_t bytes[REQUEST_WINDOW_BYTES + FRAME_HEAD_BYTES];
    start();
    struct end end = greet(1);
    begin_large(&end, 1);
    begin_large(&end, 3);
    allow(&end, 1, FRAME_UPDATE_BYTES);
    expect_allowed(&end, 1, MORE_BYTES);
    allow(&end, 3, FRAME_UPDATE_BYTES);
    relay_bed_wait_struck(RELAY_LIMIT_CONNECTION_REQUEST_BYTES, 1);
    size_t n = relay_bed_put_frame(bytes, REQUEST_WINDOW_BYTES, FRAME_DATA, 0, 3);
    (void)!send(end.fd, bytes, n, MSG_NOSIGNAL);
    relay_bed_hear_end(end.fd);
    cr_expect_eq(relay_bed_n_struck(RELAY_LIMIT_PROTOCOL), 1);
    close(end.fd);
    relay_bed_stop();
}

/* Of a connection that others share: HTTP/2 lets it end its stream alone, and the core does not. */
Test(relay_room, an_update_of_nothing_ends_its_stream_alone)
{
    uint8_t update[FRAME_UPDATE_BYTES], expected[FRAME_UPDATE_BYTES], heard[FRAME_UPDATE_BYTES];
    uint8_t reset[FRAME_RESET_BYTES], told[FRAME_RESET_BYTES];
    start();
    struct end end = greet(1);
    relay_bed_open_stream(end.fd, end.core, 1);
    relay_bed_open_stream(end.fd, end.core, 3);
    frame_put_update(update, 3, 0x80000000u); /* a bit that means nothing */
    frame_put_update(expected, 3, 0x80000001u);
    frame_put_reset(reset, 3, FRAME_PROTOCOL_ERROR);
    for (size_t i = 0; i < sizeof update; i++)
        relay_bed_say(end.fd, update + i, 1);
    relay_bed_hear_all(end.core, heard, sizeof heard);
    cr_assert_arr_eq(heard, expected, sizeof heard, "the core minds no update of a byte");
    relay_bed_hear_all(end.core, told, sizeof told);
    cr_assert_arr_eq(told, reset, sizeof told);
    relay_bed_hear_all(end.fd, told, sizeof told);
    cr_assert_arr_eq(told, reset, sizeof told);
    expect_nothing_but(&end, FRAME_PING);
    close(end.fd);
    relay_bed_stop();
}
