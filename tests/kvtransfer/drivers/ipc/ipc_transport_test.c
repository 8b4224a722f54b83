/* cuda-ipc: whatever an owner says of its pool, or whenever either side ends, the reader gets the owner's bytes or a refusal, copies
 * nothing from outside of what is mapped, and has let go before the owner frees. */
#include "base/clock.h"
#include "base/crc32c.h"
#include "kvtransfer/drivers/ipc/ipc_lease.h"
#include "kvtransfer/drivers/ipc/ipc_transport.h"
#include "tests/device/fault_device.h"
#include "tests/kvtransfer/support/driver_pair.h"
#include "tests/runner/one_thread.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { N_BLOCKS = 6, BLOCK_BYTES = PIECE_BYTES_MAX + 700, OWNER = 2000, READER = 1000 };
enum { SEEDS = 60, ROUNDS_MAX = 20000, AFTERWARDS = 0x77, POOL_BYTES = 2 << 20 };

/* ---- both in one process, one thread: a device whose copies run late, in any legal order ---- */

struct world {
    struct device *owner_device, *device;
    struct transport *owner, *transport;
    struct device_memory owner_pool, pool;
    struct kv_receiver *receiver;
    struct transfer_id id;
    uint64_t now_ns;
    struct kv_receiver_event last; /* FAILED or QUIET, else ARRIVED */
    uint32_t n_failed;
};

static struct transport *open_side(struct device *device, uint64_t incarnation, bool is_read_from)
{
    struct transport *transport;
    struct error error = {""};
    const struct ipc_options options = {
        .local = {.incarnation = incarnation, .peers_max = 4, .gets_max = 64, .pieces_max = 64},
        .device = device,
        .is_read_from = is_read_from};
    cr_assert_eq(ipc_transport_open(&options, &transport, &error), STATUS_OK, "%s", error.text);
    return transport;
}

static void world_open(struct world *w, const struct fault_options *options)
{
    struct transport_address address;
    struct error error = {""};
    const size_t bytes = driver_pool_bytes(KV_CUDA_IPC, (size_t)N_BLOCKS * BLOCK_BYTES);
    *w = (struct world){.now_ns = NS_PER_S, .id = {{7}}};
    w->owner_device = fault_device_open(&(struct fault_options){.seed = 1, .steps_max = 3});
    w->device = fault_device_open(options);
    cr_assert_eq(bytes, POOL_BYTES);
    cr_assert_eq(device_allocate(w->owner_device, DEVICE_KV, bytes, &w->owner_pool), STATUS_OK);
    cr_assert_eq(device_allocate(w->device, DEVICE_KV, bytes, &w->pool), STATUS_OK);
    w->owner = open_side(w->owner_device, OWNER, true);
    w->transport = open_side(w->device, READER, false);
    cr_assert_eq(ipc_transport_lend(w->owner, &w->owner_pool, &error), STATUS_OK);
    for (uint32_t i = 0; i < N_BLOCKS; i++)
        fill_block(w->owner_pool.base + (size_t)i * BLOCK_BYTES, BLOCK_BYTES, i);
    const struct kv_receiver_options receiver = {.transfers_max = 2,
                                                 .blocks_max = N_BLOCKS,
                                                 .peers_max = 2,
                                                 .window_max = 5,
                                                 .device = w->device,
                                                 .pool_base = w->pool.base,
                                                 .block_bytes = BLOCK_BYTES,
                                                 .n_blocks = N_BLOCKS,
                                                 .quiet_limit_ns = NS_PER_S};
    cr_assert_eq(kv_receiver_create(&receiver, w->transport, &w->receiver), STATUS_OK);
    w->owner->ops->address(w->owner, &address);
    cr_assert_eq(kv_receiver_open(w->receiver, &w->id, &address, NULL), STATUS_OK);
}

static void round_trip(struct world *w)
{
    struct kv_receiver_event event;
    w->owner->ops->progress(w->owner, w->now_ns);
    kv_receiver_progress(w->receiver, w->now_ns);
    w->now_ns += 20 * NS_PER_US;
    while (kv_receiver_next_event(w->receiver, &event)) {
        w->n_failed += event.kind == KV_FAILED;
        w->last = event;
    }
}

