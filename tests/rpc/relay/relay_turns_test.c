/* relay/turns: who has most unanswered in the core waits and nobody else does, and all that waits goes on. */
#include "rpc/relay/session.h"
#include "rpc/relay/turns.h"
#include "tests/rpc/support/frame_head.h"
#include "tests/rpc/support/relay_bed.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HEADERS_BYTES (FRAME_HEAD_BYTES + 50)
#define REQUEST_BYTES (HEADERS_BYTES + FRAME_HEAD_BYTES + 20)

static size_t put_request(uint8_t *out, uint32_t stream)
{
    size_t n = relay_bed_put_frame(out, 50, FRAME_HEADERS, FRAME_FLAG_END_HEADERS, stream);
    return n + relay_bed_put_frame(out + n, 20, FRAME_DATA, FRAME_FLAG_END_STREAM, stream);
}

static size_t put_requests(uint8_t *out, uint32_t n_requests)
{
    size_t n = 0;
    for (uint32_t i = 0; i < n_requests; i++)
        n += put_request(out + n, 2 * i + 1);
    return n;
}

/* ---- counts ---- */

Test(relay_turns, what_has_no_answer_is_forgotten_after_its_round_and_the_next)
{
    struct turns turns = {0};
    struct turn_count own = {0};
    uint64_t now_ns = 1000 * TURNS_ROUND_NS;
    turns_ask(&turns, &own, 3, now_ns);
    cr_expect(turns_may_ask(&turns, &own, 4, now_ns));
    cr_expect_not(turns_may_ask(&turns, &own, 3, now_ns));
    cr_expect_eq(turns_next_round_ns(now_ns), now_ns + TURNS_ROUND_NS);
    cr_expect_not(turns_may_ask(&turns, &own, 3, now_ns + 2 * TURNS_ROUND_NS - 1));
    cr_expect(turns_may_ask(&turns, &own, 3, now_ns + 2 * TURNS_ROUND_NS));
    turns_ask(&turns, &own, 1, now_ns + TURNS_ROUND_NS);
    cr_expect_not(turns_may_ask(&turns, &own, 4, now_ns + TURNS_ROUND_NS));
    cr_expect(turns_may_ask(&turns, &own, 2, now_ns + 2 * TURNS_ROUND_NS));
    cr_expect_not(turns_may_ask(&turns, &own, 1, now_ns + 2 * TURNS_ROUND_NS));
}

Test(relay_turns, an_answer_makes_room_once_and_a_late_one_none)
{
    struct turns turns = {0};
    struct turn_count own = {0};
    uint64_t asked_ns = 1000 * TURNS_ROUND_NS, late_ns = asked_ns;
    turns_ask(&turns, &own, 2, asked_ns);
    turns_answer(&turns, &own, &asked_ns);
    cr_expect_eq(asked_ns, 0);
    cr_expect(turns_may_ask(&turns, &own, 2, late_ns));
    turns_answer(&turns, &own, &asked_ns);
    cr_expect_not(turns_may_ask(&turns, &own, 1, late_ns));
    turns_ask(&turns, &own, 1, late_ns + 2 * TURNS_ROUND_NS);
    turns_answer(&turns, &own, &late_ns);
    cr_expect_not(turns_may_ask(&turns, &own, 1, 1002 * TURNS_ROUND_NS));
}

Test(relay_turns, each_address_has_its_even_share_of_what_is_full)
{
    struct turns turns = {0};
    struct turn_count crowd = {0}, some = {0}, none = {0};
    uint64_t now_ns = 1000 * TURNS_ROUND_NS;
    turns_ask(&turns, &crowd, 9, now_ns);
    turns_ask(&turns, &some, 3, now_ns);
    cr_expect_not(turns_may_ask(&turns, &crowd, 8, now_ns));
    cr_expect(turns_may_ask(&turns, &some, 8, now_ns));
    cr_expect(turns_may_ask(&turns, &none, 8, now_ns));
    turns_ask(&turns, &some, 1, now_ns);
    cr_expect_not(turns_may_ask(&turns, &some, 8, now_ns));
    cr_expect(turns_may_ask(&turns, &none, 1, now_ns), "it has none");
}

/* ---- sessions ---- */

enum { N_SIDES = 2 };

struct bed {
    struct relay_limits limits;
    struct session_common common;
    struct network_list exempt;
    struct address_book *book;
    struct session sessions[N_SIDES]; /* each of an address of its own */
    uint64_t now_ns;
    struct session_event event;
};

