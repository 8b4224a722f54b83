/* A hand-over between devices whose queues run late, in any legal order: each wait that the hand-over owes is made. */
#include "base/clock.h"
#include "base/crc32c.h"
#include "kvtransfer/drivers/sim/sim_transport.h"
#include "kvtransfer/kv_receiver.h"
#include "kvtransfer/kv_sender.h"
#include "tests/device/fault_device.h"
#include "tests/runner/one_thread.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(device_transfer, .description = ONE_THREAD);

enum { N_BLOCKS = 6, BLOCK_BYTES = PIECE_BYTES_MAX + 700, CHUNK_BLOCKS = 2, SEEDS = 80 };
enum { ROUNDS_MAX = 20000, AFTERWARDS = 0x77 };

struct side {
    struct device *device;
    struct transport *transport;
    struct device_memory pool;
};

struct world {
    struct sim_fabric *fabric;
    struct side owner, reader;
    struct kv_sender *sender;
    struct kv_receiver *receiver;
    struct transfer_id id;
    uint64_t now_ns;
    bool arrived_all, failed, quiet, sender_quiet;
    uint32_t n_arrived;
    enum status status;
};

static void side_open(struct side *side, struct sim_fabric *fabric, uint32_t place,
                      const struct fault_options *options)
{
    side->device = fault_device_open(options);
    cr_assert_eq(
        device_allocate(side->device, DEVICE_KV, (size_t)N_BLOCKS * BLOCK_BYTES, &side->pool),
        STATUS_OK);
    cr_assert_eq(sim_transport_open(fabric, place, 100 * place, &side->transport), STATUS_OK);
}

static void world_open(struct world *w, const struct fault_options *owner,
                       const struct fault_options *reader)
{
    const struct sim_options network = {.seed = owner->seed, .jitter_ns = 50 * NS_PER_US};
    struct transport_address address;
    *w = (struct world){.now_ns = NS_PER_S, .id = {{7}}};
    cr_assert_eq(sim_fabric_create(&network, &w->fabric), STATUS_OK);
    side_open(&w->owner, w->fabric, 1, owner);
    side_open(&w->reader, w->fabric, 2, reader);
    const struct kv_sender_options sender = {.transfers_max = 2,
                                             .blocks_max = N_BLOCKS,
                                             .device = w->owner.device,
                                             .pool_base = w->owner.pool.base,
                                             .block_bytes = BLOCK_BYTES,
                                             .n_blocks = N_BLOCKS};
    const struct kv_receiver_options receiver = {.transfers_max = 2,
                                                 .blocks_max = N_BLOCKS,
                                                 .peers_max = 2,
                                                 .window_max = 5,
                                                 .device = w->reader.device,
                                                 .pool_base = w->reader.pool.base,
                                                 .block_bytes = BLOCK_BYTES,
                                                 .n_blocks = N_BLOCKS,
                                                 .quiet_limit_ns = NS_PER_S};
    cr_assert_eq(kv_sender_create(&sender, w->owner.transport, &w->sender), STATUS_OK);
    cr_assert_eq(kv_receiver_create(&receiver, w->reader.transport, &w->receiver), STATUS_OK);
    w->owner.transport->ops->address(w->owner.transport, &address);
    cr_assert_eq(kv_sender_open(w->sender, &w->id, 200), STATUS_OK);
    cr_assert_eq(kv_receiver_open(w->receiver, &w->id, &address, NULL), STATUS_OK);
}

/* Both sides are quiet: every view has come back. */
static void world_close(struct world *w)
{
    cr_expect_eq(fault_device_n_views(w->owner.device), 0);
    cr_expect_eq(fault_device_n_views(w->reader.device), 0);
    kv_sender_destroy(w->sender);
    kv_receiver_destroy(w->receiver);
    struct side *sides[] = {&w->owner, &w->reader};
    for (int i = 0; i < 2; i++) {
        sides[i]->transport->ops->close(sides[i]->transport);
        device_free(sides[i]->device, &sides[i]->pool);
        device_close(sides[i]->device);
    }
    sim_fabric_destroy(w->fabric);
}

/* ---- what is computed, and what must arrive ---- */

struct chunk {
    uint8_t *blocks;
    uint32_t first;
};

static void fill(uint8_t *block, uint32_t index)
{
    for (size_t i = 0; i < BLOCK_BYTES; i++)
        block[i] = (uint8_t)(i * 31 + index * 57 + i / 4093);
}

static void compute(void *arg)
{
    const struct chunk *chunk = arg;
    for (uint32_t i = 0; i < CHUNK_BLOCKS; i++)
        fill(chunk->blocks + (size_t)i * BLOCK_BYTES, chunk->first + i);
}

static bool is_block(const uint8_t *block, uint32_t index)
{
    static uint8_t expected[BLOCK_BYTES];
    fill(expected, index);
    return memcmp(block, expected, BLOCK_BYTES) == 0;
}

/* The reader's block i is the owner's block N_BLOCKS - 1 - i. */
static uint32_t local_of(uint32_t index)
{
    return N_BLOCKS - 1 - index;
}