/* The reader's block i is the owner's block N_BLOCKS - 1 - i. */
static void fetch_all(struct world *w, bool with_digests)
{
    static uint8_t block[BLOCK_BYTES];
    uint32_t remote[N_BLOCKS], local[N_BLOCKS], digests[N_BLOCKS];
    for (uint32_t i = 0; i < N_BLOCKS; i++) {
        remote[i] = N_BLOCKS - 1 - i;
        local[i] = i;
        fill_block(block, sizeof block, remote[i]);
        digests[i] = crc32c(0, block, sizeof block);
    }
    kv_receiver_fetch(w->receiver, &w->id,
                      &(struct kv_fetch){.n = N_BLOCKS,
                                         .remote_blocks = remote,
                                         .local_blocks = local,
                                         .digests = with_digests ? digests : NULL});
}

static void close_transfer(struct world *w)
{
    kv_receiver_close(w->receiver, &w->id);
    for (int i = 0; i < ROUNDS_MAX && w->last.kind != KV_QUIET; i++)
        round_trip(w);
    cr_assert_eq(w->last.kind, KV_QUIET);
}

/* The reader first: what an owner waits for when it closes is in this very thread. */
static void world_close(struct world *w)
{
    kv_receiver_destroy(w->receiver);
    w->transport->ops->close(w->transport);
    cr_expect(fault_device_n_imports(w->device) == 0 || device_is_lost(w->device));
    w->owner->ops->close(w->owner);
    device_free(w->device, &w->pool);
    device_free(w->owner_device, &w->owner_pool);
    device_close(w->device);
    device_close(w->owner_device);
}

static void check_arrived(const struct world *w)
{
    static uint8_t expected[BLOCK_BYTES];
    for (uint32_t i = 0; i < w->last.n_blocks; i++) {
        fill_block(expected, sizeof expected, N_BLOCKS - 1 - i);
        cr_assert_eq(memcmp(w->pool.base + (size_t)i * BLOCK_BYTES, expected, BLOCK_BYTES), 0);
    }
}

static struct fault_options late(uint64_t seed)
{
    return (struct fault_options){.seed = seed, .steps_max = 2};
}

/* Planted: a copy that ends when it is enqueued. */
Test(ipc_transport, what_has_arrived_is_what_the_owner_has, .description = ONE_THREAD)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct world w;
        const struct fault_options options = late(seed);
        world_open(&w, &options);
        fetch_all(&w, seed % 2);
        for (int i = 0; i < ROUNDS_MAX && w.last.n_blocks < N_BLOCKS; i++) {
            round_trip(&w);
            check_arrived(&w);
        }
        cr_assert_eq(w.last.n_blocks, N_BLOCKS, "seed %lu", (unsigned long)seed);
        cr_assert_eq(kv_receiver_bytes_received(w.receiver), (uint64_t)N_BLOCKS * BLOCK_BYTES);
        cr_assert_eq(fault_device_n_views(w.device), 0);
        cr_assert_eq(fault_device_n_imports(w.device), 1);
        close_transfer(&w);
        world_close(&w);
    }
}

/* Planted: a get that ends, or a mapping that is closed, while its copy is under way. */
Test(ipc_transport, when_it_is_quiet_no_copy_touches_a_block, .description = ONE_THREAD)
{
    uint32_t n_early = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct world w;
        const struct fault_options options = late(seed);
        world_open(&w, &options);
        fetch_all(&w, false);
        for (uint64_t i = 0; i < 2 + seed % 30; i++)
            round_trip(&w);
        n_early += w.last.n_blocks < N_BLOCKS;
        if (seed % 3 == 0)
            kv_receiver_drop_peer(w.receiver, OWNER);
        close_transfer(&w);
        memset(w.pool.base, AFTERWARDS, w.pool.bytes);
        cr_assert(fault_device_drain(w.device));
        for (size_t i = 0; i < w.pool.bytes; i++)
            cr_assert_eq(w.pool.base[i], AFTERWARDS, "seed %lu", (unsigned long)seed);
        round_trip(&w);
        round_trip(&w);
        cr_assert_leq(fault_device_n_imports(w.device), seed % 3 == 0 ? 0 : 1);
        world_close(&w);
    }
    cr_expect(n_early > SEEDS / 4, "%u were closed in the middle", n_early);
}

