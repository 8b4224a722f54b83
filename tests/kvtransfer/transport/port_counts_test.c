/* The data port of our own streams keeps the bounds that it is given, and counts whom it sends away, each
 * once and by why. Time is the test's. */
#include "base/clock.h"
#include "kvtransfer/drivers/stream/stream_address.h"
#include "kvtransfer/drivers/stream/stream_transport.h"
#include "kvtransfer/transport/port_counts.h"

#include <criterion/criterion.h>
#include <grp.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OWNER = 2000, READER = 1000, NOBODY = 65534, CLIENTS_MAX = 80, ROUNDS_MAX = 200000 };

#define START_NS (1000 * NS_PER_S)

#define STREAMS(name)                                                                              \
    static void name(enum stream_driver driver);                                                   \
    Test(port_counts, name##_unix_socket)                                                          \
    {                                                                                              \
        name(STREAM_UNIX);                                                                         \
    }                                                                                              \
    Test(port_counts, name##_tls)                                                                  \
    {                                                                                              \
        name(STREAM_TLS);                                                                          \
    }                                                                                              \
    static void name(enum stream_driver driver)

struct port {
    struct transport *transport;
    struct transport_address address;
    enum stream_driver driver;
    uint64_t now_ns;
};

static void open_port(struct port *port, enum stream_driver driver, uint64_t incarnation,
                      uint32_t unproven_max, uint64_t proof_ns)
{
    const struct stream_options options = {.driver = driver,
                                           .incarnation = incarnation,
                                           .net_devices = "lo",
                                           .peers_max = 4,
                                           .gets_max = 8,
                                           .reads_max = 8,
                                           .unproven_max = unproven_max,
                                           .proof_ns = proof_ns};
    struct error error = {""};
    *port = (struct port){.driver = driver, .now_ns = START_NS};
    cr_assert_eq(stream_transport_open(&options, &port->transport, &error), STATUS_OK, "%s",
                 error.text);
    port->transport->ops->address(port->transport, &port->address);
    port->transport->ops->progress(port->transport, port->now_ns);
}

static void close_port(struct port *port)
{
    port->transport->ops->close(port->transport);
}

static struct port_figures figures_of(const struct port *port)
{
    struct port_figures figures;
    port_counts_read(&port->transport->port, &figures);
    return figures;
}

static uint64_t refused_by_all(const struct port *port)
{
    uint64_t sum = 0;
    for (int i = 0; i < PORT_REFUSALS; i++)
        sum += figures_of(port).refused[i];
    return sum;
}

static void go_round(struct port *port)
{
    port->transport->ops->progress(port->transport, port->now_ns);
}

static int dial(const struct port *port)
{
    struct sockaddr_storage place;
    socklen_t bytes;
    cr_assert(stream_address_place(port->driver, &port->address, 0, &place, &bytes));
    int fd = socket(place.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(connect(fd, (struct sockaddr *)&place, bytes), 0, "%m");
    return fd;
}

/* n silent ones, one after the other; each is taken in before the next comes. */
static void dial_all(struct port *port, int *fds_out, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint64_t taken = figures_of(port).n_unproven + refused_by_all(port);
        fds_out[i] = dial(port);
        port->now_ns++;
        for (uint32_t r = 0; figures_of(port).n_unproven + refused_by_all(port) == taken; r++) {
            go_round(port);
            cr_assert_lt(r, ROUNDS_MAX, "it is not taken in");
        }
    }
}

static bool is_closed(int fd)
{
    char byte;
    struct pollfd readable = {fd, POLLIN, 0};
    return poll(&readable, 1, 0) == 1 && recv(fd, &byte, 1, MSG_DONTWAIT) <= 0;
}

static void refuses(struct port *port, enum port_refusal why, uint64_t n)
{
    for (uint32_t r = 0; figures_of(port).refused[why] < n; r++) {
        go_round(port);
        cr_assert_lt(r, ROUNDS_MAX, "only %llu", (unsigned long long)figures_of(port).refused[why]);
    }
    cr_assert_eq(figures_of(port).refused[why], n);
    cr_assert_eq(refused_by_all(port), n, "for another reason, too");
}

static void keeps_bounds(enum stream_driver driver, uint32_t unproven_max, uint64_t proof_ns,
                         uint32_t expected_max, uint64_t expected_ns)
{
    enum { TOO_MANY = 5 };
    int fds[CLIENTS_MAX];
    struct port port;
    uint32_t n = expected_max + TOO_MANY;
    open_port(&port, driver, OWNER, unproven_max, proof_ns);
    dial_all(&port, fds, n);
    cr_assert_eq(figures_of(&port).n_unproven, expected_max);
    refuses(&port, PORT_UNPROVEN_LIMIT, TOO_MANY);
    for (uint32_t i = 0; i < n; i++)
        cr_assert_eq(is_closed(fds[i]), i < TOO_MANY, "%u: the oldest go", i);

    port.now_ns = START_NS + expected_ns; /* the oldest came a moment later */
    go_round(&port);
    cr_assert_eq(figures_of(&port).n_unproven, expected_max, "each still has time");
    port.now_ns += NS_PER_S;
    go_round(&port);
    cr_assert_eq(figures_of(&port).n_unproven, 0);
    cr_assert_eq(figures_of(&port).refused[PORT_PROOF_TIME], expected_max);
    cr_assert_eq(refused_by_all(&port), n);
    for (uint32_t i = 0; i < n; i++) {
        cr_assert(is_closed(fds[i]));
        close(fds[i]);
    }
    cr_assert_eq(figures_of(&port).bad_messages, 0, "nobody known has said anything");
    close_port(&port);
}

STREAMS(bounds_are_those_asked_for)
{
    keeps_bounds(driver, 3, 700 * NS_PER_MS, 3, 700 * NS_PER_MS);
    keeps_bounds(driver, 1, 9 * NS_PER_S, 1, 9 * NS_PER_S);
}

STREAMS(bounds_are_64_and_2_s_when_nobody_asks)
{
    keeps_bounds(driver, 0, 0, 64, 2 * NS_PER_S);
}

STREAMS(a_proof_that_fails_or_never_comes_is_counted_once)
{
    struct port port;
    uint8_t rubbish[600];
    const struct stream_frame hello = {.kind = FRAME_HELLO, .hello = {READER, 1}};
    memset(rubbish, 0x5a, sizeof rubbish);
    open_port(&port, driver, OWNER, 8, NS_PER_S);
    for (uint64_t i = 1; i <= 3; i++) {
        int fd = dial(&port);
        if (i == 1)
            cr_assert_eq(send(fd, rubbish, sizeof rubbish, 0), (ssize_t)sizeof rubbish);
        stream_frame_encode(&hello, rubbish);
        if (i == 2) /* of nobody who was admitted */
            cr_assert_eq(send(fd, rubbish, FRAME_HEAD_BYTES, 0), (ssize_t)FRAME_HEAD_BYTES);
        if (i == 2 && driver == STREAM_TLS) /* which waits for more of a record */
            cr_assert_eq(shutdown(fd, SHUT_WR), 0);
        if (i == 3)
            close(fd);
        refuses(&port, PORT_PROOF, i);
        if (i < 3)
            close(fd);
    }
    cr_assert_eq(figures_of(&port).n_unproven, 0);
    cr_assert_eq(figures_of(&port).bad_messages, 0);
    close_port(&port);
}

static void on_closed(void *arg)
{
    *(bool *)arg = true;
}

STREAMS(a_reader_that_proves_itself_is_proven_until_it_goes)
{
    struct port owner, reader;
    struct transport_peer *admitted, *peer;
    bool is_gone = false;
    open_port(&owner, driver, OWNER, 2, 0);
    open_port(&reader, driver, READER, 2, 0);
    reader.now_ns = clock_now_ns(); /* as its connection is made by that clock */
    cr_assert_eq(owner.transport->ops->admit(owner.transport, &reader.address, &admitted),
                 STATUS_OK);
    cr_assert_eq(reader.transport->ops->connect(reader.transport, &owner.address, &peer),
                 STATUS_OK);
    for (uint32_t r = 0; figures_of(&owner).n_proven == 0; r++) {
        go_round(&reader);
        go_round(&owner);
        cr_assert_lt(r, ROUNDS_MAX);
    }
    owner.now_ns += 60 * NS_PER_S;
    go_round(&owner);
    cr_assert_eq(figures_of(&owner).n_proven, 1, "its proof was in time");
    cr_assert_eq(figures_of(&owner).n_unproven, 0);
    cr_assert_eq(figures_of(&reader).n_proven, 0, "nobody came to that one");
    reader.transport->ops->peer_close(peer, on_closed, &is_gone);
    for (uint32_t r = 0; figures_of(&owner).n_proven == 1; r++) {
        go_round(&reader);
        go_round(&owner);
        cr_assert_lt(r, ROUNDS_MAX);
    }
    cr_assert(is_gone);
    cr_assert_eq(refused_by_all(&owner), 0);
    cr_assert_eq(figures_of(&owner).bad_messages, 0);
    close_port(&reader);
    close_port(&owner);
}

/* By an owner that takes connections and says no word. */
Test(port_counts, a_connection_to_an_owner_has_as_long_to_be_open)
{
    struct port owner, reader;
    struct transport_peer *peer;
    bool is_gone = false;
    open_port(&owner, STREAM_TLS, OWNER, 0, 0);
    open_port(&reader, STREAM_TLS, READER, 0, 60 * NS_PER_S);
    owner.address.n_hosts = 1; /* else another of its places is tried */
    owner.address.worker_bytes = sizeof(uint16_t);
    cr_assert_eq(reader.transport->ops->connect(reader.transport, &owner.address, &peer),
                 STATUS_OK);
    reader.now_ns = clock_now_ns() + 30 * NS_PER_S; /* the owner makes no round */
    go_round(&reader);
    cr_assert_not(peer->is_failed);
    reader.now_ns += 60 * NS_PER_S;
    go_round(&reader);
    cr_assert(peer->is_failed);
    cr_assert_eq(refused_by_all(&reader), 0, "it came to nobody's port");
    reader.transport->ops->peer_close(peer, on_closed, &is_gone);
    go_round(&reader);
    cr_assert(is_gone);
    close_port(&reader);
    close_port(&owner);
}

STREAMS(who_finds_no_descriptor_is_counted)
{
    struct port port;
    struct rlimit before, now;
    open_port(&port, driver, OWNER, 8, NS_PER_S);
    int fd = dial(&port);
    int next = dup(fd);
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    now = (struct rlimit){(rlim_t)next, before.rlim_max};
    close(next);
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &now), 0);
    refuses(&port, PORT_RESOURCES, 1);
    cr_assert(is_closed(fd));
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    int again = dial(&port);
    port.now_ns += NS_PER_S;
    for (uint32_t r = 0; figures_of(&port).n_unproven == 0; r++) {
        go_round(&port);
        cr_assert_lt(r, ROUNDS_MAX, "it hears again");
    }
    close(again);
    close(fd);
    close_port(&port);
}