/* The engine of the owner: enqueues a chunk and publishes it, without waiting for it. */
static void compute_and_publish(struct world *w, struct chunk *chunk, uint32_t first)
{
    uint32_t ids[CHUNK_BLOCKS];
    for (uint32_t i = 0; i < CHUNK_BLOCKS; i++)
        ids[i] = first + i;
    *chunk = (struct chunk){w->owner.pool.base + (size_t)first * BLOCK_BYTES, first};
    fault_device_launch(w->owner.device, DEVICE_COMPUTE, compute, chunk);
    kv_sender_publish(w->sender, &w->id, first, ids, CHUNK_BLOCKS);
}

static void fetch_all(struct world *w, bool with_digests)
{
    static uint8_t block[BLOCK_BYTES];
    uint32_t remote[N_BLOCKS], local[N_BLOCKS], digests[N_BLOCKS];
    for (uint32_t i = 0; i < N_BLOCKS; i++) {
        remote[i] = i;
        local[i] = local_of(i);
        fill(block, i);
        digests[i] = crc32c(0, block, sizeof block);
    }
    kv_receiver_fetch(w->receiver, &w->id,
                      &(struct kv_fetch){.n = N_BLOCKS,
                                         .remote_blocks = remote,
                                         .local_blocks = local,
                                         .digests = with_digests ? digests : NULL});
}

/* As many blocks as have arrived are there now, in whatever order they came. */
static void check_arrived(const struct world *w)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < N_BLOCKS; i++)
        n += is_block(w->reader.pool.base + (size_t)local_of(i) * BLOCK_BYTES, i);
    cr_assert_geq(n, w->n_arrived);
}

static void round_trip(struct world *w)
{
    struct kv_sender_event sent;
    struct kv_receiver_event event;
    kv_sender_progress(w->sender, w->now_ns);
    kv_receiver_progress(w->receiver, w->now_ns);
    w->now_ns += 20 * NS_PER_US;
    w->sender_quiet |= kv_sender_next_event(w->sender, &sent);
    while (kv_receiver_next_event(w->receiver, &event)) {
        w->quiet |= event.kind == KV_QUIET;
        w->failed |= event.kind == KV_FAILED;
        if (event.kind == KV_FAILED)
            w->status = event.status;
        if (event.kind == KV_ARRIVED)
            w->n_arrived = event.n_blocks;
    }
    w->arrived_all = w->n_arrived == N_BLOCKS;
}

static void close_both(struct world *w)
{
    kv_receiver_close(w->receiver, &w->id);
    kv_sender_close(w->sender, &w->id);
    for (int i = 0; i < ROUNDS_MAX && !(w->quiet && w->sender_quiet); i++)
        round_trip(w);
    cr_assert(w->quiet && w->sender_quiet);
}

static struct fault_options late(uint64_t seed)
{
    return (struct fault_options){.seed = seed, .steps_max = 2};
}

static void hand_over(uint64_t seed, bool with_digests, uint32_t views_max)
{
    struct world w;
    struct chunk chunks[N_BLOCKS / CHUNK_BLOCKS];
    struct fault_options owner = late(seed), reader = late(~seed);
    owner.views_max = reader.views_max = views_max;
    world_open(&w, &owner, &reader);
    fetch_all(&w, with_digests);
    for (uint32_t c = 0; c < N_BLOCKS / CHUNK_BLOCKS; c++)
        compute_and_publish(&w, &chunks[c], c * CHUNK_BLOCKS);
    for (int i = 0; i < ROUNDS_MAX && !w.arrived_all && !w.failed; i++) {
        uint32_t n_before = w.n_arrived;
        round_trip(&w);
        if (w.n_arrived > n_before)
            check_arrived(&w);
    }
    cr_assert_not(w.failed, "seed %lu: %s", (unsigned long)seed, status_name(w.status));
    cr_assert(w.arrived_all, "seed %lu: %u blocks", (unsigned long)seed, w.n_arrived);
    close_both(&w);
    world_close(&w);
}

/* Planted: no device_after in the sender, a NOT_READY that is sent, an ARRIVED before the copy is done. */
Test(device_transfer, what_has_arrived_is_what_the_chunk_wrote)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++)
        hand_over(seed, false, 0);
}

Test(device_transfer, digests_are_of_what_lies_in_the_pool)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++)
        hand_over(seed, true, 0);
}

Test(device_transfer, with_room_for_one_view_it_takes_longer)
{
    for (uint64_t seed = 0; seed < SEEDS / 5; seed++)
        hand_over(seed, true, 1);
}