/* The transport is closed with copies under way, as at the end of a process. */
Test(ipc_transport, a_close_in_the_middle_waits_for_the_copies, .description = ONE_THREAD)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct world w;
        const struct fault_options options = late(seed);
        world_open(&w, &options);
        fetch_all(&w, false);
        for (uint64_t i = 0; i < 2 + seed % 10; i++)
            round_trip(&w);
        world_close(&w);
    }
}

Test(ipc_transport, a_device_that_is_lost_fails_the_transfer_once_and_it_becomes_quiet,
     .description = ONE_THREAD)
{
    uint32_t n_lost = 0;
    for (uint64_t n = 1; n < 60; n++) {
        struct world w;
        struct fault_options options = late(n);
        options.fails_at = n;
        world_open(&w, &options);
        fetch_all(&w, true);
        for (int i = 0; i < 400 && w.n_failed == 0 && w.last.n_blocks < N_BLOCKS; i++)
            round_trip(&w);
        if (w.n_failed > 0)
            cr_expect(w.last.status == STATUS_DEVICE_LOST || w.last.status == STATUS_PEER_LOST);
        n_lost += device_is_lost(w.device);
        close_transfer(&w);
        cr_expect_leq(w.n_failed, 1);
        world_close(&w);
    }
    cr_expect_gt(n_lost, 20);
}

/* ---- an owner that the test plays: its end of the lease, with the pool of world_open's owner ---- */

struct actor {
    struct shm_folder folder;
    char path[64];
    int listener, reader; /* -1: none */
};

static void actor_open(struct actor *actor)
{
    struct error error = {""};
    struct sockaddr_un place = {.sun_family = AF_UNIX};
    *actor = (struct actor){.reader = -1};
    cr_assert_eq(shm_folder_open(&actor->folder, &error), STATUS_OK, "%s", error.text);
    snprintf(actor->path, sizeof actor->path, "%s/ipc", actor->folder.path);
    memcpy(place.sun_path, actor->path, strlen(actor->path) + 1);
    actor->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    cr_assert_eq(bind(actor->listener, (struct sockaddr *)&place, sizeof place), 0);
    cr_assert_eq(listen(actor->listener, 4), 0);
}

static void actor_say(struct actor *actor, const void *bytes, size_t n)
{
    if (actor->reader < 0)
        actor->reader = accept(actor->listener, NULL, NULL);
    cr_assert_geq(actor->reader, 0, "nobody has come");
    if (n > 0)
        cr_assert_eq(send(actor->reader, bytes, n, MSG_NOSIGNAL), (ssize_t)n);
}

/* The reader has closed its end. */
static bool actor_is_alone(const struct actor *actor)
{
    char said;
    return recv(actor->reader, &said, 1, MSG_DONTWAIT) == 0;
}

static void actor_close(struct actor *actor)
{
    if (actor->reader >= 0)
        close(actor->reader);
    close(actor->listener);
    shm_folder_close(&actor->folder);
}

/* Another transfer, whose owner is the actor. */
static void open_from(struct world *w, const struct actor *actor)
{
    struct transport_address address;
    w->owner->ops->address(w->owner, &address);
    address.worker_bytes = (uint32_t)strlen(actor->path);
    memcpy(address.worker, actor->path, address.worker_bytes);
    close_transfer(w);
    kv_receiver_drop_peer(w->receiver, OWNER);
    w->id.bytes[0]++;
    w->last = (struct kv_receiver_event){0};
    w->n_failed = 0;
    cr_assert_eq(kv_receiver_open(w->receiver, &w->id, &address, NULL), STATUS_OK);
    round_trip(w);
    cr_assert_eq(fault_device_n_imports(w->device), 0);
}

