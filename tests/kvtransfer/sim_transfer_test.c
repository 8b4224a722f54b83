/* Sender and receiver on the simulated network, many seeds: whatever is lost, doubled, damaged, cut
 * or killed, a block that is said to have arrived is right, every transfer goes quiet, and nothing is
 * written into blocks that are quiet. */
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/random.h"
#include "kvtransfer/drivers/sim/sim_transport.h"
#include "kvtransfer/kv_receiver.h"
#include "kvtransfer/kv_sender.h"
#include "tests/runner/one_thread.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

TestSuite(sim_transfer, .description = ONE_THREAD);

enum { N_BLOCKS = 12, BLOCK_BYTES = PIECE_BYTES_MAX + 700, N_TRANSFERS = 4, OWNER = 1, READER = 2 };
enum { STAGE_BLOCKS = 7 }; /* of other blocks: for three transfers */

struct world {
    struct device *device;
    struct sim_fabric *fabric;
    struct transport *owner, *reader;
    struct kv_sender *sender;
    struct kv_receiver *receiver;
    struct transport_address owner_address;
    uint8_t *source, *target; /* [N_BLOCKS][BLOCK_BYTES] */
    uint32_t digests[N_BLOCKS];
    uint64_t now_ns;
    bool owner_dead;
};

/* What the engine would know of a transfer. */
struct view {
    bool failed, quiet, sender_quiet;
    enum status status;
    uint32_t n_arrived;
};

static struct transfer_id id_of(uint64_t number)
{
    struct transfer_id id = {{0}};
    memcpy(id.bytes, &number, sizeof number);
    return id;
}

static void world_open(struct world *w, const struct sim_options *options)
{
    struct error error;
    *w = (struct world){.now_ns = NS_PER_S};
    cr_assert_eq(device_open("cpu", &w->device, &error), STATUS_OK);
    w->source = malloc(N_BLOCKS * BLOCK_BYTES);
    w->target = calloc(N_BLOCKS, BLOCK_BYTES);
    for (size_t i = 0; i < (size_t)N_BLOCKS * BLOCK_BYTES; i++)
        w->source[i] = (uint8_t)(i * 31 + i / 4093);
    for (uint32_t i = 0; i < N_BLOCKS; i++)
        w->digests[i] = crc32c(0, w->source + (size_t)i * BLOCK_BYTES, BLOCK_BYTES);

    cr_assert_eq(sim_fabric_create(options, &w->fabric), STATUS_OK);
    cr_assert_eq(sim_transport_open(w->fabric, OWNER, 100, &w->owner), STATUS_OK);
    cr_assert_eq(sim_transport_open(w->fabric, READER, 200, &w->reader), STATUS_OK);
    const struct kv_sender_options sender = {.transfers_max = N_TRANSFERS,
                                             .blocks_max = N_BLOCKS,
                                             .device = w->device,
                                             .pool_base = w->source,
                                             .block_bytes = BLOCK_BYTES,
                                             .n_blocks = N_BLOCKS};
    const struct kv_receiver_options receiver = {.transfers_max = N_TRANSFERS,
                                                 .blocks_max = N_BLOCKS,
                                                 .peers_max = 2,
                                                 .window_max = 5,
                                                 .device = w->device,
                                                 .pool_base = w->target,
                                                 .block_bytes = BLOCK_BYTES,
                                                 .n_blocks = N_BLOCKS,
                                                 .stage_bytes = STAGE_BLOCKS * BLOCK_BYTES,
                                                 .scrubs = true,
                                                 .quiet_limit_ns = 50 * NS_PER_MS};
    cr_assert_eq(kv_sender_create(&sender, w->owner, &w->sender), STATUS_OK);
    cr_assert_eq(kv_receiver_create(&receiver, w->reader, &w->receiver), STATUS_OK);
    w->owner->ops->address(w->owner, &w->owner_address);
}

