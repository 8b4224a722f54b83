/* What a reader has asked for waits in the owner's queue. When the reader dies with most of it unsent,
 * every read that was begun ends, the queue is emptied, and every place in it serves the next reader.
 * What it asks for beyond what it was told is refused. */
#include "base/clock.h"
#include "kvtransfer/drivers/stream/stream_state.h"
#include "kvtransfer/drivers/ucx/ucx_process.h"
#include "kvtransfer/drivers/ucx/ucx_state.h"
#include "kvtransfer/drivers/ucx/ucx_transport.h"
#include "tests/kvtransfer/support/drivers.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    OWNER = 2000, /* incarnations */
    FIRST_READER = 1000,
    SECOND_READER = 1001,
    READS_MAX = 4 * GET_PIECES_MAX, /* 64 MiB: more than the sockets between them hold */
};
#define LIMIT_NS (20 * NS_PER_S)

static const struct transfer_id TRANSFER = {"a transfer's id"};
static uint8_t bytes[PIECE_BYTES_MAX];

static struct transport *open_transport(enum kv_driver driver, uint64_t incarnation,
                                        uint32_t pieces_max)
{
    const struct driver_options options = {.driver = driver,
                                           .incarnation = incarnation,
                                           .net_devices = "lo",
                                           .peers_max = 4,
                                           .gets_max = READS_MAX,
                                           .reads_max = READS_MAX,
                                           .pieces_max = pieces_max};
    struct transport *transport;
    struct error error = {""};
    ucx_process_init();
    cr_assert_eq(driver_open(&options, &transport, &error), STATUS_OK, "%s", error.text);
    return transport;
}

/* ---- a reader: a child, forked before any call of UCX here ---- */

struct child {
    pid_t pid;
    int socket;
    struct transport_address address;
};

struct gets {
    uint32_t n_got, n_refused;
};

static void on_got(void *arg, const struct piece *piece, enum status status)
{
    struct gets *gets = arg;
    (void)piece;
    if (status != STATUS_OK && status != STATUS_QUEUE_FULL)
        _exit(2);
    ++*(status == STATUS_OK ? &gets->n_got : &gets->n_refused);
}

static void exchange(int fd, bool out, void *data, size_t n)
{
    ssize_t done = out ? send(fd, data, n, MSG_NOSIGNAL) : recv(fd, data, n, MSG_WAITALL);
    if (done != (ssize_t)n)
        _exit(3);
}

/* Asks for READS_MAX pieces, and waits for no more than n_wanted of them before it says how they ended
 * and stops. */
static void run_reader(enum kv_driver driver, int fd, uint64_t incarnation, uint32_t n_wanted)
{
    struct transport_address address;
    struct transport_peer *owner;
    struct piece pieces[GET_PIECES_MAX];
    struct gets gets = {0};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct transport *transport = open_transport(driver, incarnation, 0);
    transport->ops->address(transport, &address);
    exchange(fd, true, &address, sizeof address);
    exchange(fd, false, &address, sizeof address);
    if (transport->ops->connect(transport, &address, &owner) != STATUS_OK)
        _exit(4);
    for (uint32_t i = 0; i < GET_PIECES_MAX; i++)
        pieces[i] = (struct piece){.block_index = i, .bytes = PIECE_BYTES_MAX, .target = bytes};
    for (uint32_t i = 0; i < READS_MAX / GET_PIECES_MAX; i++)
        if (transport->ops->get(owner, &TRANSFER, pieces, GET_PIECES_MAX, on_got, &gets) !=
            STATUS_OK)
            _exit(5);
    while (gets.n_got + gets.n_refused < n_wanted)
        transport->ops->progress(transport, clock_now_ns());
    exchange(fd, true, &gets, sizeof gets);
    for (;;)
        pause();
}

