/* Two real processes, every driver: every block arrives byte for byte or not at all. */
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/random.h"
#include "kvtransfer/drivers/ucx/ucx_options.h"
#include "tests/device/fault_device.h"
#include "tests/kvtransfer/support/driver_pair.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct pair_options options_of(enum kv_driver driver, size_t block_bytes, uint32_t n_blocks)
{
    return (struct pair_options){.driver = driver,
                                 .block_bytes = block_bytes,
                                 .n_blocks = n_blocks,
                                 .window_max = 32,
                                 .quiet_limit_ns = NS_PER_S,
                                 .owner_incarnation = 2000};
}

static void open_both(struct pair *pair, const struct transfer_id *id)
{
    owner_open(&pair->owner, id, pair->reader.address.incarnation);
    cr_assert_eq(kv_receiver_open(pair->reader.receiver, id, &pair->owner.address, NULL),
                 STATUS_OK);
}

static uint64_t close_both(struct pair *pair, const struct transfer_id *id)
{
    kv_receiver_close(pair->reader.receiver, id);
    reader_wait(&pair->reader, KV_QUIET);
    return owner_close(&pair->owner, id);
}

/* A test of its own for each size: no fork after UCX was used (U29). */
static void transfer_blocks_of(enum kv_driver driver, size_t block_bytes)
{
    struct random random;
    random_init(&random, block_bytes);
    struct pair pair;
    struct pair_options options = options_of(driver, block_bytes, 24);
    pair_start(&pair, &options);
    uint64_t expected = 0;
    for (uint64_t t = 0; t < 6; t++) {
        struct transfer_id id = transfer_of(t);
        uint32_t n = 1 + (uint32_t)random_below(&random, 12);
        uint32_t remote = (uint32_t)random_below(&random, 12);
        uint32_t local = (uint32_t)random_below(&random, 12);
        open_both(&pair, &id);
        owner_publish(&pair.owner, &id, 3, n, remote);
        reader_fetch(&pair.reader, &id, 3, n, remote, local, NULL);
        reader_wait_arrived(&pair.reader, n);
        for (uint32_t i = 0; i < n; i++)
            reader_check_block(&pair.reader, local + i, remote + i);
        expected += n * block_bytes;
        uint64_t sent = close_both(&pair, &id);
        bool is_asked = driver != KV_SHM_READ && driver != KV_CUDA_IPC;
        cr_assert_eq(sent, is_asked ? n * block_bytes : 0);
    }
    cr_expect_eq(atomic_load(&pair.reader.transport->joined_pieces), 0,
                 "a piece is one segment of UCX");
    cr_assert_eq(kv_receiver_bytes_received(pair.reader.receiver), expected);
    pair_stop(&pair);
}

ALL_DRIVERS(driver_transfer, blocks_of_64_bytes)
{
    transfer_blocks_of(driver, 64);
}

ALL_DRIVERS(driver_transfer, blocks_of_1000_bytes)
{
    transfer_blocks_of(driver, 1000);
}

ALL_DRIVERS(driver_transfer, blocks_of_the_demo_model)
{
    transfer_blocks_of(driver, 40960);
}

ALL_DRIVERS(driver_transfer, blocks_of_one_piece)
{
    transfer_blocks_of(driver, PIECE_BYTES_MAX);
}

MESSAGE_DRIVERS(driver_transfer, blocks_of_one_segment)
{
    transfer_blocks_of(driver, 64 << 10);
}

MESSAGE_DRIVERS(driver_transfer, blocks_of_the_longest_piece_over_ucx)
{
    transfer_blocks_of(driver, UCX_PIECE_BYTES);
}

ALL_DRIVERS(driver_transfer, blocks_of_one_piece_and_a_byte)
{
    transfer_blocks_of(driver, PIECE_BYTES_MAX + 1);
}

ALL_DRIVERS(driver_transfer, blocks_of_a_million_odd_bytes)
{
    transfer_blocks_of(driver, 1000003);
}