/* Planted: a window that does not heed the views of others. */
Test(device_transfer, an_owner_that_does_not_answer_leaves_views_for_another)
{
    struct world w;
    struct side silent;
    struct transport_address address;
    struct chunk chunks[N_BLOCKS / CHUNK_BLOCKS];
    struct fault_options owner = late(1), reader = late(2);
    const struct transfer_id id = {{7}}, silent_id = {{8}};
    reader.views_max = 5; /* as large as the window of a peer */
    world_open(&w, &owner, &reader);
    side_open(&silent, w.fabric, 3, &owner);
    silent.transport->ops->address(silent.transport, &address);
    cr_assert_eq(kv_receiver_open(w.receiver, &silent_id, &address, NULL), STATUS_OK);
    w.id = silent_id;
    fetch_all(&w, false);
    for (int i = 0; i < 100; i++)
        round_trip(&w);
    cr_assert_gt(fault_device_n_views(w.reader.device), 0, "the silent one was asked");
    w.id = id;
    fetch_all(&w, false);
    for (uint32_t c = 0; c < N_BLOCKS / CHUNK_BLOCKS; c++)
        compute_and_publish(&w, &chunks[c], c * CHUNK_BLOCKS);
    for (int i = 0; i < ROUNDS_MAX && !w.arrived_all && !w.failed; i++)
        round_trip(&w);
    cr_assert_not(w.failed, "%s", status_name(w.status));
    cr_assert(w.arrived_all, "%u blocks", w.n_arrived);
    kv_receiver_close(w.receiver, &silent_id);
    round_trip(&w);
    w.now_ns += 2 * NS_PER_S; /* behind quiet_limit_ns */
    for (int i = 0; i < ROUNDS_MAX && !w.quiet; i++)
        round_trip(&w);
    cr_assert(w.quiet);
    w.quiet = false;
    close_both(&w);
    silent.transport->ops->close(silent.transport);
    device_free(silent.device, &silent.pool);
    device_close(silent.device);
    world_close(&w);
}

/* Planted: a QUIET that does not wait for the copies. */
Test(device_transfer, when_it_is_quiet_no_copy_touches_a_block)
{
    uint32_t n_early = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct world w;
        struct chunk chunks[N_BLOCKS / CHUNK_BLOCKS];
        struct fault_options owner = late(seed), reader = late(~seed);
        world_open(&w, &owner, &reader);
        fetch_all(&w, false);
        for (uint32_t c = 0; c < N_BLOCKS / CHUNK_BLOCKS; c++)
            compute_and_publish(&w, &chunks[c], c * CHUNK_BLOCKS);
        for (uint64_t i = 0; i < 3 + seed % 40; i++)
            round_trip(&w);
        n_early += !w.arrived_all;
        close_both(&w);
        /* Both engines hand the blocks to somebody else. */
        memset(w.reader.pool.base, AFTERWARDS, w.reader.pool.bytes);
        cr_assert(fault_device_drain(w.reader.device) && fault_device_drain(w.owner.device));
        for (size_t i = 0; i < w.reader.pool.bytes; i++)
            cr_assert_eq(w.reader.pool.base[i], AFTERWARDS, "seed %lu", (unsigned long)seed);
        world_close(&w);
    }
    cr_expect(n_early > SEEDS / 4, "%u were closed in the middle", n_early);
}

/* What a transport does whose reader goes away. Planted: a read_end that does not wait for the copy. */
Test(device_transfer, a_read_that_is_ended_in_the_middle_of_its_copy_gives_the_view_back)
{
    uint32_t n_early = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct world w;
        struct chunk chunk;
        struct fault_options owner = late(seed), reader = late(~seed);
        world_open(&w, &owner, &reader);
        compute_and_publish(&w, &chunk, 0);
        kv_sender_progress(w.sender, w.now_ns);
        const struct transport_source *source = &w.owner.transport->source;
        struct block_read read = {.id = w.id, .reader_incarnation = 200, .bytes = 1000};
        n_early += source->read_begin(source->arg, &read) == STATUS_NOT_READY;
        cr_assert_not_null(read.view);
        cr_assert_eq(fault_device_n_views(w.owner.device), 1);
        transport_read_end(source, &read, STATUS_PEER_LOST);
        cr_assert_null(read.view);
        cr_assert_eq(fault_device_n_views(w.owner.device), 0);
        close_both(&w);
        world_close(&w);
    }
    cr_expect(n_early > SEEDS / 4, "%u were ended in the middle", n_early);
}

Test(device_transfer, a_device_that_is_lost_fails_the_transfer_once_and_both_become_quiet)
{
    bool is_owners = false;
    do {
        is_owners = !is_owners;
        for (uint64_t n = 1; n < 60; n++) {
            struct world w;
            struct chunk chunk;
            struct fault_options owner = late(n), reader = late(~n);
            (is_owners ? &owner : &reader)->fails_at = n + (is_owners ? 2 : 0);
            world_open(&w, &owner, &reader);
            fetch_all(&w, true);
            compute_and_publish(&w, &chunk, 0);
            for (int i = 0; i < 400 && !w.failed; i++)
                round_trip(&w);
            struct device *lost = is_owners ? w.owner.device : w.reader.device;
            cr_expect(!device_is_lost(lost) || w.failed);
            if (w.failed)
                cr_expect(w.status == STATUS_NOT_HELD ||
                          (!is_owners && w.status == STATUS_DEVICE_LOST));
            close_both(&w);
            world_close(&w);
        }
    } while (is_owners);
}
