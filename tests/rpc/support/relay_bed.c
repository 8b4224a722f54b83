/* relay_bed - see relay_bed.h. */
#include "relay_bed.h"

#include "base/clock.h"
#include "frame_head.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

struct relay_bed relay_bed = {.lock = PTHREAD_MUTEX_INITIALIZER,
                              .changed = PTHREAD_COND_INITIALIZER};

static void take_core(void *arg, int fd)
{
    (void)arg;
    pthread_mutex_lock(&relay_bed.lock);
    cr_assert_lt(relay_bed.n_cores, RELAY_BED_CORES_MAX);
    relay_bed.cores[relay_bed.n_cores++] = fd;
    pthread_cond_broadcast(&relay_bed.changed);
    pthread_mutex_unlock(&relay_bed.lock);
}

int relay_bed_core_at(uint32_t index)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += RELAY_BED_WAIT_MS / 1000;
    pthread_mutex_lock(&relay_bed.lock);
    while (relay_bed.n_cores <= index)
        cr_assert_eq(pthread_cond_timedwait(&relay_bed.changed, &relay_bed.lock, &until), 0,
                     "no connection");
    int fd = relay_bed.cores[index];
    pthread_mutex_unlock(&relay_bed.lock);
    return fd;
}

uint32_t relay_bed_n_cores(void)
{
    pthread_mutex_lock(&relay_bed.lock);
    uint32_t n = relay_bed.n_cores;
    pthread_mutex_unlock(&relay_bed.lock);
    return n;
}

void relay_bed_prepare(const char *address)
{
    relay_bed.options = (struct relay_options){.address = address, .hand_over = take_core};
    relay_limits_init(&relay_bed.options.limits);
    cr_assert_eq(metrics_create("test", &relay_bed.metrics), STATUS_OK);
    relay_metrics_init(&relay_bed.relay_metrics, relay_bed.metrics);
    relay_bed.options.metrics = &relay_bed.relay_metrics;
}

void relay_bed_start(void)
{
    struct error error = {""};
    cr_assert_eq(relay_open(&relay_bed.options, &error, &relay_bed.relay), STATUS_OK, "%s",
                 error.text);
    cr_assert_eq(relay_start(relay_bed.relay, &error), STATUS_OK, "%s", error.text);
}

void relay_bed_stop(void)
{
    relay_close(relay_bed.relay);
    for (uint32_t i = 0; i < relay_bed.n_cores; i++)
        close(relay_bed.cores[i]);
    relay_destroy(relay_bed.relay);
    cr_expect_eq(gauge_value(relay_bed.relay_metrics.connections), 0);
    metrics_destroy(relay_bed.metrics);
}

uint64_t relay_bed_n_struck(enum relay_limit limit)
{
    return counter_value(relay_bed.relay_metrics.struck[limit]);
}

void relay_bed_wait_struck(enum relay_limit limit, uint64_t n)
{
    uint64_t until_ns = clock_now_ns() + RELAY_BED_WAIT_MS * NS_PER_MS;
    while (relay_bed_n_struck(limit) < n) {
        cr_assert_lt(clock_now_ns(), until_ns, "%s struck %lu times", relay_limit_name(limit),
                     (unsigned long)relay_bed_n_struck(limit));
        (void)poll(NULL, 0, 2);
    }
}

int relay_bed_connect(uint8_t last)
{
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000000u | last)};
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(relay_port(relay_bed.relay)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
    cr_assert_eq(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

void relay_bed_say(int fd, const void *bytes, size_t n)
{
    const uint8_t *at = bytes;
    while (n > 0) {
        ssize_t sent = send(fd, at, n, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN) {
            cr_assert_gt(poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, RELAY_BED_WAIT_MS),
                         0);
            continue;
        }
        cr_assert_gt(sent, 0);
        at += sent;
        n -= (size_t)sent;
    }
}

size_t relay_bed_hear(int fd, void *bytes, size_t n_max)
{
    for (;;) {
        cr_assert_gt(poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, RELAY_BED_WAIT_MS), 0,
                     "silence");
        ssize_t n = recv(fd, bytes, n_max, MSG_DONTWAIT);
        if (n >= 0)
            return (size_t)n;
        if (errno == ECONNRESET)
            return 0;
        cr_assert(errno == EAGAIN || errno == EINTR);
    }
}

void relay_bed_hear_all(int fd, void *bytes, size_t n)
{
    for (size_t at = 0; at < n;) {
        size_t n_heard = relay_bed_hear(fd, (uint8_t *)bytes + at, n - at);
        cr_assert_gt(n_heard, 0, "ended after %zu of %zu", at, n);
        at += n_heard;
    }
}

void relay_bed_hear_end(int fd)
{
    uint8_t bytes[4096];
    while (relay_bed_hear(fd, bytes, sizeof bytes) > 0)
        ;
}

int relay_bed_greet(uint8_t last, int *core_out)
{
    uint8_t heard[RELAY_BED_HELLO_BYTES];
    uint32_t index = relay_bed_n_cores();
    int fd = relay_bed_connect(last);
    relay_bed_say(fd, RELAY_BED_HELLO, RELAY_BED_HELLO_BYTES);
    *core_out = relay_bed_core_at(index);
    relay_bed_hear_all(*core_out, heard, sizeof heard);
    cr_assert_arr_eq(heard, RELAY_BED_HELLO, RELAY_BED_HELLO_BYTES);
    return fd;
}

size_t relay_bed_put_frame(uint8_t *out, uint32_t length, enum frame_type type, uint8_t flags,
                           uint32_t stream)
{
    frame_head_put(out, length, type, flags, stream);
    for (uint32_t i = 0; i < length; i++)
        out[FRAME_HEAD_BYTES + i] = (uint8_t)(i * 31 + length);
    return FRAME_HEAD_BYTES + length;
}

void relay_bed_open_stream(int fd, int core, uint32_t stream)
{
    uint8_t frame[64], heard[64];
    size_t n = relay_bed_put_frame(frame, 20, FRAME_HEADERS, FRAME_FLAG_END_HEADERS, stream);
    relay_bed_say(fd, frame, n);
    relay_bed_hear_all(core, heard, n);
    cr_assert_arr_eq(heard, frame, n);
}