ALL_DRIVERS(driver_transfer, many_at_once_share_the_window)
{
    enum { N_TRANSFERS = 12, N_BLOCKS = 20 };
    struct pair pair;
    struct pair_options options = options_of(driver, 70000, N_TRANSFERS * N_BLOCKS);
    pair_start(&pair, &options);
    for (uint32_t t = 0; t < N_TRANSFERS; t++) {
        struct transfer_id id = transfer_of(t);
        open_both(&pair, &id);
        /* In two parts, the second published while the first is fetched. */
        owner_publish(&pair.owner, &id, 0, N_BLOCKS / 2, t * N_BLOCKS);
        reader_fetch(&pair.reader, &id, 0, N_BLOCKS / 2, t * N_BLOCKS, t * N_BLOCKS, NULL);
    }
    for (uint32_t t = 0; t < N_TRANSFERS; t++) {
        struct transfer_id id = transfer_of(t);
        uint32_t from = t * N_BLOCKS + N_BLOCKS / 2;
        owner_publish(&pair.owner, &id, N_BLOCKS / 2, N_BLOCKS / 2, from);
        reader_fetch(&pair.reader, &id, N_BLOCKS / 2, N_BLOCKS / 2, from, from, NULL);
    }
    for (uint32_t finished = 0; finished < N_TRANSFERS;) {
        cr_assert_eq(reader_wait(&pair.reader, KV_ARRIVED), STATUS_OK);
        finished += pair.reader.n_blocks == N_BLOCKS;
    }
    for (uint32_t i = 0; i < N_TRANSFERS * N_BLOCKS; i++)
        reader_check_block(&pair.reader, i, i);
    for (uint32_t t = 0; t < N_TRANSFERS; t++) {
        struct transfer_id id = transfer_of(t);
        close_both(&pair, &id);
    }
    pair_stop(&pair);
}

ALL_DRIVERS(driver_transfer, a_wrong_digest_discards_the_block)
{
    struct pair pair;
    struct pair_options options = options_of(driver, 300000, 4);
    pair_start(&pair, &options);
    uint8_t *block = malloc(options.block_bytes);
    uint32_t digests[2];
    for (uint32_t i = 0; i < 2; i++) {
        fill_block(block, options.block_bytes, i);
        digests[i] = crc32c(0, block, options.block_bytes);
    }
    free(block);

    struct transfer_id good = transfer_of(1), bad = transfer_of(2);
    open_both(&pair, &good);
    owner_publish(&pair.owner, &good, 0, 2, 0);
    reader_fetch(&pair.reader, &good, 0, 2, 0, 0, digests);
    reader_wait_arrived(&pair.reader, 2);
    close_both(&pair, &good);

    open_both(&pair, &bad);
    owner_publish(&pair.owner, &bad, 0, 2, 1);
    reader_fetch(&pair.reader, &bad, 0, 2, 1, 2, digests);
    cr_assert_eq(reader_wait(&pair.reader, KV_FAILED), STATUS_CORRUPT);
    close_both(&pair, &bad);
    pair_stop(&pair);
}

/* No piece is sent before its bytes are there, none is taken before they are in the pool. A pair a test: the
 * owner is forked, and UCX is open after the first. */
static void expect_same_bytes_late(enum kv_driver driver, uint64_t seed)
{
    struct pair pair;
    struct pair_options options = options_of(driver, 300000, 12);
    struct transfer_id id = transfer_of(1);
    options.device_seed = seed;
    pair_start(&pair, &options);
    open_both(&pair, &id);
    owner_publish(&pair.owner, &id, 0, 12, 0);
    reader_fetch(&pair.reader, &id, 0, 12, 0, 0, NULL);
    reader_wait_arrived(&pair.reader, 12);
    for (uint32_t i = 0; i < 12; i++)
        reader_check_block(&pair.reader, i, i);
    close_both(&pair, &id);
    pair_stop(&pair);
}

ALL_DRIVERS(driver_transfer, between_devices_that_copy_late_the_same_bytes_arrive)
{
    expect_same_bytes_late(driver, 1);
}