/* It is heard, the copies under way end, and what is mapped is let go; then the owner hears that. */
Test(ipc_transport, an_owner_that_ends_is_let_go_whatever_is_under_way, .description = ONE_THREAD)
{
    static const uint64_t life = OWNER;
    uint32_t n_failed = 0, n_whole = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct world w;
        struct actor actor;
        const struct fault_options options = late(seed);
        world_open(&w, &options);
        actor_open(&actor);
        open_from(&w, &actor);
        actor_say(&actor, &life, sizeof life);
        fetch_all(&w, seed % 2);
        for (uint64_t i = 0; i < seed; i++)
            round_trip(&w);
        cr_assert_not(seed > 1 && actor_is_alone(&actor));
        cr_assert_eq(shutdown(actor.reader, SHUT_WR), 0);
        for (int i = 0; i < ROUNDS_MAX && !actor_is_alone(&actor); i++) {
            if (fault_device_n_imports(w.device) > 0)
                cr_assert_not(actor_is_alone(&actor), "it lets go of what it has mapped");
            round_trip(&w);
        }
        cr_assert(actor_is_alone(&actor));
        cr_assert_eq(fault_device_n_imports(w.device), 0);
        for (int i = 0; i < 400; i++)
            round_trip(&w);
        cr_assert(w.n_failed == 1 ? w.last.status == STATUS_PEER_LOST
                                  : w.last.n_blocks == N_BLOCKS);
        n_failed += w.n_failed;
        n_whole += w.n_failed == 0;
        close_transfer(&w);
        world_close(&w);
        actor_close(&actor);
    }
    cr_expect(n_failed > 5 && n_whole > 5, "%u, %u", n_failed, n_whole);
}

/* Of another life, a part, rubbish; more than it is to say. */
Test(ipc_transport, an_owner_that_says_anything_else_is_none)
{
    static const uint64_t other[] = {OWNER + 1, 0};
    static const struct {
        const void *bytes;
        size_t n;
    } words[] = {{&other[0], 8}, {&other[1], 8}, {"kvferry", 7}, {"GET / HTTP/1.1\r\n\r\n", 18}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        struct world w;
        struct actor actor;
        const struct fault_options options = late(i);
        world_open(&w, &options);
        actor_open(&actor);
        open_from(&w, &actor);
        actor_say(&actor, words[i].bytes, words[i].n);
        fetch_all(&w, false);
        for (int n = 0; n < 100; n++)
            round_trip(&w);
        cr_expect(w.n_failed == 1 && w.last.status == STATUS_PEER_LOST, "case %zu", i);
        cr_expect_eq(fault_device_n_imports(w.device), 0);
        close_transfer(&w);
        world_close(&w);
        actor_close(&actor);
    }
}

/* As of a process that is stopped: nothing is mapped, nobody waits for it, and it holds nobody's blocks. */
Test(ipc_transport, an_owner_that_says_nothing_is_waited_for_and_left)
{
    struct world w;
    struct actor actor;
    const struct fault_options options = late(3);
    world_open(&w, &options);
    actor_open(&actor);
    open_from(&w, &actor);
    actor_say(&actor, "", 0);
    fetch_all(&w, false);
    for (int n = 0; n < 1000; n++)
        round_trip(&w);
    cr_expect(w.n_failed == 0 && w.last.n_blocks == 0);
    kv_receiver_close(w.receiver, &w.id);
    round_trip(&w);
    cr_expect_neq(w.last.kind, KV_QUIET, "its gets have not ended");
    w.now_ns += 2 * NS_PER_S; /* behind the limit of a close */
    round_trip(&w);
    round_trip(&w);
    cr_expect_eq(w.last.kind, KV_QUIET);
    cr_expect(actor_is_alone(&actor));
    world_close(&w);
    actor_close(&actor);
}

/* ---- two processes ---- */

static const struct pair_options OPTIONS = {.driver = KV_CUDA_IPC,
                                            .block_bytes = BLOCK_BYTES,
                                            .n_blocks = N_BLOCKS,
                                            .window_max = 32,
                                            .quiet_limit_ns = 200 * NS_PER_MS,
                                            .owner_incarnation = OWNER};

