/* Nobody but a described worker's host, and there nobody but this user, gets a byte to UCX's port; whom
 * that stops, and what it leaves, is seen from real processes. */
#include "kvtransfer/transport/accept_gate.h"
#include "kvtransfer/transport/data_port.h"
#include "kvtransfer/transport/socket_owner.h"
#include "tests/kvtransfer/support/driver_pair.h"
#include "tests/kvtransfer/support/stranger.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <grp.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N_BLOCKS = 4, BLOCK_BYTES = 40960, NOBODY = 65534 };

/* "Magic", then a message of type 0 and 4 GiB: UCX 1.13.1 aborts when it has read them. */
static const uint8_t KILLER[13] = {0x78, 0x56, 0x34, 0x12, 0xbe, 0xba, 0xfe,
                                   0xca, 0,    0xff, 0xff, 0xff, 0xff};

static const struct pair_options OPTIONS = {.driver = KV_AM_TCP,
                                            .block_bytes = BLOCK_BYTES,
                                            .n_blocks = N_BLOCKS,
                                            .window_max = 8,
                                            .quiet_limit_ns = 1000000000,
                                            .owner_incarnation = 2000};

static void transfer(struct pair *pair, uint64_t number)
{
    struct transfer_id id = transfer_of(number);
    owner_open(&pair->owner, &id, pair->reader.address.incarnation);
    owner_publish(&pair->owner, &id, 0, N_BLOCKS, 0);
    cr_assert_eq(kv_receiver_open(pair->reader.receiver, &id, &pair->owner.address, NULL),
                 STATUS_OK);
    reader_fetch(&pair->reader, &id, 0, N_BLOCKS, 0, 0, NULL);
    reader_wait_arrived(&pair->reader, N_BLOCKS);
    reader_check_block(&pair->reader, N_BLOCKS - 1, N_BLOCKS - 1);
    kv_receiver_close(pair->reader.receiver, &id);
    reader_wait(&pair->reader, KV_QUIET);
    owner_close(&pair->owner, &id);
}

/* The number of connections that were not closed. */
static int send_killers(const char *from, uint16_t port, int n, bool is_in_haste)
{
    int n_open = 0;
    for (int i = 0; i < n; i++) {
        int fd = stranger_connect(from, port);
        if (fd < 0)
            continue; /* closed so soon */
        if (is_in_haste)
            (void)!send(fd, KILLER, sizeof KILLER, MSG_NOSIGNAL);
        else
            n_open += !stranger_is_closed(fd, KILLER, sizeof KILLER);
        close(fd);
    }
    return n_open;
}

/* In a process of another user; forked before UCX is used, it waits for the port. */
static pid_t start_other_user(int *fd_out)
{
    int fds[2];
    uint16_t port = 0;
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    pid_t child = fork();
    if (child == 0) {
        close(fds[0]);
        if (setgroups(0, NULL) != 0 || setgid(NOBODY) != 0 || setuid(NOBODY) != 0 ||
            prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 ||
            recv(fds[1], &port, sizeof port, MSG_WAITALL) != (ssize_t)sizeof port)
            _exit(100);
        int n_open = send_killers("127.0.0.1", port, 20, false);
        send_killers("127.0.0.1", port, 50, true);
        _exit(n_open);
    }
    close(fds[1]);
    *fd_out = fds[0];
    return child;
}

Test(accept_gate, strangers_get_no_byte_to_ucx_and_the_worker_serves)
{
    struct pair pair = {.options = OPTIONS};
    uint16_t port = 0;
    int fd = -1, how = 0;
    bool can_change_user = geteuid() == 0;
    owner_start(&pair.owner, &OPTIONS);
    pid_t other = can_change_user ? start_other_user(&fd) : 0;
    reader_start(&pair.reader, &OPTIONS, 1000);
    cr_assert_eq(stranger_find_ports(pair.owner.pid, &port, 1), 1);

    cr_assert_eq(send_killers("127.0.0.1", port, 10, false), 0, "nobody was described yet");
    owner_admit(&pair.owner, &pair.reader.address);
    transfer(&pair, 1);
    cr_assert_eq(send_killers("127.0.0.2", port, 10, false), 0, "nobody described is there");
    send_killers("127.0.0.2", port, 50, true);
    if (can_change_user) {
        cr_assert_eq(send(fd, &port, sizeof port, 0), (ssize_t)sizeof port);
        cr_assert_eq(waitpid(other, &how, 0), other);
        cr_assert(WIFEXITED(how) && WEXITSTATUS(how) == 0, "%#x: connections of another user", how);
        close(fd);
    }
    struct port_figures figures = owner_port(&pair.owner);
    cr_assert_geq(figures.refused[PORT_STRANGER], 10 + 10 + (can_change_user ? 20 : 0));
    cr_assert_eq(figures.bad_messages, 0);
    transfer(&pair, 2);
    kv_receiver_drop_peer(pair.reader.receiver, OPTIONS.owner_incarnation);
    transfer(&pair, 3); /* by a new connection */
    pair_stop(&pair);
}