ALL_DRIVERS(driver_transfer, between_devices_that_copy_late_the_same_bytes_arrive_in_another_order)
{
    expect_same_bytes_late(driver, 2);
}

MESSAGE_DRIVERS(driver_transfer, a_reader_asks_for_no_more_at_a_time_than_the_owner_takes)
{
    struct pair pair;
    struct pair_options options = options_of(driver, 20000, 64);
    struct transfer_id id = transfer_of(1);
    options.reads_max = 3;
    pair_start(&pair, &options);
    open_both(&pair, &id);
    owner_publish(&pair.owner, &id, 0, 64, 0);
    reader_fetch(&pair.reader, &id, 0, 64, 0, 0, NULL);
    reader_wait_arrived(&pair.reader, 64);
    close_both(&pair, &id);
    cr_assert_eq(owner_bad_messages(&pair.owner), 0);
    pair_stop(&pair);
}

MESSAGE_DRIVERS(driver_transfer, what_is_not_published_for_this_reader_is_refused)
{
    struct pair pair;
    struct pair_options options = options_of(driver, 5000, 8);
    pair_start(&pair, &options);
    const uint64_t reader = pair.reader.address.incarnation;
    /* 0: never opened, 1: not published, 2: another block, 3: another reader's */
    for (uint64_t t = 0; t < 4; t++) {
        struct transfer_id id = transfer_of(t);
        if (t > 0)
            owner_open(&pair.owner, &id, t == 3 ? reader + 1 : reader);
        if (t > 0)
            owner_publish(&pair.owner, &id, 0, 1, t == 2 ? 6 : 5);
        cr_assert_eq(kv_receiver_open(pair.reader.receiver, &id, &pair.owner.address, NULL),
                     STATUS_OK);
        reader_fetch(&pair.reader, &id, t == 1 ? 1 : 0, 1, 5, 0, NULL);
        cr_assert_eq(reader_wait(&pair.reader, KV_FAILED), STATUS_NOT_HELD, "case %d", (int)t);
        kv_receiver_close(pair.reader.receiver, &id);
        reader_wait(&pair.reader, KV_QUIET);
        cr_assert_eq(pair.reader.bytes, 0);
        if (t > 0)
            cr_assert_eq(owner_close(&pair.owner, &id), 0);
    }
    pair_stop(&pair);
}

MESSAGE_DRIVERS(driver_transfer, another_incarnation_at_the_same_address_is_stale)
{
    struct pair pair;
    struct pair_options options = options_of(driver, 5000, 8);
    pair_start(&pair, &options);
    struct transfer_id id = transfer_of(1);
    struct transport_address old_life = pair.owner.address;
    old_life.incarnation--;
    owner_open(&pair.owner, &id, pair.reader.address.incarnation);
    owner_publish(&pair.owner, &id, 0, 1, 0);
    cr_assert_eq(kv_receiver_open(pair.reader.receiver, &id, &old_life, NULL), STATUS_OK);
    reader_fetch(&pair.reader, &id, 0, 1, 0, 0, NULL);
    cr_assert_eq(reader_wait(&pair.reader, KV_FAILED), STATUS_STALE_PEER);
    close_both(&pair, &id);
    pair_stop(&pair);
}

MESSAGE_DRIVERS(driver_transfer, a_reader_that_was_not_admitted_gets_no_answer)
{
    struct pair pair;
    struct pair_options options = options_of(driver, 5000, 8);
    options.quiet_limit_ns = 50 * NS_PER_MS;
    pair.options = options;
    owner_start(&pair.owner, &options);
    reader_start(&pair.reader, &options, 1000);
    struct transfer_id id = transfer_of(1);
    open_both(&pair, &id);
    owner_publish(&pair.owner, &id, 0, 1, 0);
    reader_fetch(&pair.reader, &id, 0, 1, 0, 0, NULL);
    for (uint64_t until_ns = clock_now_ns() + WAIT_NS; owner_bad_messages(&pair.owner) == 0;)
        cr_assert(clock_now_ns() < until_ns);
    close_both(&pair, &id);
    cr_assert_eq(kv_receiver_bytes_received(pair.reader.receiver), 0);
    pair_stop(&pair);
}