Test(ipc_transport, a_block_beyond_what_is_mapped_is_refused_and_no_address_counts)
{
    static const uint32_t BEYOND[] = {POOL_BYTES / BLOCK_BYTES, N_BLOCKS + 2, 1u << 20, UINT32_MAX};
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

/* Nothing, rubbish, other memory that is shorter than a block, a process that is not there. */
Test(ipc_transport, a_handle_that_leads_to_anything_else_costs_the_transfer)
{
    struct pair pair;
    pair_start(&pair, &OPTIONS);
    int fd = memfd_create("other", MFD_CLOEXEC);
    cr_assert_eq(ftruncate(fd, 100), 0);
    const int32_t keys[][2] = {{getpid(), fd}, {getpid(), -1}, {0, 0}, {-1, -1}, {1 << 30, 3}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        struct transport_address address = pair.owner.address;
        memset(address.pool_key, 0, address.pool_key_bytes);
        memcpy(address.pool_key, keys[i], sizeof keys[i]);
        enum status status = reader_read_block(&pair.reader, &address, 0);
        cr_expect_eq(status, i == 0 ? STATUS_NOT_HELD : STATUS_PEER_LOST, "case %zu: %s", i,
                     status_name(status));
    }
    struct transport_address address = pair.owner.address;
    memset(address.pool_key, 0xff, address.pool_key_bytes);
    cr_expect_eq(reader_read_block(&pair.reader, &address, 0), STATUS_PEER_LOST);
    close(fd);
    cr_expect_eq(reader_read_block(&pair.reader, &pair.owner.address, 0), STATUS_OK);
    pair_stop(&pair);
}

/* Paths that are no socket of an owner's, keys of another length, this very process. */
Test(ipc_transport, what_is_no_address_of_it_is_refused)
{
    static const char *const PATHS[] = {"/tmp/ipc", "/dev/shm/kvferry-123456/../ipc",
                                        "/dev/shm/kvferry-123456/ipc"};
    struct device *device = fault_device_open(&(struct fault_options){.seed = 1});
    struct transport *transport = open_side(device, READER, false);
    struct transport_peer *peer;
    struct transport_address address = {.incarnation = OWNER, .worker = "x", .worker_bytes = 1};
    for (uint32_t n = 0; n <= sizeof address.pool_key; n++) {
        address.pool_key_bytes = n;
        cr_expect_eq(transport->ops->connect(transport, &address, &peer),
                     n == DEVICE_HANDLE_BYTES ? STATUS_PEER_LOST : STATUS_CORRUPT, "%u bytes", n);
    }
    address.pool_key_bytes = DEVICE_HANDLE_BYTES;
    for (size_t i = 0; i < sizeof PATHS / sizeof *PATHS; i++) {
        address.worker_bytes = (uint32_t)strlen(PATHS[i]);
        memcpy(address.worker, PATHS[i], address.worker_bytes);
        cr_expect_eq(transport->ops->connect(transport, &address, &peer), STATUS_PEER_LOST);
    }
    memset(address.worker, 'x', sizeof address.worker);
    address.worker_bytes = sizeof address.worker;
    cr_expect_eq(transport->ops->connect(transport, &address, &peer), STATUS_PEER_LOST);
    address.worker_bytes = 0;
    cr_expect_eq(transport->ops->connect(transport, &address, &peer), STATUS_CORRUPT);
    transport->ops->close(transport);

    struct device_memory pool;
    struct error error = {""};
    cr_assert_eq(device_allocate(device, DEVICE_KV, POOL_BYTES, &pool), STATUS_OK);
    transport = open_side(device, OWNER, true);
    cr_assert_eq(ipc_transport_lend(transport, &pool, &error), STATUS_OK);
    transport->ops->address(transport, &address);
    cr_expect_eq(transport->ops->connect(transport, &address, &peer), STATUS_PEER_LOST);
    transport->ops->close(transport);
    device_free(device, &pool);
    device_close(device);
}

/* Its memory has other bytes than those it sent digests of. */
Test(ipc_transport, a_byte_that_is_not_what_was_digested_discards_the_block)
{
    struct pair pair;
    uint8_t block[BLOCK_BYTES];
    pair_start(&pair, &OPTIONS);
    fill_block(block, sizeof block, 0);
    for (int is_flipped = 0; is_flipped < 2; is_flipped++) {
        struct transfer_id id = transfer_of(100 + (uint64_t)is_flipped);
        block[BLOCK_BYTES / 2] ^= (uint8_t)(is_flipped << 3);
        const uint32_t digest = crc32c(0, block, sizeof block);
        cr_assert_eq(kv_receiver_open(pair.reader.receiver, &id, &pair.owner.address, NULL),
                     STATUS_OK);
        reader_fetch(&pair.reader, &id, 0, 1, 0, 0, &digest);
        if (is_flipped)
            cr_expect_eq(reader_wait(&pair.reader, KV_FAILED), STATUS_CORRUPT);
        else
            reader_wait_arrived(&pair.reader, 1);
        kv_receiver_close(pair.reader.receiver, &id);
        reader_wait(&pair.reader, KV_QUIET);
    }
    pair_stop(&pair);
}

Test(ipc_transport, two_readers_map_one_owner_and_both_let_go_when_it_ends)
{
    struct pair pair;
    struct reader second;
    pair_start(&pair, &OPTIONS);
    reader_start(&second, &OPTIONS, READER + 1);
    owner_admit(&pair.owner, &second.address);
    struct reader *const readers[] = {&pair.reader, &second};
    struct transfer_id id = transfer_of(1);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(kv_receiver_open(readers[i]->receiver, &id, &pair.owner.address, NULL),
                     STATUS_OK);
        reader_fetch(readers[i], &id, 0, N_BLOCKS, 0, 0, NULL);
    }
    for (int i = 0; i < 2; i++) {
        reader_wait_arrived(readers[i], N_BLOCKS);
        for (uint32_t b = 0; b < N_BLOCKS; b++)
            reader_check_block(readers[i], b, b);
        cr_expect_eq(fault_device_n_imports(readers[i]->device), 1);
    }
    const uint64_t began_ns = clock_now_ns();
    owner_stop(&pair.owner); /* they sleep, and have it mapped */
    cr_expect_lt(clock_now_ns() - began_ns, IPC_LET_GO_NS, "it has waited in vain");
    for (int i = 0; i < 2; i++)
        cr_expect_eq(fault_device_n_imports(readers[i]->device), 0);
    for (int i = 0; i < 2; i++) {
        kv_receiver_close(readers[i]->receiver, &id);
        reader_wait(readers[i], KV_QUIET);
    }
    reader_stop(&second);
    pair_stop(&pair);
}