static void world_close(struct world *w)
{
    kv_sender_destroy(w->sender);
    kv_receiver_destroy(w->receiver);
    w->owner->ops->close(w->owner);
    w->reader->ops->close(w->reader);
    sim_fabric_destroy(w->fabric);
    device_close(w->device);
    free(w->source);
    free(w->target);
}

/* Both sides work until neither has anything to do now; then time goes to the next event, at most a
 * millisecond on. */
static void world_step(struct world *w)
{
    unsigned work;
    do
        work = kv_sender_progress(w->sender, w->now_ns) +
               kv_receiver_progress(w->receiver, w->now_ns);
    while (work > 0);
    uint64_t next_ns = sim_fabric_next_ns(w->fabric);
    w->now_ns = next_ns > w->now_ns && next_ns < w->now_ns + NS_PER_MS ? next_ns
                                                                       : w->now_ns + NS_PER_MS;
}

static void look(struct world *w, struct view *views)
{
    struct kv_receiver_event event;
    struct kv_sender_event sent;
    while (kv_receiver_next_event(w->receiver, &event)) {
        struct view *view = &views[event.id.bytes[0]];
        cr_assert_not(view->quiet, "an event after QUIET");
        view->failed |= event.kind == KV_FAILED;
        view->quiet = event.kind == KV_QUIET;
        if (event.kind == KV_FAILED)
            view->status = event.status;
        if (event.kind == KV_ARRIVED)
            view->n_arrived = event.n_blocks;
    }
    while (kv_sender_next_event(w->sender, &sent))
        views[sent.id.bytes[0]].sender_quiet = true;
}

static const uint32_t ALL[N_BLOCKS] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
enum { BLOCKS_EACH = N_BLOCKS / N_TRANSFERS };

static void open_transfer_of(struct world *w, uint32_t t, uint32_t n_blocks)
{
    struct transfer_id id = id_of(t);
    const uint32_t *blocks = ALL + t * BLOCKS_EACH;
    cr_assert_eq(kv_sender_open(w->sender, &id, 200), STATUS_OK);
    kv_sender_publish(w->sender, &id, 0, blocks, n_blocks);
    cr_assert_eq(kv_receiver_open(w->receiver, &id, &w->owner_address, NULL), STATUS_OK);
    kv_receiver_fetch(w->receiver, &id,
                      &(struct kv_fetch){0, n_blocks, blocks, blocks, w->digests + blocks[0]});
}

static void open_transfer(struct world *w, uint32_t t)
{
    open_transfer_of(w, t, BLOCKS_EACH);
}

static bool is_over(const struct view *view)
{
    return view->failed || view->n_arrived == BLOCKS_EACH;
}

static size_t blocks_of(uint32_t t)
{
    return (size_t)t * BLOCKS_EACH * BLOCK_BYTES;
}

static void check_arrived(const struct world *w, uint32_t t)
{
    cr_assert_eq(memcmp(w->target + blocks_of(t), w->source + blocks_of(t),
                        (size_t)BLOCKS_EACH * BLOCK_BYTES),
                 0, "transfer %u arrived with other bytes", t);
}

/* Closes transfer t, waits until both sides are quiet, then marks its target. */
static void close_transfer(struct world *w, struct view *views, uint32_t t)
{
    struct transfer_id id = id_of(t);
    kv_receiver_close(w->receiver, &id);
    kv_sender_close(w->sender, &id);
    for (int step = 0; !views[t].quiet; step++) {
        cr_assert_lt(step, 2000, "transfer %u does not go quiet", t);
        world_step(w);
        look(w, views);
    }
    memset(w->target + blocks_of(t), 0x5a, (size_t)BLOCKS_EACH * BLOCK_BYTES);
}

static void check_marks(const struct world *w)
{
    for (size_t i = 0; i < (size_t)N_BLOCKS * BLOCK_BYTES; i++)
        cr_assert_eq(w->target[i], 0x5a, "something wrote into a quiet block");
}

