/* render_frame: what is sent arrives, in pieces or not; what is no frame, too long or late is told apart. */
#include "base/clock.h"
#include "text/render_frame.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void open_pair(int ends[2])
{
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
}

static uint64_t soon(void)
{
    return clock_now_ns() + 20 * NS_PER_S;
}

Test(render_frame, what_is_encoded_is_decoded)
{
    static const struct render_frame frames[] = {
        {RENDER_TOKENS, 7, UINT64_MAX, 16},
        {RENDER_TEMPLATE, 100, RENDER_NAME_MAX, 0},
        {RENDER_RENDER, 0, INT64_MAX, 0x10ffff},
        {RENDER_ANSWER, 12, 7, 1},
    };
    for (size_t i = 0; i < sizeof frames / sizeof *frames; i++) {
        uint8_t bytes[RENDER_FRAME_BYTES];
        struct render_frame back;
        render_frame_encode(&frames[i], bytes);
        cr_assert(render_frame_decode(bytes, 1000, &back));
        cr_assert(back.kind == frames[i].kind && back.body_bytes == frames[i].body_bytes &&
                  back.a == frames[i].a && back.b == frames[i].b);
    }
}

Test(render_frame, what_breaks_a_rule_is_no_frame)
{
    static const struct render_frame frames[] = {
        {(enum render_kind)0, 0, 0, 0},
        {(enum render_kind)5, 0, 0, 0},
        {RENDER_TEMPLATE, 100, RENDER_NAME_MAX + 1, 0},
        {RENDER_TEMPLATE, 3, 4, 0},
        {RENDER_TEMPLATE, 3, 2, 1},
        {RENDER_RENDER, 0, 0, 0x110000},
        {RENDER_RENDER, 0, (uint64_t)INT64_MAX + 1, 0},
        {RENDER_ANSWER, 0, RENDER_ANSWER_MAX, 0},
        {RENDER_ANSWER, 0, 0, 2},
        {RENDER_TOKENS, 1001, 0, 0}, /* over what the reader expects */
    };
    for (size_t i = 0; i < sizeof frames / sizeof *frames; i++) {
        uint8_t bytes[RENDER_FRAME_BYTES];
        struct render_frame back;
        render_frame_encode(&frames[i], bytes);
        cr_assert_not(render_frame_decode(bytes, 1000, &back), "%zu", i);
    }
}

static void *read_slowly(void *arg)
{
    int fd = *(int *)arg;
    char *all = malloc(RENDER_FRAME_BYTES + (4 << 20) + 1013);
    size_t n = 0;
    ssize_t got;
    while ((got = read(fd, all + n, 1013)) > 0)
        n += (size_t)got;
    for (size_t i = RENDER_FRAME_BYTES; i < n; i++)
        cr_assert_eq(all[i], 'x');
    free(all);
    return (void *)(uintptr_t)n;
}

Test(render_frame, a_body_that_is_larger_than_any_buffer_arrives_whole)
{
    const uint32_t bytes = 4 << 20;
    int ends[2];
    pthread_t reader;
    void *n;
    char *body = malloc(bytes);
    memset(body, 'x', bytes);
    open_pair(ends);
    cr_assert_eq(pthread_create(&reader, NULL, read_slowly, &ends[1]), 0);
    const struct render_frame frame = {RENDER_RENDER, bytes, 1, 0};
    cr_assert_eq(render_frame_send(ends[0], &frame, body, soon()), STATUS_OK);
    close(ends[0]);
    pthread_join(reader, &n);
    cr_assert_eq((uintptr_t)n, bytes + RENDER_FRAME_BYTES);
    close(ends[1]);
    free(body);
}

Test(render_frame, arrives_byte_by_byte_with_a_nul_behind)
{
    int ends[2];
    struct render_frame frame = {RENDER_ANSWER, 5, 0, 0}, got;
    uint8_t head[RENDER_FRAME_BYTES];
    char *body;
    open_pair(ends);
    render_frame_encode(&frame, head);
    for (size_t i = 0; i < sizeof head; i++)
        cr_assert_eq(write(ends[0], &head[i], 1), 1);
    cr_assert_eq(write(ends[0], "hello", 5), 5);
    cr_assert_eq(render_frame_receive(ends[1], 5, soon(), &got, &body), STATUS_OK);
    cr_assert_str_eq(body, "hello");
    free(body);
    close(ends[0]);
    close(ends[1]);
}

Test(render_frame, an_end_within_a_frame_is_a_lost_peer)
{
    int ends[2];
    struct render_frame frame = {RENDER_ANSWER, 5, 0, 0}, got;
    uint8_t head[RENDER_FRAME_BYTES];
    char *body;
    open_pair(ends);
    render_frame_encode(&frame, head);
    cr_assert_eq(write(ends[0], head, sizeof head), (ssize_t)sizeof head);
    cr_assert_eq(write(ends[0], "hel", 3), 3);
    close(ends[0]);
    cr_assert_eq(render_frame_receive(ends[1], 5, soon(), &got, &body), STATUS_PEER_LOST);
    cr_assert_eq(render_frame_send(ends[1], &frame, "hello", soon()), STATUS_PEER_LOST);
    close(ends[1]);
}

Test(render_frame, silence_ends_at_the_deadline)
{
    int ends[2];
    struct render_frame got;
    char *body;
    open_pair(ends);
    cr_assert_eq(render_frame_receive(ends[1], 5, clock_now_ns() + NS_PER_MS, &got, &body),
                 STATUS_TIMED_OUT);
    char full[4096] = {0};
    while (send(ends[1], full, sizeof full, MSG_DONTWAIT) > 0)
        ;
    const struct render_frame frame = {RENDER_RENDER, 5, 0, 0};
    cr_assert_eq(render_frame_send(ends[1], &frame, "hello", clock_now_ns() + NS_PER_MS),
                 STATUS_TIMED_OUT);
    close(ends[0]);
    close(ends[1]);
}

Test(render_frame, a_head_that_is_none_is_corrupt)
{
    int ends[2];
    struct render_frame got;
    char *body, head[RENDER_FRAME_BYTES];
    open_pair(ends);
    memset(head, 0xff, sizeof head);
    cr_assert_eq(write(ends[0], head, sizeof head), (ssize_t)sizeof head);
    cr_assert_eq(render_frame_receive(ends[1], 5, soon(), &got, &body), STATUS_CORRUPT);
    close(ends[0]);
    close(ends[1]);
}