ALL_DRIVERS(driver_transfer, close_in_the_middle_then_quiet_and_no_write_after)
{
    struct pair pair;
    struct pair_options options = options_of(driver, 1 << 20, 48);
    pair_start(&pair, &options);
    for (uint64_t t = 0; t < 5; t++) {
        struct transfer_id id = transfer_of(t);
        open_both(&pair, &id);
        owner_publish(&pair.owner, &id, 0, 48, 0);
        reader_fetch(&pair.reader, &id, 0, 48, 0, 0, NULL);
        reader_wait(&pair.reader, KV_ARRIVED);
        kv_receiver_close(pair.reader.receiver, &id);
        reader_wait(&pair.reader, KV_QUIET);
        /* The blocks are ours again: what we write stays. */
        memset(block_pool_base(pair.reader.pool), 0x5a, 48 << 20);
        owner_close(&pair.owner, &id);
        for (size_t i = 0; i < 48u << 20; i += 4096)
            cr_assert_eq(block_pool_base(pair.reader.pool)[i], 0x5a);
    }
    pair_stop(&pair);
}

ALL_DRIVERS(driver_transfer, a_thousand_transfers_leave_no_descriptor_and_no_memory)
{
    struct pair pair;
    struct pair_options options = options_of(driver, 40960, 16);
    pair_start(&pair, &options);
    uint32_t descriptors[2] = {0}, owner_descriptors[2] = {0};
    uint64_t kib[2] = {0}, owner_kib[2] = {0};
    for (uint64_t t = 0; t < 1100; t++) {
        if (t == 100) {
            descriptors[0] = count_descriptors();
            kib[0] = resident_kib();
            owner_usage(&pair.owner, &owner_descriptors[0], &owner_kib[0]);
        }
        struct transfer_id id = transfer_of(t);
        open_both(&pair, &id);
        owner_publish(&pair.owner, &id, 0, 4, (uint32_t)(t % 12));
        reader_fetch(&pair.reader, &id, 0, 4, (uint32_t)(t % 12), 0, NULL);
        reader_wait_arrived(&pair.reader, 4);
        close_both(&pair, &id);
    }
    descriptors[1] = count_descriptors();
    kib[1] = resident_kib();
    owner_usage(&pair.owner, &owner_descriptors[1], &owner_kib[1]);
    cr_assert_eq(descriptors[1], descriptors[0]);
    cr_assert_eq(owner_descriptors[1], owner_descriptors[0]);
#ifdef KVFERRY_SANITIZED
    const uint64_t growth_kib = 1 << 20; /* the sanitizers keep what is freed */
#else
    const uint64_t growth_kib = 2048;
#endif
    cr_assert_lt(kib[1], kib[0] + growth_kib);
    cr_assert_lt(owner_kib[1], owner_kib[0] + growth_kib);
    cr_assert_eq(kv_receiver_bytes_received(pair.reader.receiver), 1100ull * 4 * 40960);
    pair_stop(&pair);
}

/* Progress between a wake and the wait: the wait ends all the same, or there is none. */
ALL_DRIVERS(driver_transfer, no_wake_is_lost_on_the_way_to_the_wait)
{
    struct transport *transport;
    struct error error = {""};
    struct device *device = fault_device_open(&(struct fault_options){.seed = 1, .steps_max = 3});
    const struct driver_options options = {.driver = driver,
                                           .incarnation = 1,
                                           .net_devices = "lo",
                                           .peers_max = 1,
                                           .gets_max = 1,
                                           .reads_max = 1,
                                           .device = device};
    cr_assert_eq(driver_open(&options, &transport, &error), STATUS_OK, "%s", error.text);
    while (transport->ops->progress(transport, clock_now_ns()) > 0)
        ;
    for (int i = 0; i < 100; i++) {
        uint64_t began_ns = clock_now_ns();
        transport->ops->wake(transport);
        if (transport->ops->progress(transport, began_ns) == 0)
            transport->ops->wait(transport, began_ns + WAIT_NS);
        cr_assert_lt(clock_now_ns(), began_ns + WAIT_NS);
    }
    transport->ops->close(transport);
    device_close(device);
}