Test(sim_transfer, a_good_network_delivers_everything_in_any_order)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct world w;
        struct view views[N_TRANSFERS] = {0};
        const struct sim_options options = {.seed = seed,
                                            .latency_ns = 20 * NS_PER_US,
                                            .jitter_ns = 300 * NS_PER_US,
                                            .bytes_per_s = 3000000000ull};
        world_open(&w, &options);
        for (uint32_t t = 0; t < N_TRANSFERS; t++)
            open_transfer(&w, t);
        for (int step = 0; step < 5000; step++) {
            world_step(&w);
            look(&w, views);
        }
        for (uint32_t t = 0; t < N_TRANSFERS; t++) {
            cr_assert_not(views[t].failed);
            cr_assert_eq(views[t].n_arrived, BLOCKS_EACH);
            check_arrived(&w, t);
            close_transfer(&w, views, t);
            cr_assert(views[t].sender_quiet);
        }
        cr_assert_eq(kv_receiver_bytes_received(w.receiver), (uint64_t)N_BLOCKS * BLOCK_BYTES);
        cr_assert_eq(kv_sender_bytes_sent(w.sender), (uint64_t)N_BLOCKS * BLOCK_BYTES);
        world_close(&w);
    }
}

static void count_wake(void *arg)
{
    ++*(volatile uint32_t *)arg;
}

Test(sim_transfer, the_engine_is_woken_once_all_that_was_fetched_is_there)
{
    const struct sim_options options = {.seed = 1,
                                        .latency_ns = 20 * NS_PER_US,
                                        .jitter_ns = 300 * NS_PER_US,
                                        .bytes_per_s = 3000000000ull};
    struct world w;
    struct view views[N_TRANSFERS] = {0};
    volatile uint32_t n_wakes = 0; /* counted by the callback */
    world_open(&w, &options);
    kv_receiver_on_event(w.receiver, count_wake, (void *)&n_wakes);
    open_transfer(&w, 0);
    for (int step = 0; n_wakes == 0; step++) {
        cr_assert_lt(step, 1000);
        world_step(&w);
    }
    look(&w, views);
    cr_expect_eq(views[0].n_arrived, BLOCKS_EACH);
    for (int step = 0; step < 100; step++)
        world_step(&w);
    cr_expect_eq(n_wakes, 1);
    close_transfer(&w, views, 0);
    cr_expect_eq(n_wakes, 2, "and for the quiet");
    world_close(&w);
}

/* ---- blocks that are not like the pool's ---- */

/* Where the blocks of a transfer were put from, and to. */
struct other {
    uint8_t *target;
    const uint8_t *lowest, *highest; /* in the stage */
    uint32_t n_put;
};

static void put(void *arg, uint32_t index, const uint8_t *block)
{
    struct other *other = arg;
    memcpy(other->target + (size_t)index * BLOCK_BYTES, block, BLOCK_BYTES);
    other->lowest = other->n_put == 0 || block < other->lowest ? block : other->lowest;
    other->highest = block > other->highest ? block : other->highest;
    other->n_put++;
}

static enum status open_other(struct world *w, uint32_t t, uint64_t block_bytes,
                              struct other *other)
{
    struct transfer_id id = id_of(t);
    other->target = w->target + blocks_of(t);
    return kv_receiver_open(w->receiver, &id, &w->owner_address,
                            &(struct kv_other_blocks){block_bytes, put, other});
}

static void fetch_other(struct world *w, uint32_t t)
{
    struct transfer_id id = id_of(t);
    const uint32_t *blocks = ALL + t * BLOCKS_EACH;
    cr_assert_eq(kv_sender_open(w->sender, &id, 200), STATUS_OK);
    kv_sender_publish(w->sender, &id, 0, blocks, BLOCKS_EACH);
    kv_receiver_fetch(w->receiver, &id,
                      &(struct kv_fetch){0, BLOCKS_EACH, blocks, NULL, w->digests + blocks[0]});
}

/* Two blocks of the stage. */
static bool is_zero(const uint8_t *stage)
{
    for (size_t i = 0; i < (size_t)2 * BLOCK_BYTES; i++)
        if (stage[i] != 0)
            return false;
    return true;
}

