/* relay: bytes arrive as they were sent, limits refuse who is beyond them, and an end is told to both
 * sides. The test is the core. */
#include "base/clock.h"
#include "rpc/relay/peer_table.h"
#include "tests/rpc/support/relay_bed.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

TestSuite(relay, .timeout = 120);

/* ---- bytes ---- */

struct sender {
    int fd;
    const uint8_t *bytes;
    size_t n;
};

static void *send_all(void *arg)
{
    const struct sender *sender = arg;
    relay_bed_say(sender->fd, sender->bytes, sender->n);
    return NULL;
}

Test(relay, bytes_arrive_as_they_were_sent_in_both_directions)
{
    enum { FRAME_MAX_BYTES = 16384, N_BYTES = 12 << 20 };
    static uint8_t bytes[2][N_BYTES + 2 * FRAME_MAX_BYTES], heard[N_BYTES + 2 * FRAME_MAX_BYTES];
    relay_bed_prepare("127.0.0.1:0");
    relay_bed_start();
    int core, fd = relay_bed_greet(1, &core);
    relay_bed_open_stream(fd, core, 1);
    size_t n[2] = {0, 0};
    for (uint32_t i = 0; n[0] < N_BYTES; i++)
        n[0] += relay_bed_put_frame(bytes[0] + n[0], i * 7919 % FRAME_MAX_BYTES + 1, FRAME_DATA, 0,
                                    1);
    for (uint32_t i = 0; n[1] < N_BYTES; i++)
        n[1] += relay_bed_put_frame(bytes[1] + n[1], i * 6007 % FRAME_MAX_BYTES + 1, FRAME_DATA, 0,
                                    1);
    const int ends[2] = {fd, core};
    for (int from = 0; from < 2; from++) {
        pthread_t thread;
        struct sender sender = {ends[from], bytes[from], n[from]};
        cr_assert_eq(pthread_create(&thread, NULL, send_all, &sender), 0);
        relay_bed_hear_all(ends[!from], heard, n[from]);
        cr_assert_eq(pthread_join(thread, NULL), 0);
        cr_assert_eq(memcmp(heard, bytes[from], n[from]), 0);
    }
    close(fd);
    relay_bed_hear_end(core);
    relay_bed_stop();
}

Test(relay, the_core_knows_nothing_of_who_has_not_begun)
{
    relay_bed_prepare("127.0.0.1:0");
    relay_bed.options.limits.handshake_ns = 200 * NS_PER_MS;
    relay_bed_start();
    int silent = relay_bed_connect(1), half = relay_bed_connect(1), wrong = relay_bed_connect(1);
    relay_bed_say(half, RELAY_BED_HELLO, 10);
    relay_bed_say(wrong, "GET / HTTP/1.1\r\n\r\n", 18);
    char heard[32] = "";
    relay_bed_hear_all(wrong, heard, sizeof heard - 1);
    cr_expect_str_eq(heard, "HTTP/1.1 426 Upgrade Required\r\n");
    relay_bed_hear_end(wrong);
    relay_bed_hear_end(half);
    relay_bed_hear_end(silent);
    cr_expect_eq(relay_bed_n_struck(RELAY_LIMIT_HANDSHAKE_TIME), 2);
    cr_expect_eq(relay_bed_n_struck(RELAY_LIMIT_PROTOCOL), 1);
    cr_expect_eq(relay_bed_n_cores(), 0);
    close(silent);
    close(half);
    close(wrong);
    relay_bed_stop();
}

/* The core says its last. Returns the bytes of that. */
static size_t end_core(int core, uint8_t last_out[64])
{
    size_t n = relay_bed_put_frame(last_out, 8, FRAME_GOAWAY, 0, 0);
    relay_bed_say(core, last_out, n);
    shutdown(core, SHUT_RDWR);
    return n;
}

Test(relay, each_side_learns_of_the_others_end)
{
    uint8_t bytes[64];
    relay_bed_prepare("127.0.0.1:0");
    relay_bed_start();
    int core, fd = relay_bed_greet(1, &core);
    size_t n = end_core(core, bytes);
    uint8_t heard[64];
    relay_bed_hear_all(fd, heard, n);
    relay_bed_hear_end(fd);
    close(fd);

    fd = relay_bed_greet(1, &core);
    close(fd);
    relay_bed_hear_end(core);
    relay_bed_stop();
}

static void *stop_bed(void *arg)
{
    (void)arg;
    relay_bed_stop();
    return NULL;
}

