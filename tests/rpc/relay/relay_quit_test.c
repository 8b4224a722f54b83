/* relay: who quits says so as HTTP/2 has it: a GOAWAY that refuses nothing and a PING, and when its client has confirmed
 * that and has its answers, a GOAWAY with the last stream; what the core says of streams that it has not seen is hidden.
 * The test is the core. */
#include "tests/rpc/support/relay_bed.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

TestSuite(relay_quit, .timeout = 120);

struct end {
    int fd, core;
};

static void *quit(void *arg)
{
    atomic_bool *has_quit = arg;
    relay_quit(relay_bed.relay);
    atomic_store(has_quit, true);
    return NULL;
}

static void pass(int from, int to, uint32_t length, enum frame_type type, uint8_t flags,
                 uint32_t stream)
{
    uint8_t bytes[128], heard[128];
    size_t n = relay_bed_put_frame(bytes, length, type, flags, stream);
    relay_bed_say(from, bytes, n);
    relay_bed_hear_all(to, heard, n);
    cr_assert_arr_eq(heard, bytes, n);
}

static struct end greet(void)
{
    struct end end;
    end.fd = relay_bed_greet(1, &end.core);
    pass(end.core, end.fd, 0, FRAME_SETTINGS, 0, 0);
    return end;
}

static void expect_goaway(int fd, uint32_t last_stream, const char *text)
{
    uint8_t expected[FRAME_GOAWAY_MAX], heard[FRAME_GOAWAY_MAX];
    size_t n = frame_put_goaway(expected, last_stream, FRAME_NO_ERROR, text);
    relay_bed_hear_all(fd, heard, n);
    cr_assert_arr_eq(heard, expected, n);
}

static void expect_away(int fd)
{
    uint8_t ping[FRAME_PING_BYTES], heard[FRAME_PING_BYTES];
    expect_goaway(fd, FRAME_STREAM_MAX, "draining");
    frame_put_ping(ping);
    relay_bed_hear_all(fd, heard, sizeof heard);
    cr_assert_arr_eq(heard, ping, sizeof ping);
}

static void confirm(const struct end *end)
{
    pass(end->fd, end->core, 8, FRAME_PING, FRAME_FLAG_ACK, 0);
}

Test(relay_quit, each_call_has_its_answer_before_the_last_word)
{
    const uint8_t last = FRAME_FLAG_END_HEADERS | FRAME_FLAG_END_STREAM;
    atomic_bool has_quit = false;
    pthread_t thread;
    uint8_t hidden[64];
    relay_bed_prepare("127.0.0.1:0");
    relay_bed_start();
    struct end end = greet();
    pass(end.fd, end.core, 20, FRAME_HEADERS, last, 1);
    cr_assert_eq(pthread_create(&thread, NULL, quit, &has_quit), 0);
    expect_away(end.fd);
    pass(end.fd, end.core, 20, FRAME_HEADERS, last, 3); /* was on its way */
    confirm(&end);
    size_t n = relay_bed_put_frame(hidden, 20, FRAME_GOAWAY, 0, 0);
    relay_bed_say(end.core, hidden, 5);
    relay_bed_say(end.core, hidden + 5, 10);
    relay_bed_say(end.core, hidden + 15, n - 15);
    pass(end.core, end.fd, 20, FRAME_HEADERS, last, 1);
    cr_expect(!atomic_load(&has_quit));
    pass(end.core, end.fd, 20, FRAME_HEADERS, last, 3);
    expect_goaway(end.fd, 3, "drained");
    relay_bed_hear_end(end.fd);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    close(end.fd);
    relay_bed_stop();
}

Test(relay_quit, who_comes_meanwhile_hears_the_same)
{
    atomic_bool has_quit = false;
    pthread_t thread;
    relay_bed_prepare("127.0.0.1:0");
    relay_bed_start();
    struct end busy = greet();
    pass(busy.fd, busy.core, 20, FRAME_HEADERS, FRAME_FLAG_END_HEADERS, 1);
    cr_assert_eq(pthread_create(&thread, NULL, quit, &has_quit), 0);
    expect_away(busy.fd);
    struct end late = greet();
    expect_away(late.fd);
    confirm(&late);
    expect_goaway(late.fd, 0, "drained");
    relay_bed_hear_end(late.fd);
    close(late.fd);
    close(busy.fd);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    relay_bed_stop();
}

/* The core's end says CANCELLED of a call that it has not begun: the client must not hear it. */
Test(relay_quit, who_has_no_answer_in_time_hears_nothing_more_of_the_core)
{
    uint8_t cancelled[64], rest;
    relay_bed_prepare("127.0.0.1:0");
    relay_bed_start();
    struct end end = greet();
    pass(end.fd, end.core, 20, FRAME_HEADERS, FRAME_FLAG_END_HEADERS | FRAME_FLAG_END_STREAM, 1);
    relay_quit(relay_bed.relay);
    size_t n = relay_bed_put_frame(cancelled, 20, FRAME_HEADERS,
                                   FRAME_FLAG_END_HEADERS | FRAME_FLAG_END_STREAM, 1);
    cr_expect_lt(send(end.core, cancelled, n, MSG_NOSIGNAL), 0);
    cr_expect_eq(recv(end.core, &rest, 1, 0), 0);
    expect_away(end.fd);
    expect_goaway(end.fd, 1, "drained");
    relay_bed_hear_end(end.fd);
    close(end.fd);
    relay_bed_stop();
}

/* What the core has said before is not lost, however slowly the client reads. */
Test(relay_quit, who_reads_slowly_gets_what_the_core_has_said)
{
    static uint8_t frame[FRAME_HEAD_BYTES + 16384], heard[1 << 20];
    size_t n_said = 0, n_heard = 0, n;
    relay_bed_prepare("127.0.0.1:0");
    relay_bed_start();
    struct end end = greet();
    pass(end.fd, end.core, 20, FRAME_HEADERS, FRAME_FLAG_END_HEADERS | FRAME_FLAG_END_STREAM, 1);
    size_t n_frame = relay_bed_put_frame(frame, 16384, FRAME_DATA, 0, 1);
    for (ssize_t sent = 0; sent >= 0; n_said += sent > 0 ? (size_t)sent : 0) {
        struct pollfd room = {.fd = end.core, .events = POLLOUT};
        size_t begun = n_said % n_frame;
        sent = poll(&room, 1, 500) == 1
                   ? send(end.core, frame + begun, n_frame - begun, MSG_NOSIGNAL | MSG_DONTWAIT)
                   : -1;
    }
    relay_quit(relay_bed.relay);
    while ((n = relay_bed_hear(end.fd, heard, sizeof heard)) > 0)
        n_heard += n;
    cr_expect_gt(n_said, 1u << 20);
    cr_expect_geq(n_heard, n_said);
    close(end.fd);
    relay_bed_stop();
}

/* An address of this test alone: nobody else listens there. */
Test(relay_quit, nobody_comes_after_it)
{
    relay_bed_prepare("127.77.0.1:0");
    relay_bed_start();
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(relay_port(relay_bed.relay)),
                                  .sin_addr.s_addr = htonl(0x7f4d0001)};
    int first = socket(AF_INET, SOCK_STREAM, 0), next = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert_eq(connect(first, (struct sockaddr *)&address, sizeof address), 0);
    relay_bed_say(first, RELAY_BED_HELLO, RELAY_BED_HELLO_BYTES);
    relay_bed_core_at(0);
    relay_quit(relay_bed.relay); /* ended by its time */
    cr_expect_neq(connect(next, (struct sockaddr *)&address, sizeof address), 0);
    close(first);
    close(next);
    relay_bed_stop();
}
