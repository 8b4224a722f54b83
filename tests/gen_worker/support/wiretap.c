#include "tests/gen_worker/support/wiretap.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HEARD_MAX = 1 << 20, TICK_MS = 10 };

struct wiretap {
    int listening;
    uint16_t port, to_port;
    pthread_t thread;
    atomic_bool is_over;
    pthread_mutex_t mutex; /* what follows */
    uint8_t heard[HEARD_MAX];
    size_t n_heard;
};

static struct sockaddr_in loopback(uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static const struct sockaddr *as_any(const struct sockaddr_in *in)
{
    return (const struct sockaddr *)(const void *)in;
}

/* False: that side is over. */
static bool pass_on(struct wiretap *tap, int from, int to)
{
    uint8_t bytes[16384];
    ssize_t n = read(from, bytes, sizeof bytes);
    if (n <= 0)
        return false;
    pthread_mutex_lock(&tap->mutex);
    cr_assert_leq(tap->n_heard + (size_t)n, HEARD_MAX);
    memcpy(tap->heard + tap->n_heard, bytes, (size_t)n);
    tap->n_heard += (size_t)n;
    pthread_mutex_unlock(&tap->mutex);
    for (ssize_t done = 0; done < n;) {
        ssize_t sent = send(to, bytes + done, (size_t)(n - done), MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        done += sent;
    }
    return true;
}

static void listen_in(struct wiretap *tap, int one, int other)
{
    struct pollfd ends[2] = {{.fd = one, .events = POLLIN}, {.fd = other, .events = POLLIN}};
    bool is_open = true;
    while (is_open && !atomic_load(&tap->is_over)) {
        (void)poll(ends, 2, TICK_MS);
        for (int i = 0; i < 2 && is_open; i++)
            if (ends[i].revents)
                is_open = pass_on(tap, ends[i].fd, ends[1 - i].fd);
    }
}

static void *run(void *arg)
{
    struct wiretap *tap = arg;
    const struct sockaddr_in to = loopback(tap->to_port);
    while (!atomic_load(&tap->is_over)) {
        struct pollfd arriving = {.fd = tap->listening, .events = POLLIN};
        if (poll(&arriving, 1, TICK_MS) <= 0)
            continue;
        int one = accept(tap->listening, NULL, NULL);
        int other = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(other, as_any(&to), sizeof to) == 0)
            listen_in(tap, one, other);
        close(one);
        close(other);
    }
    return NULL;
}

struct wiretap *wiretap_create(uint16_t to_port)
{
    struct wiretap *tap = calloc(1, sizeof *tap);
    struct sockaddr_in own = loopback(0);
    socklen_t bytes = sizeof own;
    cr_assert_not_null(tap);
    tap->to_port = to_port;
    tap->listening = socket(AF_INET, SOCK_STREAM, 0);
    pthread_mutex_init(&tap->mutex, NULL);
    cr_assert_eq(bind(tap->listening, as_any(&own), sizeof own), 0);
    cr_assert_eq(listen(tap->listening, 8), 0);
    cr_assert_eq(getsockname(tap->listening, (struct sockaddr *)(void *)&own, &bytes), 0);
    tap->port = ntohs(own.sin_port);
    cr_assert_eq(pthread_create(&tap->thread, NULL, run, tap), 0);
    return tap;
}

uint16_t wiretap_port(const struct wiretap *tap)
{
    return tap->port;
}

bool wiretap_has(struct wiretap *tap, const void *bytes, size_t n)
{
    const uint8_t *wanted = bytes;
    bool is_found = false;
    pthread_mutex_lock(&tap->mutex);
    for (size_t i = 0; i + n <= tap->n_heard && !is_found; i++)
        is_found = memcmp(tap->heard + i, wanted, n) == 0;
    pthread_mutex_unlock(&tap->mutex);
    return is_found;
}

void wiretap_destroy(struct wiretap *tap)
{
    atomic_store(&tap->is_over, true);
    pthread_join(tap->thread, NULL);
    close(tap->listening);
    pthread_mutex_destroy(&tap->mutex);
    free(tap);
}