/* The folder keeps other users away; were it open, the port would. */
Test(port_counts, another_users_process_at_a_unix_socket_is_counted)
{
    struct port port;
    int how;
    if (geteuid() != 0)
        cr_skip("only root can be somebody else");
    open_port(&port, STREAM_UNIX, OWNER, 8, NS_PER_S);
    const struct stream_transport *stream = stream_of(port.transport);
    cr_assert_eq(chmod(stream->folder.path, 0711), 0);
    cr_assert_eq(chmod(stream->path.sun_path, 0777), 0);
    pid_t child = fork();
    if (child == 0) {
        if (setgroups(0, NULL) != 0 || setgid(NOBODY) != 0 || setuid(NOBODY) != 0)
            _exit(100);
        int fd = dial(&port);
        struct pollfd readable = {fd, POLLIN, 0};
        _exit(poll(&readable, 1, 20000) == 1 && is_closed(fd) ? 0 : 1);
    }
    do
        go_round(&port);
    while (waitpid(child, &how, WNOHANG) == 0);
    cr_assert(WIFEXITED(how) && WEXITSTATUS(how) == 0, "%#x", how);
    refuses(&port, PORT_PROOF, 1);
    cr_assert_eq(figures_of(&port).n_unproven, 0);
    close_port(&port);
}