Test(sim_transfer, other_blocks_share_a_stage_that_is_zero_when_they_are_put)
{
    const struct sim_options options = {
        .seed = 1, .latency_ns = 20 * NS_PER_US, .jitter_ns = 300 * NS_PER_US};
    struct world w;
    struct view views[N_TRANSFERS] = {0};
    struct other others[N_TRANSFERS] = {0};
    world_open(&w, &options);
    cr_expect_eq(open_other(&w, 0, 4 * BLOCK_BYTES, &others[0]), STATUS_NO_MEMORY, "two of eight");
    for (uint32_t t = 0; t < 3; t++)
        cr_assert_eq(open_other(&w, t, BLOCK_BYTES, &others[t]), STATUS_OK);
    cr_expect_eq(open_other(&w, 3, BLOCK_BYTES, &others[3]), STATUS_NO_MEMORY, "three have six");
    for (uint32_t t = 0; t < 3; t++)
        fetch_other(&w, t);
    for (int step = 0; step < 3000; step++) {
        world_step(&w);
        look(&w, views);
    }
    for (uint32_t t = 0; t < 3; t++) {
        cr_assert_eq(others[t].n_put, BLOCKS_EACH);
        check_arrived(&w, t);
        for (uint32_t k = 0; k < t; k++)
            cr_expect(others[k].highest < others[t].lowest || others[t].highest < others[k].lowest,
                      "a transfer has places of its own");
    }
    cr_expect(is_zero(others[0].lowest), "K and V are left in the stage");
    close_transfer(&w, views, 1);
    cr_expect_eq(open_other(&w, 3, BLOCK_BYTES, &others[3]), STATUS_OK, "where the second one was");
    fetch_other(&w, 3);
    for (int step = 0; is_zero(others[1].lowest); step++) {
        cr_assert_lt(step, 1000);
        world_step(&w);
    }
    close_transfer(&w, views, 3); /* some of its pieces are there */
    cr_expect_lt(others[3].n_put, BLOCKS_EACH);
    cr_expect(is_zero(others[1].lowest));
    close_transfer(&w, views, 0);
    close_transfer(&w, views, 2);
    world_close(&w);
}

static void disturb(struct world *w, struct random *random, int step)
{
    if (step == 3 && random_below(random, 4) == 0)
        sim_transport_stall(w->owner, w->now_ns + random_below(random, 200) * NS_PER_MS);
    if (step == 2 && random_below(random, 4) == 0)
        sim_fabric_cut(w->fabric, OWNER, READER, true);
    if (step == 30)
        sim_fabric_cut(w->fabric, OWNER, READER, false);
    if (!w->owner_dead && random_below(random, 400) == 0) {
        sim_transport_kill(w->owner);
        w->owner_dead = true;
    }
}

Test(sim_transfer, a_bad_network_never_delivers_wrong_bytes_and_always_goes_quiet)
{
    uint32_t n_arrived = 0, n_failed = 0, n_silent = 0;
    uint64_t n_late = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct world w;
        struct view views[N_TRANSFERS] = {0};
        struct random random;
        random_init(&random, seed);
        const struct sim_options options = {.seed = seed,
                                            .latency_ns = 50 * NS_PER_US,
                                            .jitter_ns = 2 * NS_PER_MS,
                                            .detect_ns = seed % 3 ? 5 * NS_PER_MS : UINT64_MAX,
                                            .close_ns = NS_PER_MS,
                                            .loss = seed % 4 == 0 ? 0.05 : 0,
                                            .duplicate = 0.1,
                                            .corrupt = seed % 5 == 0 ? 0.1 : 0};
        world_open(&w, &options);
        for (uint32_t t = 0; t < N_TRANSFERS; t++)
            open_transfer(&w, t);
        for (int step = 0; step < 120; step++) {
            disturb(&w, &random, step);
            world_step(&w);
            look(&w, views);
        }
        for (uint32_t t = 0; t < N_TRANSFERS; t++) {
            if (!views[t].failed && is_over(&views[t]))
                check_arrived(&w, t);
            n_arrived += !views[t].failed && is_over(&views[t]);
            n_failed += views[t].failed;
            n_silent += !is_over(&views[t]);
            close_transfer(&w, views, t);
        }
        for (int step = 0; step < 300; step++) {
            world_step(&w);
            look(&w, views);
        }
        check_marks(&w);
        for (uint32_t t = 0; t < N_TRANSFERS && !w.owner_dead; t++)
            cr_assert(views[t].sender_quiet);
        n_late += w.reader->late_pieces;
        world_close(&w);
    }
    cr_assert_gt(n_arrived, 100);
    cr_assert_gt(n_failed, 20);
    cr_assert_gt(n_silent, 20);
    cr_assert_gt(n_late, 20);
}

