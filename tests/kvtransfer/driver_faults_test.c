/* Peers that die, stop and come back: the survivor never aborts, says so in time and goes quiet. */
#include "base/clock.h"
#include "tests/kvtransfer/support/driver_pair.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N_BLOCKS = 64 };

static struct pair_options options_of(enum kv_driver driver)
{
    return (struct pair_options){.driver = driver,
                                 .block_bytes = 1 << 20,
                                 .n_blocks = N_BLOCKS,
                                 .window_max = 32,
                                 .quiet_limit_ns = 200 * NS_PER_MS,
                                 .owner_incarnation = 2000};
}

static void open_and_publish(struct pair *pair, const struct transfer_id *id)
{
    owner_open(&pair->owner, id, pair->reader.address.incarnation);
    owner_publish(&pair->owner, id, 0, N_BLOCKS, 0);
    cr_assert_eq(kv_receiver_open(pair->reader.receiver, id, &pair->owner.address, NULL),
                 STATUS_OK);
}

static void close_reader(struct pair *pair, const struct transfer_id *id)
{
    kv_receiver_close(pair->reader.receiver, id);
    cr_assert_eq(reader_wait(&pair->reader, KV_QUIET), STATUS_OK);
}

/* A whole transfer that must succeed. */
static void transfer_all(struct pair *pair, uint64_t number)
{
    struct transfer_id id = transfer_of(number);
    open_and_publish(pair, &id);
    reader_fetch(&pair->reader, &id, 0, N_BLOCKS, 0, 0, NULL);
    reader_wait_arrived(&pair->reader, N_BLOCKS);
    reader_check_block(&pair->reader, N_BLOCKS - 1, N_BLOCKS - 1);
    close_reader(pair, &id);
    owner_close(&pair->owner, &id);
}

/* The transfer thread sees the drop before the transfer, whenever it looks. */
ALL_DRIVERS(driver_faults, what_is_opened_after_a_drop_is_not_dropped)
{
    struct pair pair;
    struct pair_options options = options_of(driver);
    options.block_bytes = 4096;
    pair_start(&pair, &options);
    for (uint64_t number = 1; number <= 60; number++) {
        transfer_all(&pair, number);
        kv_receiver_drop_peer(pair.reader.receiver, options.owner_incarnation);
    }
    pair_stop(&pair);
}

HEARING_DRIVERS(driver_faults, the_owner_is_killed_before_the_first_pull)
{
    struct pair pair;
    struct pair_options options = options_of(driver);
    pair_start(&pair, &options);
    struct transfer_id id = transfer_of(1);
    open_and_publish(&pair, &id);
    owner_kill(&pair.owner, SIGKILL);
    reader_fetch(&pair.reader, &id, 0, N_BLOCKS, 0, 0, NULL);
    cr_assert_eq(reader_wait(&pair.reader, KV_FAILED), STATUS_PEER_LOST);
    close_reader(&pair, &id);
    pair_stop(&pair);
}

HEARING_DRIVERS(driver_faults, the_owner_is_killed_in_the_middle)
{
    struct pair pair;
    struct pair_options options = options_of(driver);
    pair_start(&pair, &options);
    struct transfer_id id = transfer_of(1);
    open_and_publish(&pair, &id);
    reader_fetch(&pair.reader, &id, 0, N_BLOCKS, 0, 0, NULL);
    reader_wait(&pair.reader, KV_ARRIVED);
    owner_kill(&pair.owner, SIGKILL);
    if (pair.reader.n_blocks < N_BLOCKS) {
        struct kv_receiver_event event = {0};
        uint64_t until_ns = clock_now_ns() + WAIT_NS;
        while (event.kind != KV_FAILED && event.n_blocks < N_BLOCKS) {
            kv_receiver_next_event(pair.reader.receiver, &event);
            cr_assert(clock_now_ns() < until_ns);
        }
        if (event.kind == KV_FAILED)
            cr_assert_eq(event.status, STATUS_PEER_LOST);
    }
    close_reader(&pair, &id);
    pair_stop(&pair);
}

HEARING_DRIVERS(driver_faults, the_owner_is_killed_afterwards_and_its_next_life_is_another_peer)
{
    struct pair pair;
    struct owner next_life;
    struct pair_options options = options_of(driver), next = options;
    next.owner_incarnation++;
    owner_start(&next_life, &next);
    pair_start(&pair, &options);
    transfer_all(&pair, 1);
    owner_kill(&pair.owner, SIGKILL);

    /* A transfer from the old life fails, whether or not its death was seen by then. */
    struct transfer_id id = transfer_of(2);
    cr_assert_eq(kv_receiver_open(pair.reader.receiver, &id, &pair.owner.address, NULL), STATUS_OK);
    reader_fetch(&pair.reader, &id, 0, 1, 0, 0, NULL);
    cr_assert_eq(reader_wait(&pair.reader, KV_FAILED), STATUS_PEER_LOST);
    close_reader(&pair, &id);
    kv_receiver_drop_peer(pair.reader.receiver, options.owner_incarnation);

    pair.owner = next_life;
    owner_admit(&pair.owner, &pair.reader.address);
    transfer_all(&pair, 3);
    pair_stop(&pair);
}

/* After a stop longer than the limit of a close, the reader has closed by force and is quiet; when
 * the owner goes on it neither dies nor stays deaf. */