/* Is the option that fixes UCX's data port one that UCX listens to? */
static void data_port_is_in_the_range(enum kv_driver driver)
{
    struct transport *transport;
    struct error error = {""};
    const struct driver_options options = {.driver = driver,
                                           .incarnation = 1,
                                           .net_devices = "lo",
                                           .port_range = "28000-28999",
                                           .peers_max = 1,
                                           .gets_max = 1,
                                           .reads_max = 1};
    cr_assert_eq(driver_open(&options, &transport, &error), STATUS_OK, "%s", error.text);
    char line[256];
    uint32_t n_in_range = 0;
    FILE *file = fopen("/proc/self/net/tcp", "r");
    while (fgets(line, sizeof line, file)) {
        unsigned port, state;
        if (sscanf(line, " %*d: %*8x:%x %*8x:%*x %x", &port, &state) == 2)
            n_in_range += state == 0x0a && port >= 28000 && port <= 28999;
    }
    fclose(file);
    cr_assert_geq(n_in_range, 1);
    transport->ops->close(transport);
}

Test(driver_transfer, the_data_port_is_in_the_range_that_was_asked_for)
{
    data_port_is_in_the_range(KV_AM_TCP);
    data_port_is_in_the_range(KV_TLS);
}

static void bad_options_are_refused(enum kv_driver driver)
{
    struct transport *transport = NULL;
    struct error error = {""};
    struct driver_options options = {.driver = driver, .peers_max = 1, .gets_max = 1};
    cr_assert_eq(driver_open(&options, &transport, &error), STATUS_INVALID_ARGUMENT);
    options.reads_max = 1;
    options.net_devices = "lo,nosuch0";
    cr_assert_eq(driver_open(&options, &transport, &error), STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(error.text, "nosuch0") != NULL, "%s", error.text);
    options.net_devices = "lo";
    options.port_range = "30000-2";
    cr_assert_eq(driver_open(&options, &transport, &error), STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(error.text, "30000-2") != NULL, "%s", error.text);
    cr_assert_eq(driver_check(&options, &error), STATUS_INVALID_ARGUMENT);
    cr_assert_null(transport);
}

Test(driver_transfer, bad_options_are_refused_in_words)
{
    bad_options_are_refused(KV_AM_TCP);
    bad_options_are_refused(KV_TLS);
}

Test(driver_transfer, a_host_has_no_memory_for_cuda_ipc_which_is_said_in_words)
{
    struct transport *transport = NULL;
    struct device *device;
    struct error error = {""};
    cr_assert_eq(device_open("cpu", &device, &error), STATUS_OK);
    const struct driver_options options = {
        .driver = KV_CUDA_IPC, .peers_max = 1, .gets_max = 1, .reads_max = 1, .device = device};
    cr_assert_eq(driver_check(&options, &error),
                 STATUS_OK); /* what it is is known when it is open */
    cr_assert_eq(driver_open(&options, &transport, &error), STATUS_UNSUPPORTED);
    cr_assert_str_eq(error.text, "cuda-ipc maps memory of a GPU, and device cpu has none");
    cr_assert_null(transport);
    device_close(device);
}

Test(driver_transfer, a_pool_beyond_the_shared_memory_is_refused_in_words)
{
    struct transport *transport = NULL;
    struct error error = {""};
    const struct driver_options options = {.driver = KV_SHM_READ,
                                           .peers_max = 1,
                                           .gets_max = 1,
                                           .reads_max = 1,
                                           .pool_bytes = (size_t)1 << 50};
    cr_assert_eq(driver_open(&options, &transport, &error), STATUS_UNSUPPORTED);
    cr_assert(strstr(error.text, "shared memory") != NULL, "%s", error.text);
    cr_assert_null(transport);
}