static struct bed bed;

static size_t say(uint32_t side, const uint8_t *bytes, size_t n)
{
    size_t at = 0;
    do {
        at += session_client(&bed.sessions[side], bytes + at, n - at, bed.now_ns, &bed.event);
    } while (at < n && bed.event.kind != SESSION_WAIT && bed.event.kind != SESSION_PAUSE);
    return at;
}

static void answer(uint32_t side, uint32_t stream)
{
    uint8_t frame[64];
    struct session_event event;
    size_t n = relay_bed_put_frame(frame, 10, FRAME_HEADERS,
                                   FRAME_FLAG_END_HEADERS | FRAME_FLAG_END_STREAM, stream);
    cr_assert_eq(session_core(&bed.sessions[side], frame, n, false, bed.now_ns, &event), n);
}

static void set_up(void)
{
    relay_limits_init(&bed.limits);
    bed.limits.unanswered_max = 4;
    bed.common.limits = &bed.limits;
    bed.now_ns = 1000 * TURNS_ROUND_NS;
    cr_assert_eq(address_book_create(&bed.exempt, &bed.book), STATUS_OK);
    for (uint32_t i = 0; i < N_SIDES; i++) {
        struct network_address address = {{(uint8_t)(i + 1)}};
        session_init(&bed.sessions[i], &bed.common, address_book_enter(bed.book, &address),
                     bed.now_ns);
        cr_assert_eq(say(i, (const uint8_t *)RELAY_BED_HELLO, RELAY_BED_HELLO_BYTES),
                     RELAY_BED_HELLO_BYTES);
    }
}

static void tear_down(void)
{
    for (uint32_t i = 0; i < N_SIDES; i++) {
        session_finish(&bed.sessions[i], bed.now_ns);
        address_book_leave(bed.book, bed.sessions[i].address);
    }
    address_book_destroy(bed.book);
}

TestSuite(relay_waiting, .init = set_up, .fini = tear_down);

Test(relay_waiting, a_request_beyond_the_limit_waits_for_an_answer_or_for_time)
{
    uint8_t bytes[8 * REQUEST_BYTES];
    size_t n = put_requests(bytes, 8);
    size_t at = say(0, bytes, n);
    cr_assert_eq(at, 4 * REQUEST_BYTES);
    cr_assert_eq(bed.event.kind, SESSION_WAIT);
    cr_expect(session_must_wait(&bed.sessions[0], bed.now_ns));
    answer(0, 3);
    cr_expect_not(session_must_wait(&bed.sessions[0], bed.now_ns));
    at += say(0, bytes + at, n - at);
    cr_assert_eq(at, 5 * REQUEST_BYTES);
    bed.now_ns += 2 * TURNS_ROUND_NS;
    cr_expect_not(session_must_wait(&bed.sessions[0], bed.now_ns));
    at += say(0, bytes + at, n - at);
    cr_expect_eq(at, n);
    cr_expect_eq(bed.event.kind, SESSION_NOTHING);
}

Test(relay_waiting, another_address_does_not_wait)
{
    uint8_t bytes[8 * REQUEST_BYTES];
    size_t n = put_requests(bytes, 8);
    cr_assert_eq(say(0, bytes, n), 4 * REQUEST_BYTES);
    cr_expect_eq(say(1, bytes, n), 2 * REQUEST_BYTES, "its share of 4, with all full");
    answer(1, 1);
    cr_expect(session_must_wait(&bed.sessions[0], bed.now_ns), "the other has made the room");
    cr_expect_not(session_must_wait(&bed.sessions[1], bed.now_ns));
}

Test(relay_waiting, half_a_request_takes_no_turn_and_holds_up_nobody)
{
    uint8_t bytes[8 * REQUEST_BYTES];
    size_t n = 0;
    for (uint32_t i = 0; i < 20; i++)
        cr_assert_eq(
            say(0, bytes,
                relay_bed_put_frame(bytes, 50, FRAME_HEADERS, FRAME_FLAG_END_HEADERS, 2 * i + 1)),
            HEADERS_BYTES);
    cr_expect_eq(bed.event.kind, SESSION_NOTHING);
    for (uint32_t i = 0; i < 8; i++)
        n += relay_bed_put_frame(bytes + n, 20, FRAME_DATA, FRAME_FLAG_END_STREAM, 2 * i + 1);
    cr_expect_eq(say(0, bytes, n), n / 2);
    cr_expect_eq(bed.event.kind, SESSION_WAIT);
}

