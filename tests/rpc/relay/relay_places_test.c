/* relay: a full port has room for newcomers: who was only refused gives way, then an idle connection of the address that
 * has most; who waits for an answer never. The test is the core. */
#include "tests/rpc/support/relay_bed.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

TestSuite(relay_places, .timeout = 120);

struct end {
    int fd, core;
};

static struct end greet(uint8_t last)
{
    struct end end;
    end.fd = relay_bed_greet(last, &end.core);
    return end;
}

static void ask(const struct end *end, uint32_t stream)
{
    uint8_t frames[128], heard[128];
    size_t n = relay_bed_put_frame(frames, 20, FRAME_HEADERS, FRAME_FLAG_END_HEADERS, stream);
    n += relay_bed_put_frame(frames + n, 20, FRAME_DATA, FRAME_FLAG_END_STREAM, stream);
    relay_bed_say(end->fd, frames, n);
    relay_bed_hear_all(end->core, heard, n);
}

static void answer(const struct end *end, uint32_t stream, bool is_refusal)
{
    uint8_t frames[128], heard[128];
    size_t n = 0;
    const uint8_t last = FRAME_FLAG_END_HEADERS | FRAME_FLAG_END_STREAM;
    if (!is_refusal) {
        n += relay_bed_put_frame(frames, 10, FRAME_HEADERS, FRAME_FLAG_END_HEADERS, stream);
        n += relay_bed_put_frame(frames + n, 10, FRAME_DATA, 0, stream);
    }
    n += relay_bed_put_frame(frames + n, 10, FRAME_HEADERS, last, stream);
    relay_bed_say(end->core, frames, n);
    relay_bed_hear_all(end->fd, heard, n);
}

static bool is_open(const struct end *end)
{
    return poll(&(struct pollfd){.fd = end->fd, .events = POLLIN}, 1, 0) == 0;
}

static void start(uint32_t connections_max)
{
    relay_bed_prepare("127.0.0.1:0");
    relay_bed.options.limits.connections_max = connections_max;
    relay_bed_start();
}

static void stop(struct end *ends, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        close(ends[i].fd);
    relay_bed_stop();
}

Test(relay_places, the_address_with_most_loses_the_connection_that_is_idle_longest)
{
    enum { N = 8 };
    struct end ends[N + 1];
    start(N);
    for (uint32_t i = 0; i < N; i++) {
        ends[i] = greet(i < 3 ? 2 : 3); /* three of one, five of the other */
        ask(&ends[i], 1);
        answer(&ends[i], 1, false);
    }
    ask(&ends[3], 3); /* the oldest of the five is busy */
    ask(&ends[4], 3);
    answer(&ends[4], 3, false); /* and this one was of late */
    ends[N] = greet(4);
    relay_bed_hear_end(ends[5].fd);
    for (uint32_t i = 0; i <= N; i++)
        cr_expect_eq(is_open(&ends[i]), i != 5, "%u", i);
    stop(ends, N + 1);
}

Test(relay_places, a_refused_call_proves_nothing)
{
    enum { N = 4 };
    struct end ends[N + 1];
    start(N);
    for (uint32_t i = 0; i < N; i++) {
        ends[i] = greet((uint8_t)(2 + i));
        ask(&ends[i], 1);
        answer(&ends[i], 1, i == 2);
    }
    ends[N] = greet(9);
    relay_bed_hear_end(ends[2].fd);
    for (uint32_t i = 0; i <= N; i++)
        cr_expect_eq(is_open(&ends[i]), i != 2, "%u", i);
    stop(ends, N + 1);
}

Test(relay_places, who_waits_for_an_answer_is_not_given_up)
{
    enum { N = 3 };
    struct end ends[N];
    uint8_t byte;
    start(N);
    for (uint32_t i = 0; i < N; i++) {
        ends[i] = greet(2);
        ask(&ends[i], 1);
    }
    int more = relay_bed_connect(3);
    cr_expect_eq(relay_bed_hear(more, &byte, 1), 0);
    close(more);
    for (uint32_t i = 0; i < N; i++)
        cr_expect(is_open(&ends[i]));
    stop(ends, N);
}

Test(relay_places, an_address_with_many_takes_none_of_who_has_fewer)
{
    enum { N = 3 };
    struct end ends[N];
    uint8_t byte;
    start(N);
    for (uint32_t i = 0; i < N; i++) {
        ends[i] = greet(i == 0 ? 2 : 3);
        ask(&ends[i], 1);
        if (i == 0)
            answer(&ends[i], 1, false);
    }
    int more = relay_bed_connect(3); /* all of its own are busy */
    cr_expect_eq(relay_bed_hear(more, &byte, 1), 0);
    close(more);
    for (uint32_t i = 0; i < N; i++)
        cr_expect(is_open(&ends[i]));
    stop(ends, N);
}

/* One that has only just come, and whose call is on its way. */
Test(relay_places, nor_of_who_was_not_served_yet)
{
    enum { N = 3 };
    struct end ends[N];
    start(N);
    ends[0] = greet(2);
    for (uint32_t i = 1; i < N; i++) {
        ends[i] = greet(3);
        ask(&ends[i], 1);
        answer(&ends[i], 1, true); /* a refusal: unproven again, and of late */
    }
    struct end more = greet(3);
    relay_bed_hear_end(ends[1].fd);
    cr_expect(is_open(&ends[0]));
    close(more.fd);
    stop(ends, N);
}