/* Else its kernel would drop the last answers, which it may not have read yet. */
Test(relay, who_was_served_to_the_end_may_still_speak_while_the_relay_ends)
{
    enum { N_WORDS = 20 };
    uint8_t bytes[64], heard[64];
    pthread_t thread;
    relay_bed_prepare("127.0.0.1:0");
    relay_bed_start();
    int core, fd = relay_bed_greet(1, &core);
    size_t n = end_core(core, bytes);
    cr_assert_eq(pthread_create(&thread, NULL, stop_bed, NULL), 0);
    relay_bed_hear_all(fd, heard, n);
    relay_bed_hear_end(fd);
    for (int i = 0; i < N_WORDS; i++) {
        struct pollfd polled = {.fd = fd};
        poll(&polled, 1, 1); /* a reset would come now */
        cr_assert_eq(polled.revents & (POLLERR | POLLHUP), 0, "word %d", i);
        relay_bed_say(fd, bytes, n);
    }
    close(fd);
    cr_assert_eq(pthread_join(thread, NULL), 0);
}

Test(relay, who_is_sent_away_hears_it_between_two_frames_and_goes_on)
{
    enum { N_FIRST = 10, N_DATA = 100 };
    uint8_t settings[16], data[N_DATA + 16], goaway[FRAME_GOAWAY_MAX], heard[N_DATA + 16];
    size_t n_settings = relay_bed_put_frame(settings, 0, FRAME_SETTINGS, 0, 0);
    size_t n_data = relay_bed_put_frame(data, N_DATA, FRAME_DATA, 0, 1);
    size_t n_goaway = frame_put_goaway(goaway, FRAME_STREAM_MAX, FRAME_NO_ERROR, "draining");
    relay_bed_prepare("127.0.0.1:0");
    relay_bed_start();
    int core, new_core, fd = relay_bed_greet(1, &core), new_fd = relay_bed_greet(1, &new_core);
    relay_bed_say(core, settings, n_settings);
    relay_bed_hear_all(fd, heard, n_settings);
    relay_bed_open_stream(fd, core, 1);
    relay_bed_say(core, data, N_FIRST);
    relay_bed_hear_all(fd, heard, N_FIRST);

    relay_send_away(relay_bed.relay);
    relay_bed_open_stream(new_fd, new_core, 1); /* meanwhile it has heeded that */
    relay_bed_say(core, data + N_FIRST, n_data - N_FIRST);
    relay_bed_hear_all(fd, heard + N_FIRST, n_data - N_FIRST);
    cr_expect_arr_eq(heard, data, n_data);
    relay_bed_hear_all(fd, heard, n_goaway);
    cr_expect_arr_eq(heard, goaway, n_goaway);

    relay_bed_say(new_core, settings, n_settings);
    relay_bed_hear_all(new_fd, heard, n_settings);
    cr_expect_arr_eq(heard, settings, n_settings, "nothing may come before them");
    relay_bed_hear_all(new_fd, heard, n_goaway);
    cr_expect_arr_eq(heard, goaway, n_goaway);

    relay_bed_open_stream(fd, core, 3); /* on its way already when it heard of it */
    relay_bed_say(core, data, n_data);
    relay_bed_hear_all(fd, heard, n_data);
    cr_expect_arr_eq(heard, data, n_data);
    close(fd);
    close(new_fd);
    relay_bed_stop();
}

Test(relay, the_peer_is_known_before_the_core_has_its_end)
{
    struct rpc_peer peer;
    struct sockaddr_in own;
    socklen_t n = sizeof own;
    char name[32], wanted[64];
    relay_bed_prepare("127.0.0.1:0");
    relay_bed_start();
    int core, fd = relay_bed_greet(7, &core);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)&own, &n), 0);
    snprintf(name, sizeof name, "fd:%d", core);
    snprintf(wanted, sizeof wanted, "ipv4:127.0.0.7:%u", ntohs(own.sin_port));
    cr_assert(peer_table_find(name, &peer));
    cr_expect_str_eq(peer.address, wanted);
    cr_expect_str_eq(peer.identity, "");
    cr_expect_not(peer.is_encrypted);
    close(fd);
    relay_bed_stop();
}

/* ---- limits ---- */