Test(relay_waiting, what_is_reset_or_refused_costs_a_turn)
{
    uint8_t bytes[8 * REQUEST_BYTES];
    size_t n = 0;
    bed.limits.address_streams_max = 1;
    n += relay_bed_put_frame(bytes, 50, FRAME_HEADERS, FRAME_FLAG_END_HEADERS, 1);
    for (uint32_t i = 1; i < 3; i++) /* refused */
        n += relay_bed_put_frame(bytes + n, 50, FRAME_HEADERS, FRAME_FLAG_END_HEADERS, 2 * i + 1);
    cr_assert_eq(say(0, bytes, n), n);
    n = relay_bed_put_frame(bytes, 4, FRAME_RST_STREAM, 0, 1);
    n += relay_bed_put_frame(bytes + n, 4, FRAME_RST_STREAM, 0, 3);
    n += relay_bed_put_frame(bytes + n, 4, FRAME_RST_STREAM, 0, 5);
    cr_expect_eq(say(0, bytes, n), 2 * (FRAME_HEAD_BYTES + 4));
    cr_expect_eq(bed.event.kind, SESSION_WAIT);
}

Test(relay_waiting, nobody_waits_who_is_exempt_or_on_a_port_of_our_own)
{
    uint8_t bytes[8 * REQUEST_BYTES];
    size_t n = put_requests(bytes, 8);
    bed.sessions[0].address->is_exempt = true;
    cr_expect_eq(say(0, bytes, n), n);
    relay_limits_trust_addresses(&bed.limits);
    cr_expect_eq(say(1, bytes, n), n);
}

/* ---- relayed ---- */

TestSuite(relay_crowd, .timeout = 120);

enum { N_CLIENTS = 12, N_REQUESTS = 40 };

struct crowd {
    int fds[N_CLIENTS];
    int cores[N_CLIENTS];
    size_t n_heard[N_CLIENTS];
    uint8_t bytes[N_REQUESTS * REQUEST_BYTES];
};