Test(sim_transfer, a_damaged_piece_is_found_by_the_digest)
{
    struct world w;
    struct view views[N_TRANSFERS] = {0};
    const struct sim_options options = {.seed = 1, .corrupt = 1};
    world_open(&w, &options);
    open_transfer(&w, 0);
    for (int step = 0; step < 20; step++)
        world_step(&w);
    look(&w, views);
    cr_assert(views[0].failed);
    cr_assert_eq(views[0].status, STATUS_CORRUPT);
    cr_assert_eq(views[0].n_arrived, 0);
    close_transfer(&w, views, 0);
    world_close(&w);
}

Test(sim_transfer, a_restarted_owner_at_the_same_place_is_another_peer)
{
    struct world w;
    struct view views[N_TRANSFERS] = {0};
    const struct sim_options options = {.seed = 1, .detect_ns = UINT64_MAX};
    world_open(&w, &options);
    sim_transport_kill(w.owner);
    kv_sender_destroy(w.sender);
    struct transport *dead = w.owner;
    cr_assert_eq(sim_transport_open(w.fabric, OWNER, 101, &w.owner), STATUS_OK);
    const struct kv_sender_options sender = {.transfers_max = N_TRANSFERS,
                                             .blocks_max = N_BLOCKS,
                                             .device = w.device,
                                             .pool_base = w.source,
                                             .block_bytes = BLOCK_BYTES,
                                             .n_blocks = N_BLOCKS};
    cr_assert_eq(kv_sender_create(&sender, w.owner, &w.sender), STATUS_OK);

    open_transfer(&w, 0); /* by the old address */
    for (int step = 0; step < 10; step++)
        world_step(&w);
    look(&w, views);
    cr_assert(views[0].failed);
    cr_assert_eq(views[0].status, STATUS_STALE_PEER);
    close_transfer(&w, views, 0);

    w.owner->ops->address(w.owner, &w.owner_address);
    open_transfer(&w, 1);
    for (int step = 0; step < 10; step++)
        world_step(&w);
    look(&w, views);
    cr_assert_eq(views[1].n_arrived, BLOCKS_EACH);
    check_arrived(&w, 1);
    close_transfer(&w, views, 1);
    dead->ops->close(dead);
    world_close(&w);
}

static struct transport_ops counting_ops;
static uint32_t n_counted; /* peers closed, or pieces asked for */
static void (*real_peer_close)(struct transport_peer *peer, transport_done done, void *arg);
static enum status (*real_get)(struct transport_peer *peer, const struct transfer_id *id,
                               const struct piece *pieces, uint32_t n, transport_got got,
                               void *arg);

static void counting_peer_close(struct transport_peer *peer, transport_done done, void *arg)
{
    n_counted++;
    real_peer_close(peer, done, arg);
}

static enum status counting_get(struct transport_peer *peer, const struct transfer_id *id,
                                const struct piece *pieces, uint32_t n, transport_got got,
                                void *arg)
{
    n_counted += n;
    return real_get(peer, id, pieces, n, got, arg);
}