Test(relay, an_address_has_so_many_connections_and_another_one_its_own)
{
    enum { N = 5 };
    int fds[N], core;
    uint8_t byte;
    relay_bed_prepare("127.0.0.1:0");
    relay_bed.options.limits.address_connections_max = N;
    relay_bed_start();
    for (int i = 0; i < N; i++)
        fds[i] = relay_bed_greet(1, &core);
    int more = relay_bed_connect(1);
    cr_expect_eq(relay_bed_hear(more, &byte, 1), 0, "refused");
    cr_expect_eq(relay_bed_n_struck(RELAY_LIMIT_ADDRESS_CONNECTIONS), 1);
    close(more);
    close(relay_bed_greet(2, &core));
    close(fds[0]);
    uint64_t until_ns = clock_now_ns() + RELAY_BED_WAIT_MS * NS_PER_MS;
    while (gauge_value(relay_bed.relay_metrics.connections) >= N)
        cr_assert_lt(clock_now_ns(), until_ns);
    fds[0] = relay_bed_greet(1, &core);
    for (int i = 0; i < N; i++)
        close(fds[i]);
    relay_bed_stop();
}

Test(relay, an_exempt_address_has_more)
{
    enum { N = 5 };
    int fds[N], core;
    relay_bed_prepare("127.0.0.1:0");
    relay_bed.options.limits.address_connections_max = 1;
    relay_bed.options.limits.exempt = "127.0.0.0/29";
    relay_bed_start();
    for (int i = 0; i < N; i++)
        fds[i] = relay_bed_greet(1, &core);
    for (int i = 0; i < N; i++)
        close(fds[i]);
    relay_bed_stop();
}

Test(relay, the_oldest_unproven_connection_goes_for_a_new_one)
{
    enum { N = 4 };
    int fds[N], core;
    relay_bed_prepare("127.0.0.1:0");
    relay_bed.options.limits.unproven_max = N;
    relay_bed_start();
    for (int i = 0; i < N; i++)
        fds[i] = relay_bed_greet(1, &core);
    close(relay_bed_greet(2, &core));
    relay_bed_hear_end(fds[0]);
    cr_expect_eq(relay_bed_n_struck(RELAY_LIMIT_UNPROVEN), 1);
    for (int i = 1; i < N; i++) {
        cr_expect_eq(poll(&(struct pollfd){.fd = fds[i], .events = POLLIN}, 1, 0), 0);
        close(fds[i]);
    }
    close(fds[0]);
    relay_bed_stop();
}

Test(relay, a_crowd_of_unproven_connections_displaces_itself)
{
    enum { N = 16 };
    int fds[N], core;
    relay_bed_prepare("127.0.0.1:0");
    relay_bed.options.limits.unproven_max = N;
    relay_bed_start();
    int alone = relay_bed_greet(2, &core);
    for (int i = 0; i < N; i++)
        fds[i] = relay_bed_greet(1, &core);
    relay_bed_hear_end(fds[0]);
    cr_expect_eq(poll(&(struct pollfd){.fd = alone, .events = POLLIN}, 1, 0), 0, "older, but one");
    close(alone);
    for (int i = 0; i < N; i++)
        close(fds[i]);
    relay_bed_stop();
}

Test(relay, proven_connections_are_not_given_up_for_others)
{
    uint8_t frames[128], heard[128], byte;
    relay_bed_prepare("127.0.0.1:0");
    relay_bed.options.limits.connections_max = 1;
    relay_bed_start();
    int core, fd = relay_bed_greet(1, &core);
    size_t n = relay_bed_put_frame(frames, 20, FRAME_HEADERS, FRAME_FLAG_END_HEADERS, 1);
    n += relay_bed_put_frame(frames + n, 20, FRAME_DATA, FRAME_FLAG_END_STREAM, 1);
    relay_bed_say(fd, frames, n);
    relay_bed_hear_all(core, heard, n);
    int more = relay_bed_connect(2);
    cr_expect_eq(relay_bed_hear(more, &byte, 1), 0);
    cr_expect_eq(relay_bed_n_struck(RELAY_LIMIT_CONNECTIONS), 1);
    close(more);
    close(fd);
    relay_bed_stop();
}

Test(relay, new_connections_of_an_address_have_a_rate)
{
    uint8_t byte;
    int core;
    relay_bed_prepare("127.0.0.1:0");
    relay_bed.options.limits.address_connections_per_s = 1;
    relay_bed_start();
    for (int i = 0; i < 3; i++)
        close(relay_bed_greet(1, &core));
    int more = relay_bed_connect(1);
    cr_expect_eq(relay_bed_hear(more, &byte, 1), 0);
    cr_expect_geq(relay_bed_n_struck(RELAY_LIMIT_ADDRESS_CONNECTION_RATE), 1);
    close(more);
    close(relay_bed_greet(2, &core));
    relay_bed_stop();
}

