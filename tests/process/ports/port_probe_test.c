/* port_probe: a port is dead only when accept has failed, and then nobody answered three connections
 * for their whole time; whatever else may be slow or missing. */

#include "base/clock.h"
#include "process/ports/port_probe.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define LIMIT PORT_PROBE_LIMIT_NS

struct listener {
    int fd;
    struct port_probe probe;
};

/* A port whose connections the kernel completes, and that nobody serves but the test. */
static void listen_on(struct listener *listener, int backlog)
{
    struct sockaddr_in bound = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof bound;
    listener->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(listener->fd, (struct sockaddr *)&bound, bytes), 0);
    cr_assert_eq(listen(listener->fd, backlog), 0);
    cr_assert_eq(getsockname(listener->fd, (struct sockaddr *)&bound, &bytes), 0);
    struct address address = {.host = "127.0.0.1", .port = ntohs(bound.sin_port)};
    struct error error = {0};
    cr_assert_eq(port_probe_init(&listener->probe, &address, 0, &error), STATUS_OK, "%s",
                 error.text);
}

static void finish(struct listener *listener)
{
    port_probe_finish(&listener->probe);
    close(listener->fd);
}

/* Looks at a probe's begin and after its whole time, n times; the last word. */
static bool probe_in_vain(struct listener *listener, unsigned n, uint64_t *now_ns)
{
    bool is_dead = false;
    for (unsigned i = 0; i < n; i++) {
        cr_expect_eq(port_probe_is_dead(&listener->probe, 1, *now_ns), is_dead);
        cr_expect_eq(port_probe_is_dead(&listener->probe, 1, *now_ns + LIMIT - 1), is_dead);
        is_dead = port_probe_is_dead(&listener->probe, 1, *now_ns += LIMIT);
    }
    return is_dead;
}

/* Accepts one and says something, as a server of HTTP/2 does at once. */
static void serve_one(const struct listener *listener)
{
    int fd = accept(listener->fd, NULL, NULL);
    cr_assert_geq(fd, 0);
    cr_assert_eq(send(fd, "settings", 8, MSG_NOSIGNAL), 8);
    close(fd);
}

static bool looks_alive_at(struct listener *listener, uint64_t now_ns)
{
    while (listener->probe.fd >= 0) { /* the bytes are on their way */
        cr_assert_eq(poll(&(struct pollfd){.fd = listener->probe.fd, .events = POLLIN}, 1, -1), 1);
        if (port_probe_is_dead(&listener->probe, 1, now_ns))
            return false;
    }
    return true;
}

Test(port_probe, does_nothing_until_accept_has_failed)
{
    struct listener listener;
    listen_on(&listener, 8);
    for (uint64_t i = 0; i < 10; i++)
        cr_expect_not(port_probe_is_dead(&listener.probe, 0, i * LIMIT));
    cr_expect_eq(listener.probe.fd, -1);
    finish(&listener);
}

Test(port_probe, three_silent_connections_are_a_death)
{
    struct listener listener;
    uint64_t now_ns = NS_PER_S;
    listen_on(&listener, 8);
    cr_expect_not(probe_in_vain(&listener, PORT_PROBES_SILENT - 1, &now_ns));
    cr_expect(probe_in_vain(&listener, 1, &now_ns));
    cr_expect(port_probe_is_dead(&listener.probe, 1, now_ns), "and stays one");
    finish(&listener);
}

Test(port_probe, an_answer_in_time_is_life_until_accept_fails_again, .timeout = 60)
{
    struct listener listener;
    uint64_t now_ns = NS_PER_S;
    listen_on(&listener, 8);
    cr_expect_not(probe_in_vain(&listener, PORT_PROBES_SILENT - 1, &now_ns));
    cr_expect_not(port_probe_is_dead(&listener.probe, 1, now_ns));
    for (unsigned i = 0; i < PORT_PROBES_SILENT; i++)
        serve_one(&listener); /* those that were given up, too */
    cr_expect(looks_alive_at(&listener, now_ns + LIMIT - 1));

    cr_expect_not(port_probe_is_dead(&listener.probe, 1, now_ns + 100 * LIMIT));
    cr_expect_eq(listener.probe.fd, -1, "nothing to ask for");
    cr_expect_not(port_probe_is_dead(&listener.probe, 2, now_ns + 101 * LIMIT));
    cr_expect_geq(listener.probe.fd, 0);
    finish(&listener);
}

Test(port_probe, a_backlog_that_is_full_is_silence)
{
    struct listener listener;
    uint64_t now_ns = NS_PER_S;
    int fds[8];
    listen_on(&listener, 0);
    for (unsigned i = 0; i < sizeof fds / sizeof *fds; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)!connect(fds[i], (struct sockaddr *)&listener.probe.address,
                       listener.probe.address_bytes);
    }
    cr_expect(probe_in_vain(&listener, PORT_PROBES_SILENT, &now_ns));
    for (unsigned i = 0; i < sizeof fds / sizeof *fds; i++)
        close(fds[i]);
    finish(&listener);
}

Test(port_probe, a_probe_without_a_descriptor_proves_nothing)
{
    struct listener listener;
    struct rlimit limit, none;
    listen_on(&listener, 8);
    int lowest = dup(STDERR_FILENO);
    close(lowest);
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = limit;
    none.rlim_cur = (rlim_t)lowest;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    for (uint64_t i = 0; i < 10; i++)
        cr_expect_not(port_probe_is_dead(&listener.probe, 1, i * LIMIT));
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    uint64_t now_ns = 10 * LIMIT;
    cr_expect(probe_in_vain(&listener, PORT_PROBES_SILENT, &now_ns));
    finish(&listener);
}

Test(port_probe, a_refused_connection_proves_nothing)
{
    struct listener listener;
    listen_on(&listener, 8);
    close(listener.fd);
    for (uint64_t i = 0; i < 10; i++)
        cr_expect_not(port_probe_is_dead(&listener.probe, 1, i * LIMIT));
    port_probe_finish(&listener.probe);
}

Test(port_probe, knows_unix_sockets)
{
    struct sockaddr_un bound = {.sun_family = AF_UNIX};
    struct address address = {.is_unix = true};
    struct listener listener;
    struct error error = {0};
    uint64_t now_ns = NS_PER_S;
    char folder[] = "/tmp/kvferry-probe-XXXXXX";
    cr_assert_not_null(mkdtemp(folder));
    snprintf(address.host, sizeof address.host, "unix:%s/port", folder);
    snprintf(bound.sun_path, sizeof bound.sun_path, "%s/port", folder);
    listener.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(listener.fd, (struct sockaddr *)&bound, sizeof bound), 0);
    cr_assert_eq(listen(listener.fd, 0), 0); /* one waits, a second is refused: EAGAIN */
    cr_assert_eq(port_probe_init(&listener.probe, &address, 0, &error), STATUS_OK, "%s",
                 error.text);
    cr_expect(probe_in_vain(&listener, PORT_PROBES_SILENT, &now_ns));
    finish(&listener);
    unlink(bound.sun_path);
    rmdir(folder);
}