Test(sim_transfer, no_more_is_asked_of_a_worker_at_a_time_than_it_said_it_takes)
{
    const struct sim_options options = {.seed = 1};
    for (uint32_t pieces_max = 0; pieces_max <= 3; pieces_max++) {
        struct world w;
        struct view views[N_TRANSFERS] = {0};
        world_open(&w, &options);
        counting_ops = *w.reader->ops;
        real_get = counting_ops.get;
        counting_ops.get = counting_get;
        w.reader->ops = &counting_ops;
        n_counted = 0;
        w.owner_address.pieces_max = pieces_max;
        for (uint32_t t = 0; t < N_TRANSFERS; t++)
            open_transfer(&w, t);
        sim_transport_stall(w.owner, w.now_ns + 20 * NS_PER_MS);
        for (int step = 0; step < 10; step++)
            world_step(&w);
        cr_assert_eq(n_counted, pieces_max ? pieces_max : 1, "who said nothing takes one");
        for (int step = 0; step < 100; step++) {
            world_step(&w);
            look(&w, views);
        }
        for (uint32_t t = 0; t < N_TRANSFERS; t++) {
            cr_assert_eq(views[t].n_arrived, BLOCKS_EACH);
            close_transfer(&w, views, t);
        }
        world_close(&w);
    }
}

Test(sim_transfer, a_silent_reader_of_two_closing_leases_is_cut_off_once)
{
    const struct sim_options instant = {.seed = 1};
    const struct sim_options endless = {.jitter_ns = 1000000 * NS_PER_S};
    struct transport_address reader;
    struct world w;
    world_open(&w, &instant);
    counting_ops = *w.owner->ops;
    real_peer_close = counting_ops.peer_close;
    counting_ops.peer_close = counting_peer_close;
    w.owner->ops = &counting_ops;
    n_counted = 0;
    w.reader->ops->address(w.reader, &reader);
    cr_assert_eq(kv_sender_admit(w.sender, &reader), STATUS_OK);
    for (uint32_t t = 0; t < 2; t++)
        open_transfer_of(&w, t, 1);
    kv_receiver_progress(w.receiver, w.now_ns);
    sim_fabric_set_options(w.fabric, &endless); /* reads that are begun do not end */
    kv_sender_progress(w.sender, w.now_ns);
    for (uint32_t t = 0; t < 2; t++) {
        struct transfer_id id = id_of(t);
        kv_sender_close(w.sender, &id);
    }
    kv_sender_progress(w.sender, w.now_ns);
    cr_assert_eq(n_counted, 0);
    cr_assert_eq(kv_sender_deadline_ns(w.sender), w.now_ns + KV_SENDER_QUIET_NS);
    for (uint64_t i = 1; i <= 3; i++)
        kv_sender_progress(w.sender, w.now_ns + i * KV_SENDER_QUIET_NS);
    cr_assert_eq(n_counted, 1, "cut off %u times", n_counted);
    cr_assert_eq(kv_sender_deadline_ns(w.sender), DEADLINE_NONE);
    world_close(&w);
}

Test(sim_transfer, limits_and_duplicates_are_refused)
{
    struct world w;
    struct view views[N_TRANSFERS] = {0};
    const struct sim_options options = {.seed = 1};
    world_open(&w, &options);
    struct transfer_id again = id_of(0), more = id_of(99);
    for (uint32_t t = 0; t < N_TRANSFERS; t++)
        open_transfer(&w, t);
    cr_assert_eq(kv_sender_open(w.sender, &again, 200), STATUS_DUPLICATE_REQUEST);
    cr_assert_eq(kv_receiver_open(w.receiver, &again, &w.owner_address, NULL),
                 STATUS_DUPLICATE_REQUEST);
    cr_assert_eq(kv_sender_open(w.sender, &more, 200), STATUS_QUEUE_FULL);
    cr_assert_eq(kv_receiver_open(w.receiver, &more, &w.owner_address, NULL), STATUS_QUEUE_FULL);
    for (uint32_t t = 0; t < N_TRANSFERS; t++)
        close_transfer(&w, views, t);
    cr_assert_eq(kv_sender_open(w.sender, &again, 200), STATUS_OK);
    world_close(&w);
}