static struct child reader_start(enum kv_driver driver, uint64_t incarnation, uint32_t n_wanted)
{
    int fds[2];
    struct child child;
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    child.pid = fork();
    cr_assert_geq(child.pid, 0);
    if (child.pid == 0)
        run_reader(driver, fds[1], incarnation, n_wanted);
    close(fds[1]);
    child.socket = fds[0];
    cr_assert_eq(recv(child.socket, &child.address, sizeof child.address, MSG_WAITALL),
                 (ssize_t)sizeof child.address);
    return child;
}

static void reader_kill(struct child *child)
{
    cr_assert_eq(kill(child->pid, SIGKILL), 0);
    cr_assert_eq(waitpid(child->pid, NULL, 0), child->pid);
    close(child->socket);
}

/* ---- the owner: this process ---- */

struct reads {
    uint32_t n_begun, n_sent, n_lost;
};

static enum status begin_read(void *arg, struct block_read *read)
{
    struct reads *reads = arg;
    reads->n_begun++;
    read->view = bytes;
    return STATUS_OK;
}

static void end_read(void *arg, struct block_read *read, enum status status)
{
    struct reads *reads = arg;
    read->view = NULL;
    ++*(status == STATUS_OK ? &reads->n_sent : &reads->n_lost);
}

/* Of a device that copies late: not before copies_are_done. */
static bool copies_are_done;

static enum status begin_late_read(void *arg, struct block_read *read)
{
    struct reads *reads = arg;
    reads->n_begun += !read->view;
    read->view = bytes;
    return copies_are_done ? STATUS_OK : STATUS_NOT_READY;
}

static void on_closed(void *arg)
{
    *(bool *)arg = true;
}

/* Asked for and not yet begun. */
static bool has_queued(struct transport *transport, enum kv_driver driver)
{
    if (driver == KV_AM_TCP)
        return ucx_of(transport)->first_asked != NULL;
    const struct stream_transport *stream = stream_of(transport);
    for (uint32_t i = 0; i < stream->connections_max; i++)
        if (stream->connections[i].state == CONNECTION_OPEN && stream->connections[i].asked.first)
            return true;
    return false;
}

static struct transport_peer *admit(struct transport *transport, struct child *reader)
{
    struct transport_address address;
    struct transport_peer *peer;
    cr_assert_eq(transport->ops->admit(transport, &reader->address, &peer), STATUS_OK);
    transport->ops->address(transport, &address);
    cr_assert_eq(send(reader->socket, &address, sizeof address, 0), (ssize_t)sizeof address);
    return peer;
}

/* Until the reader has what it wanted. */
static struct gets serve(struct transport *transport, const struct child *reader)
{
    struct gets gets;
    uint64_t until_ns = clock_now_ns() + LIMIT_NS;
    while (recv(reader->socket, &gets, sizeof gets, MSG_DONTWAIT) != (ssize_t)sizeof gets) {
        transport->ops->progress(transport, clock_now_ns());
        cr_assert_lt(clock_now_ns(), until_ns, "the reader waits for pieces");
    }
    return gets;
}