Test(relay, half_open_streams_are_reset_on_both_sides)
{
    uint8_t wanted[FRAME_RESET_BYTES], heard[FRAME_RESET_BYTES];
    relay_bed_prepare("127.0.0.1:0");
    relay_bed.options.limits.half_open_ns = 50 * NS_PER_MS;
    relay_bed_start();
    int core, fd = relay_bed_greet(1, &core);
    relay_bed_open_stream(fd, core, 1);
    frame_put_reset(wanted, 1, FRAME_CANCEL);
    relay_bed_hear_all(core, heard, sizeof heard);
    cr_expect_arr_eq(heard, wanted, sizeof wanted);
    relay_bed_hear_all(fd, heard, sizeof heard);
    cr_expect_arr_eq(heard, wanted, sizeof wanted);
    cr_expect_eq(relay_bed_n_struck(RELAY_LIMIT_HALF_OPEN_TIME), 1);
    close(fd);
    relay_bed_stop();
}

Test(relay, a_reset_for_the_client_waits_for_the_end_of_the_cores_frame)
{
    enum { LENGTH = 1000, SAID = 300 };
    uint8_t data[FRAME_HEAD_BYTES + LENGTH], all[sizeof data + FRAME_RESET_BYTES];
    relay_bed_prepare("127.0.0.1:0");
    relay_bed.options.limits.half_open_ns = 50 * NS_PER_MS;
    relay_bed_start();
    int core, fd = relay_bed_greet(1, &core);
    relay_bed_open_stream(fd, core, 1);
    (void)relay_bed_put_frame(data, LENGTH, FRAME_DATA, 0, 99);
    relay_bed_say(core, data, SAID);
    relay_bed_hear_all(fd, all, SAID);
    relay_bed_wait_struck(RELAY_LIMIT_HALF_OPEN_TIME, 1);
    relay_bed_hear_all(core, all + SAID, FRAME_RESET_BYTES); /* the core has it at once */
    relay_bed_say(core, data + SAID, sizeof data - SAID);
    relay_bed_hear_all(fd, all + SAID, sizeof all - SAID);
    cr_expect_arr_eq(all, data, sizeof data, "whole");
    cr_expect_eq(all[sizeof data + 3], FRAME_RST_STREAM);
    close(fd);
    relay_bed_stop();
}

Test(relay, who_breaks_the_protocol_hears_why)
{
    uint8_t frame[64], heard[FRAME_GOAWAY_MAX];
    relay_bed_prepare("127.0.0.1:0");
    relay_bed_start();
    int core, fd = relay_bed_greet(1, &core);
    size_t n = relay_bed_put_frame(frame, 4, FRAME_CONTINUATION, FRAME_FLAG_END_HEADERS, 1);
    relay_bed_say(fd, frame, n);
    relay_bed_hear_end(core);
    relay_bed_hear_all(fd, heard, FRAME_HEAD_BYTES + 8 + strlen("protocol"));
    cr_expect_eq(heard[3], FRAME_GOAWAY);
    cr_expect_eq(heard[16], FRAME_PROTOCOL_ERROR);
    cr_expect_eq(memcmp(heard + 17, "protocol", strlen("protocol")), 0);
    relay_bed_hear_end(fd);
    close(fd);
    relay_bed_stop();
}

Test(relay, a_flood_of_resets_is_slowed_and_what_follows_it_arrives)
{
    enum { N_RESETS = 60 };
    static uint8_t frames[N_RESETS * 64 + 128], heard[sizeof frames];
    relay_bed_prepare("127.0.0.1:0");
    relay_bed.options.limits.address_resets_per_s = 20; /* 40 at once */
    relay_bed_start();
    int core, fd = relay_bed_greet(1, &core);
    size_t n = 0;
    for (uint32_t i = 0; i < N_RESETS; i++) {
        n += relay_bed_put_frame(frames + n, 20, FRAME_HEADERS, FRAME_FLAG_END_HEADERS, 2 * i + 1);
        n += relay_bed_put_frame(frames + n, 4, FRAME_RST_STREAM, 0, 2 * i + 1);
    }
    n += relay_bed_put_frame(frames + n, 20, FRAME_HEADERS, FRAME_FLAG_END_HEADERS, 1001);
    relay_bed_say(fd, frames, n);
    relay_bed_hear_all(core, heard, n);
    cr_expect_eq(memcmp(heard, frames, n), 0);
    cr_expect_geq(relay_bed_n_struck(RELAY_LIMIT_ADDRESS_RESETS), (N_RESETS - 40) / 2);
    close(fd);
    relay_bed_stop();
}