HEARING_DRIVERS(driver_faults, the_owner_is_stopped_for_a_while)
{
    struct pair pair;
    struct pair_options options = options_of(driver);
    pair_start(&pair, &options);
    transfer_all(&pair, 1);
    for (uint64_t t = 2; t < 5; t++) {
        struct transfer_id id = transfer_of(t * 10);
        open_and_publish(&pair, &id);
        owner_kill(&pair.owner, SIGSTOP);
        reader_fetch(&pair.reader, &id, 0, N_BLOCKS, 0, 0, NULL);
        close_reader(&pair, &id);
        memset(block_pool_base(pair.reader.pool), 0x5a, (size_t)N_BLOCKS << 20);
        owner_kill(&pair.owner, SIGCONT);
        owner_close(&pair.owner, &id);
        transfer_all(&pair, t * 10 + 1);
    }
    pair_stop(&pair);
}

Test(driver_faults, a_dead_owner_of_shared_memory_is_left_to_commit_and_digests)
{
    struct pair pair;
    struct pair_options options = options_of(KV_SHM_READ);
    pair_start(&pair, &options);
    transfer_all(&pair, 1);
    struct transfer_id id = transfer_of(2), late = transfer_of(3);
    open_and_publish(&pair, &id);
    owner_kill(&pair.owner, SIGKILL);
    reader_fetch(&pair.reader, &id, 0, 1, 0, 0, NULL);
    reader_wait_arrived(&pair.reader, 1); /* that it arrives is what the header warns of */
    close_reader(&pair, &id);

    kv_receiver_drop_peer(pair.reader.receiver, options.owner_incarnation);
    cr_assert_eq(kv_receiver_open(pair.reader.receiver, &late, &pair.owner.address, NULL),
                 STATUS_OK);
    cr_assert_eq(reader_wait(&pair.reader, KV_FAILED), STATUS_PEER_LOST);
    close_reader(&pair, &late);
    pair_stop(&pair);
}

/* ---- the reader dies: it is a grandchild here, so that the test sees its owner survive ---- */

static void reader_that_never_ends(int fd, const struct pair_options *options,
                                   const struct transport_address *owner)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct reader reader;
    struct transfer_id id = transfer_of(1);
    char go;
    reader_start(&reader, options, 1000);
    if (write(fd, &reader.address, sizeof reader.address) < 0 || read(fd, &go, 1) != 1)
        _exit(1);
    if (kv_receiver_open(reader.receiver, &id, owner, NULL) != STATUS_OK)
        _exit(1);
    reader_fetch(&reader, &id, 0, N_BLOCKS, 0, 0, NULL);
    reader_wait(&reader, KV_ARRIVED);
    if (write(fd, &go, 1) < 0)
        _exit(1);
    for (;;)
        pause();
}

static void kill_a_reader_in_the_middle(enum kv_driver driver, int how)
{
    struct pair pair;
    struct pair_options options = options_of(driver);
    options.window_max = 200; /* more than the sockets between them hold */
    struct transfer_id id = transfer_of(1);
    struct transport_address address;
    int fds[2];
    char go = 'g';
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    owner_start(&pair.owner, &options);
    pid_t victim = fork();
    if (victim == 0)
        reader_that_never_ends(fds[1], &options, &pair.owner.address);

    cr_assert_eq(recv(fds[0], &address, sizeof address, MSG_WAITALL), (ssize_t)sizeof address);
    owner_admit(&pair.owner, &address);
    owner_open(&pair.owner, &id, address.incarnation);
    owner_publish(&pair.owner, &id, 0, N_BLOCKS, 0);
    cr_assert_eq(write(fds[0], &go, 1), 1);
    cr_assert_eq(read(fds[0], &go, 1), 1);
    kill(victim, how);
    if (how == SIGKILL)
        waitpid(victim, NULL, 0);

    uint64_t sent = owner_close(&pair.owner, &id); /* returns: it has gone quiet */
    cr_assert_leq(sent, (uint64_t)N_BLOCKS << 20);
    if (how != SIGKILL) {
        kill(victim, SIGKILL);
        waitpid(victim, NULL, 0);
    }

    reader_start(&pair.reader, &options, 1001);
    owner_admit(&pair.owner, &pair.reader.address);
    transfer_all(&pair, 2);
    pair_stop(&pair);
    close(fds[0]);
    close(fds[1]);
}

HEARING_DRIVERS(driver_faults, the_reader_is_killed_in_the_middle_and_the_owner_serves_the_next)
{
    kill_a_reader_in_the_middle(driver, SIGKILL);
}

HEARING_DRIVERS(driver_faults, a_stopped_reader_is_cut_off_and_the_owner_serves_the_next)
{
    kill_a_reader_in_the_middle(driver, SIGSTOP);
}

HEARING_DRIVERS(driver_faults, more_readers_than_the_owner_has_room_for_take_turns)
{
    struct pair pair;
    struct pair_options options = options_of(driver);
    struct transport_address others;
    pair_start(&pair, &options);
    others = pair.reader.address;
    for (uint64_t round = 0; round < 3; round++) {
        transfer_all(&pair, round);
        /* Four more lives are admitted; the reader's place is given away. */
        for (uint64_t i = 0; i < 4; i++) {
            others.incarnation = 5000 + round * 10 + i;
            owner_admit(&pair.owner, &others);
        }
        owner_admit(&pair.owner, &pair.reader.address);
    }
    pair_stop(&pair);
}