MESSAGE_DRIVERS(driver_queue, a_reader_that_dies_leaves_nothing_queued_and_every_place_free)
{
    struct reads reads = {0};
    bool is_closed = false;
    struct child first = reader_start(driver, FIRST_READER, 1);
    struct child second = reader_start(driver, SECOND_READER, READS_MAX);
    struct transport *transport = open_transport(driver, OWNER, 0);
    transport->source = (struct transport_source){
        .arg = &reads, .read_begin = begin_read, .read_end = end_read};

    struct transport_peer *peer = admit(transport, &first);
    serve(transport, &first);
    cr_assert(has_queued(transport, driver), "all was sent before the death");
    uint32_t n_begun = reads.n_begun;
    cr_assert_lt(n_begun, READS_MAX);
    reader_kill(&first);
    uint64_t until_ns = clock_now_ns() + LIMIT_NS;
    while (has_queued(transport, driver) || reads.n_sent + reads.n_lost < reads.n_begun) {
        transport->ops->progress(transport, clock_now_ns());
        cr_assert_lt(clock_now_ns(), until_ns, "the death is not seen");
    }
    cr_assert_not(has_queued(transport, driver), "what a dead reader asked for is still queued");
    cr_assert_gt(reads.n_lost, 0);
    cr_assert_lt(reads.n_begun, READS_MAX, "pieces were read for nobody");

    transport->ops->peer_close(peer, on_closed, &is_closed);
    while (!is_closed) {
        transport->ops->progress(transport, clock_now_ns());
        cr_assert_lt(clock_now_ns(), until_ns, "the dead reader is not let go");
    }
    cr_assert_eq(driver == KV_AM_TCP ? ucx_of(transport)->peers.n : stream_of(transport)->peers.n,
                 0);

    n_begun = reads.n_begun;
    admit(transport, &second);
    serve(transport, &second);
    cr_assert_eq(reads.n_begun - n_begun, READS_MAX, "a place in the queue was lost");
    cr_assert_eq(transport->full_pieces, 0);
    cr_assert_eq(transport->port.bad_messages, 0);
    reader_kill(&second);
    transport->ops->close(transport);
    cr_assert_eq(reads.n_sent + reads.n_lost, reads.n_begun);
}

/* They would have all the views that the device has for every reader. */
MESSAGE_DRIVERS(driver_queue, few_pieces_of_a_reader_are_copied_out_of_the_device_at_a_time)
{
    enum { READING_MAX = 4, ROUNDS = 2000 };
    struct reads reads = {0};
    struct child reader = reader_start(driver, FIRST_READER, READS_MAX);
    struct transport *transport = open_transport(driver, OWNER, 0);
    transport->source = (struct transport_source){
        .arg = &reads, .read_begin = begin_late_read, .read_end = end_read};
    admit(transport, &reader);
    const uint64_t until_ns = clock_now_ns() + LIMIT_NS;
    while (!has_queued(transport, driver) || reads.n_begun == 0) {
        transport->ops->progress(transport, clock_now_ns());
        cr_assert_lt(clock_now_ns(), until_ns, "nothing was asked for");
    }
    for (int i = 0; i < ROUNDS; i++)
        transport->ops->progress(transport, clock_now_ns());
    cr_expect_leq(reads.n_begun, READING_MAX);
    copies_are_done = true;
    serve(transport, &reader);
    cr_assert_eq(reads.n_begun, READS_MAX);
    reader_kill(&reader);
    transport->ops->close(transport);
    cr_assert_eq(reads.n_sent + reads.n_lost, reads.n_begun);
}

MESSAGE_DRIVERS(driver_queue, what_a_reader_asks_for_beyond_what_it_was_told_is_refused)
{
    /* am-tcp: those are queued at once, two more may be under way, and a pull's worth can be refused at
     * once, the others are dropped. A stream is not read while there is no room. */
    enum { TOLD = 8, ENDS = TOLD + 2 + GET_PIECES_MAX };
    struct reads reads = {0};
    struct child reader = reader_start(driver, FIRST_READER,
                                       driver == KV_AM_TCP ? ENDS : READS_MAX);
    struct transport *transport = open_transport(driver, OWNER, TOLD);
    transport->source = (struct transport_source){
        .arg = &reads, .read_begin = begin_read, .read_end = end_read};
    admit(transport, &reader);
    struct gets gets = serve(transport, &reader);
    cr_assert_geq(gets.n_got, TOLD);
    cr_assert_gt(gets.n_refused, 0);
    cr_assert_geq(transport->full_pieces, gets.n_refused);
    cr_assert_eq(transport->port.bad_messages + reads.n_begun + transport->full_pieces, READS_MAX);
    cr_assert_eq(transport->port.bad_messages, 0, "what was refused was well formed");
    reader_kill(&reader);
    transport->ops->close(transport);
}
