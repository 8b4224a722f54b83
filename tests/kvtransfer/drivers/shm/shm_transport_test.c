/* shm-read: whatever an owner says of its pool, or does to it, the reader gets its bytes or a refusal, and
 * never a signal. */
#include "base/clock.h"
#include "kvtransfer/drivers/shm/shm_transport.h"
#include "tests/kvtransfer/support/driver_pair.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N_BLOCKS = 8, BLOCK_BYTES = 40960, OWNER = 2000 };

static const struct pair_options OPTIONS = {.driver = KV_SHM_READ,
                                            .block_bytes = BLOCK_BYTES,
                                            .n_blocks = N_BLOCKS,
                                            .window_max = 32,
                                            .quiet_limit_ns = 200 * NS_PER_MS,
                                            .owner_incarnation = OWNER};

/* The owner's descriptor, as its key tells it. */
static void path_of_pool(const struct pair *pair, char path_out[64])
{
    uint32_t key[2];
    cr_assert_eq(pair->owner.address.pool_key_bytes, sizeof key);
    memcpy(key, pair->owner.address.pool_key, sizeof key);
    cr_assert_eq(key[0], (uint32_t)pair->owner.pid);
    snprintf(path_out, 64, "/proc/%u/fd/%u", key[0], key[1]);
}

Test(shm_transport, a_block_beyond_the_pool_is_refused_and_no_address_counts)
{
    static const uint32_t BEYOND[] = {N_BLOCKS, N_BLOCKS + 1, 1u << 20, UINT32_MAX};
    static const uint64_t BASES[] = {0, 8, UINT64_MAX - 4096, 0x7fffffffffffull};
    struct pair pair;
    pair_start(&pair, &OPTIONS);
    struct transport_address address = pair.owner.address;
    for (size_t i = 0; i < sizeof BEYOND / sizeof *BEYOND; i++) {
        cr_expect_eq(reader_read_block(&pair.reader, &address, BEYOND[i]), STATUS_NOT_HELD, "%u",
                     BEYOND[i]);
        address.pool_base = BASES[i];
        cr_expect_eq(reader_read_block(&pair.reader, &address, N_BLOCKS - 1), STATUS_OK);
    }
    pair_stop(&pair);
}

Test(shm_transport, a_pool_that_gets_shorter_before_or_while_it_is_read_is_refused)
{
    char path[64];
    struct pair pair;
    pair_start(&pair, &OPTIONS);
    path_of_pool(&pair, path);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    cr_assert_geq(fd, 0);

    struct transfer_id id = transfer_of(1 << 20);
    cr_assert_eq(kv_receiver_open(pair.reader.receiver, &id, &pair.owner.address, NULL), STATUS_OK);
    reader_fetch(&pair.reader, &id, 0, 1, 7, 0, NULL);
    reader_wait_arrived(&pair.reader, 1); /* so it is open, and was long enough */
    cr_assert_eq(ftruncate(fd, 4 * BLOCK_BYTES + 5000), 0);
    reader_fetch(&pair.reader, &id, 1, 1, 4, 1, NULL); /* ends within */
    cr_expect_eq(reader_wait(&pair.reader, KV_FAILED), STATUS_NOT_HELD);
    kv_receiver_close(pair.reader.receiver, &id);
    reader_wait(&pair.reader, KV_QUIET);
    kv_receiver_drop_peer(pair.reader.receiver, OWNER);

    cr_expect_eq(reader_read_block(&pair.reader, &pair.owner.address, 4), STATUS_NOT_HELD);
    cr_expect_eq(reader_read_block(&pair.reader, &pair.owner.address, 3), STATUS_OK);
    cr_assert_eq(ftruncate(fd, 0), 0);
    cr_expect_eq(reader_read_block(&pair.reader, &pair.owner.address, 0), STATUS_NOT_HELD);
    close(fd);
    pair_stop(&pair);
}

/* An ordinary file, a pipe that would block who opens it, a folder, other memory. */
Test(shm_transport, a_key_that_leads_to_anything_but_that_lifes_pool_is_refused)
{
    char fifo[] = "/tmp/kvferry-fifo-XXXXXX";
    struct pair pair;
    pair_start(&pair, &OPTIONS);
    cr_assert_not_null(mkdtemp(fifo));
    cr_assert_eq(rmdir(fifo), 0);
    cr_assert_eq(mkfifo(fifo, 0600), 0);
    const int fds[] = {open("/proc/self/exe", O_RDONLY | O_CLOEXEC),
                       open(fifo, O_RDWR | O_CLOEXEC),
                       open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC),
                       memfd_create("other", MFD_CLOEXEC),
                       memfd_create("kvferry-00000000000007d1", MFD_CLOEXEC), /* the next life's */
                       -1};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
        struct transport_address address = pair.owner.address;
        const uint32_t key[2] = {(uint32_t)getpid(), (uint32_t)fds[i]};
        memcpy(address.pool_key, key, sizeof key);
        cr_expect_eq(reader_read_block(&pair.reader, &address, 0), STATUS_PEER_LOST, "case %zu", i);
        if (fds[i] >= 0)
            close(fds[i]);
    }
    struct transport_address nobody = pair.owner.address;
    memset(nobody.pool_key, 0xff, nobody.pool_key_bytes);
    cr_expect_eq(reader_read_block(&pair.reader, &nobody, 0), STATUS_PEER_LOST);
    unlink(fifo);
    cr_expect_eq(reader_read_block(&pair.reader, &pair.owner.address, 0), STATUS_OK);
    pair_stop(&pair);
}

Test(shm_transport, what_is_no_address_of_it_is_refused)
{
    struct transport *transport;
    struct transport_peer *peer;
    const struct shm_options options = {.local = {.incarnation = 1, .peers_max = 1, .gets_max = 1}};
    cr_assert_eq(shm_transport_open(&options, &transport, NULL), STATUS_OK);
    struct transport_address address = {.incarnation = 2};
    for (uint32_t n = 0; n <= sizeof address.pool_key; n++) {
        address.pool_key_bytes = n;
        cr_expect_eq(transport->ops->connect(transport, &address, &peer),
                     n == 8 ? STATUS_PEER_LOST : STATUS_CORRUPT, "%u bytes", n);
    }
    address.pool_key_bytes = 8;
    address.worker_bytes = 100;
    cr_expect_eq(transport->ops->connect(transport, &address, &peer), STATUS_CORRUPT);
    transport->ops->close(transport);
}