/* Takes what has come to that core, and answers each whole request of it. False: its client has gone. */
static bool serve(struct crowd *crowd, uint32_t i)
{
    uint8_t heard[4096], answer[64];
    ssize_t n = recv(crowd->cores[i], heard, sizeof heard, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
        return true;
    if (n <= 0)
        return false;
    size_t before = crowd->n_heard[i], after = before + (size_t)n;
    cr_assert_leq(after, sizeof crowd->bytes);
    cr_assert_eq(memcmp(heard, crowd->bytes + before, (size_t)n), 0);
    crowd->n_heard[i] = after;
    for (size_t k = before / REQUEST_BYTES; k < after / REQUEST_BYTES; k++) {
        size_t n_answer = relay_bed_put_frame(answer, 10, FRAME_HEADERS,
                                              FRAME_FLAG_END_HEADERS | FRAME_FLAG_END_STREAM,
                                              (uint32_t)(2 * k + 1));
        (void)!send(crowd->cores[i], answer, n_answer, MSG_NOSIGNAL); /* it may have gone */
    }
    return true;
}

/* Until every client's requests have come, or it has gone. */
static void serve_all(struct crowd *crowd)
{
    uint32_t n_open = N_CLIENTS;
    bool is_over[N_CLIENTS] = {false};
    while (n_open > 0) {
        struct pollfd polled[N_CLIENTS];
        for (uint32_t i = 0; i < N_CLIENTS; i++)
            polled[i] = (struct pollfd){.fd = is_over[i] ? -1 : crowd->cores[i], .events = POLLIN};
        cr_assert_gt(poll(polled, N_CLIENTS, RELAY_BED_WAIT_MS), 0, "%u wait for ever", n_open);
        for (uint32_t i = 0; i < N_CLIENTS; i++) {
            if (is_over[i] || !polled[i].revents)
                continue;
            is_over[i] = !serve(crowd, i) || crowd->n_heard[i] == sizeof crowd->bytes;
            n_open -= is_over[i];
        }
    }
}

Test(relay_crowd, all_that_waits_goes_on_and_those_that_leave_hold_up_nobody)
{
    static struct crowd crowd;
    relay_bed_prepare("127.0.0.1:0");
    relay_bed.options.limits.unanswered_max = 4;
    relay_bed_start();
    (void)put_requests(crowd.bytes, N_REQUESTS);
    for (uint32_t i = 0; i < N_CLIENTS; i++)
        crowd.fds[i] = relay_bed_greet((uint8_t)(i % 2 + 1), &crowd.cores[i]);
    for (uint32_t i = 0; i < N_CLIENTS; i++)
        relay_bed_say(crowd.fds[i], crowd.bytes, sizeof crowd.bytes);
    relay_bed_wait_struck(RELAY_LIMIT_UNANSWERED, 2);
    for (uint32_t i = 0; i < N_CLIENTS; i += 4)
        close(crowd.fds[i]);
    serve_all(&crowd);
    for (uint32_t i = 0; i < N_CLIENTS; i++) {
        if (i % 4 == 0)
            continue;
        cr_expect_eq(crowd.n_heard[i], sizeof crowd.bytes);
        close(crowd.fds[i]);
    }
    relay_bed_stop();
}

/* What was said to the relay before is done when it returns. */
static void let_it_turn(int fd, int core)
{
    uint8_t frame[64], heard[64];
    size_t n = relay_bed_put_frame(frame, 8, FRAME_PING, FRAME_FLAG_ACK, 0);
    relay_bed_say(core, frame, n);
    relay_bed_hear_all(fd, heard, n);
}

/* More than it takes, until the relay takes no more either. Returns the bytes sent. */
static size_t fill(int core, int other_fd, int other_core)
{
    static uint8_t data[FRAME_HEAD_BYTES + 16384];
    (void)relay_bed_put_frame(data, 16384, FRAME_DATA, 0, 1);
    size_t n_sent = 0, n_at_turn = SIZE_MAX;
    for (;;) {
        size_t at = n_sent % sizeof data;
        ssize_t n = send(core, data + at, sizeof data - at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) {
            n_sent += (size_t)n;
            continue;
        }
        if (n_at_turn == n_sent)
            return n_sent;
        n_at_turn = n_sent;
        let_it_turn(other_fd, other_core);
    }
}

Test(relay_crowd, who_takes_no_answers_asks_nothing_new_and_a_slow_reader_loses_nothing)
{
    static uint8_t heard[1 << 20];
    uint8_t request[REQUEST_BYTES];
    relay_bed_prepare("127.0.0.1:0");
    relay_bed_start();
    int core, fd = relay_bed_greet(1, &core);
    int other_core, other_fd = relay_bed_greet(2, &other_core);
    relay_bed_open_stream(fd, core, 1);
    size_t n_left = fill(core, other_fd, other_core);
    relay_bed_say(fd, request, put_request(request, 3));
    let_it_turn(other_fd, other_core);
    let_it_turn(other_fd, other_core);
    cr_expect_eq(recv(core, heard, sizeof heard, MSG_DONTWAIT), -1, "it was passed on");
    while (n_left > 0) {
        size_t n = relay_bed_hear(fd, heard, n_left < 1000 ? n_left : 1000);
        cr_assert_gt(n, 0);
        n_left -= n;
    }
    relay_bed_hear_all(core, heard, sizeof request);
    cr_expect_arr_eq(heard, request, sizeof request);
    close(fd);
    close(other_fd);
    relay_bed_stop();
}

Test(relay_crowd, what_is_said_after_the_end_is_not_read)
{
    enum { SOCKETS_BYTES_MAX = 64 << 20 };
    static uint8_t junk[1 << 16];
    uint8_t heard[1024];
    relay_bed_prepare("127.0.0.1:0");
    relay_bed_start();
    int core, fd = relay_bed_greet(1, &core);
    relay_bed_say(fd, junk,
                  relay_bed_put_frame(junk, 20, FRAME_HEADERS, FRAME_FLAG_END_HEADERS, 2));
    while (relay_bed_hear(fd, heard, sizeof heard) > 0)
        ;
    size_t n_said = 0;
    while (n_said < SOCKETS_BYTES_MAX) {
        ssize_t n = send(fd, junk, sizeof junk, MSG_NOSIGNAL);
        if (n <= 0)
            break;
        n_said += (size_t)n;
    }
    cr_expect_lt(n_said, SOCKETS_BYTES_MAX);
    close(fd);
    relay_bed_stop();
}