/* Who comes beyond the bound, or hangs up, holds nobody else's place. */
Test(ipc_transport, more_connections_than_readers_are_turned_away)
{
    enum { STRANGERS = 100 };
    struct pair pair;
    int fds[STRANGERS];
    uint32_t n_in = 0;
    pair_start(&pair, &OPTIONS);
    for (int i = 0; i < STRANGERS; i++) {
        uint64_t said;
        fds[i] = ipc_lease_ask(&pair.owner.address);
        struct pollfd fd = {.fd = fds[i], .events = POLLIN};
        cr_assert_geq(fds[i], 0);
        cr_assert_eq(poll(&fd, 1, (int)(WAIT_NS / NS_PER_MS)), 1);
        n_in += recv(fds[i], &said, sizeof said, 0) == (ssize_t)sizeof said;
    }
    cr_expect_eq(n_in, 32);
    cr_expect_eq(reader_read_block(&pair.reader, &pair.owner.address, 0), STATUS_PEER_LOST);
    for (int i = 0; i < STRANGERS; i++)
        close(fds[i]);
    uint64_t until_ns = clock_now_ns() + WAIT_NS;
    while (reader_read_block(&pair.reader, &pair.owner.address, 0) != STATUS_OK)
        cr_assert_lt(clock_now_ns(), until_ns);
    pair_stop(&pair);
}