Test(relay, who_is_behind_for_long_is_cut_off)
{
    enum { N_RESETS = 300 };
    static uint8_t frames[N_RESETS * 64];
    relay_bed_prepare("127.0.0.1:0");
    relay_bed.options.limits.address_resets_per_s = 50;
    relay_bed.options.limits.behind_ns = 300 * NS_PER_MS;
    relay_bed_start();
    int core, fd = relay_bed_greet(1, &core);
    size_t n = 0;
    for (uint32_t i = 0; i < N_RESETS; i++) {
        n += relay_bed_put_frame(frames + n, 20, FRAME_HEADERS, FRAME_FLAG_END_HEADERS, 2 * i + 1);
        n += relay_bed_put_frame(frames + n, 4, FRAME_RST_STREAM, 0, 2 * i + 1);
    }
    relay_bed_say(fd, frames, n);
    relay_bed_hear_end(core);
    relay_bed_hear_end(fd);
    cr_expect_eq(relay_bed_n_struck(RELAY_LIMIT_BEHIND_TIME), 1);
    close(fd);
    relay_bed_stop();
}

Test(relay, a_client_that_leaves_while_it_is_not_read_is_gone_at_once)
{
    enum { N_RESETS = 2000 };
    static uint8_t frames[N_RESETS * 64];
    relay_bed_prepare("127.0.0.1:0");
    relay_bed.options.limits.address_resets_per_s = 1;
    relay_bed_start();
    int core, fd = relay_bed_greet(1, &core);
    size_t n = 0;
    for (uint32_t i = 0; i < N_RESETS; i++) {
        n += relay_bed_put_frame(frames + n, 20, FRAME_HEADERS, FRAME_FLAG_END_HEADERS, 2 * i + 1);
        n += relay_bed_put_frame(frames + n, 4, FRAME_RST_STREAM, 0, 2 * i + 1);
    }
    relay_bed_say(fd, frames, n);
    relay_bed_wait_struck(RELAY_LIMIT_ADDRESS_RESETS, 1);
    close(fd);
    relay_bed_hear_end(core); /* else after half an hour */
    relay_bed_stop();
}

Test(relay, a_client_that_takes_nothing_is_given_up)
{
    static uint8_t data[FRAME_HEAD_BYTES + 16384];
    relay_bed_prepare("127.0.0.1:0");
    relay_bed.options.limits.stall_ns = 100 * NS_PER_MS;
    relay_bed_start();
    int core, fd = relay_bed_greet(1, &core);
    (void)relay_bed_put_frame(data, 16384, FRAME_DATA, 0, 1);
    uint64_t until_ns = clock_now_ns() + RELAY_BED_WAIT_MS * NS_PER_MS;
    for (size_t at = 0; relay_bed_n_struck(RELAY_LIMIT_STALL_TIME) == 0;) {
        ssize_t n = send(core, data + at, sizeof data - at, MSG_NOSIGNAL);
        if (n > 0)
            at = (at + (size_t)n) % sizeof data;
        else
            (void)poll(NULL, 0, 2);
        cr_assert_lt(clock_now_ns(), until_ns);
    }
    relay_bed_hear_end(core);
    close(fd);
    relay_bed_stop();
}

/* ---- the end ---- */

Test(relay, what_the_core_said_last_arrives_though_the_relay_ends)
{
    enum { N_BYTES = 400 * 1000 };
    static uint8_t frames[N_BYTES + 32768], heard[sizeof frames];
    relay_bed_prepare("127.0.0.1:0");
    relay_bed_start();
    int core, fd = relay_bed_greet(1, &core);
    size_t n = 0;
    while (n < N_BYTES)
        n += relay_bed_put_frame(frames + n, 16384, FRAME_DATA, 0, 1);
    pthread_t thread;
    struct sender sender = {core, frames, n};
    cr_assert_eq(pthread_create(&thread, NULL, send_all, &sender), 0);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    relay_close(relay_bed.relay);
    shutdown(core, SHUT_RDWR);
    relay_destroy(relay_bed.relay);
    relay_bed_hear_all(fd, heard, n);
    cr_expect_eq(memcmp(heard, frames, n), 0);
    close(fd);
    close(core);
    metrics_destroy(relay_bed.metrics);
}

Test(relay, nothing_is_handed_over_once_it_is_closed)
{
    relay_bed_prepare("127.0.0.1:0");
    relay_bed_start();
    int fd = relay_bed_connect(1);
    relay_bed_say(fd, RELAY_BED_HELLO, 5);
    relay_close(relay_bed.relay);
    relay_bed_hear_end(fd);
    cr_expect_eq(relay_bed_n_cores(), 0);
    close(fd);
    relay_bed_stop();
}