/* ---- what it is made of ---- */

static void sockets_connect(int fds_out[2], struct sockaddr_storage ends_out[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t bytes = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int listening = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert_eq(bind(listening, (struct sockaddr *)&address, bytes), 0);
    cr_assert_eq(listen(listening, 1), 0);
    cr_assert_eq(getsockname(listening, (struct sockaddr *)&address, &bytes), 0);
    fds_out[0] = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert_eq(connect(fds_out[0], (struct sockaddr *)&address, bytes), 0);
    fds_out[1] = accept(listening, NULL, NULL);
    cr_assert_geq(fds_out[1], 0);
    for (int i = 0; i < 2; i++) {
        bytes = sizeof ends_out[i];
        cr_assert_eq(getsockname(fds_out[i], (struct sockaddr *)&ends_out[i], &bytes), 0);
    }
    close(listening);
}

Test(socket_owner, is_the_user_whose_process_holds_the_other_end)
{
    int fds[2];
    struct sockaddr_storage ends[2];
    sockets_connect(fds, ends);
    cr_assert(socket_owner_is(&ends[0], &ends[1], geteuid()));
    cr_assert_not(socket_owner_is(&ends[0], &ends[1], geteuid() + 1));
    close(fds[0]);
    cr_assert_not(socket_owner_is(&ends[0], &ends[1], geteuid()), "nobody holds it any more");
    cr_assert_not(socket_owner_is(&ends[0], &ends[1], 0), "what the kernel says of such");
    close(fds[1]);
}

Test(accept_gate, what_is_not_ucxs_is_taken_as_ever)
{
    int fds[2];
    struct sockaddr_storage ends[2];
    uint64_t refused = accept_gate_refused();
    sockets_connect(fds, ends);
    cr_assert_eq(accept_gate_refused(), refused);
    close(fds[0]);
    close(fds[1]);
}

/* A listener of its own behind the gate. */
static int gated_listener(const void *owner, uint16_t *port_out)
{
    const struct host_address loopback = {4, {127, 0, 0, 1}};
    const struct data_port any = {"lo", ""};
    int fd;
    accept_gate_begin(owner);
    cr_assert_eq(data_port_listen(&any, &loopback, &fd, port_out, NULL), STATUS_OK);
    accept_gate_end();
    return fd;
}

/* Of one connection from there: was it let in? */
static bool is_let_in(int listening, uint16_t port, const char *from)
{
    int fd = stranger_connect(from, port);
    int taken = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
    if (taken >= 0)
        close(taken);
    close(fd);
    return taken >= 0;
}

Test(accept_gate, a_worker_is_let_in_from_its_permit_to_its_revocation)
{
    const struct host_address hosts[] = {{4, {127, 0, 0, 2}}, {4, {127, 0, 0, 3}}};
    uint16_t port = 0;
    int listening = gated_listener(&port, &port);
    cr_assert_not(is_let_in(listening, port, "127.0.0.2"));
    accept_gate_permit(7, hosts, 2);
    accept_gate_permit(8, hosts, 1);
    cr_assert(is_let_in(listening, port, "127.0.0.2"));
    cr_assert(is_let_in(listening, port, "127.0.0.3"));
    cr_assert_not(is_let_in(listening, port, "127.0.0.4"));
    accept_gate_permit(7, hosts + 1, 1);
    accept_gate_revoke(8);
    cr_assert_not(is_let_in(listening, port, "127.0.0.2"));
    cr_assert(is_let_in(listening, port, "127.0.0.3"));
    accept_gate_revoke(7);
    cr_assert_not(is_let_in(listening, port, "127.0.0.3"));
    accept_gate_close(&port);
    cr_assert(is_let_in(listening, port, "127.0.0.4"), "the gate is gone");
    close(listening);
}
