/* peer_cache: one connection an incarnation, the longest unused makes room, and a holder hears of the
 * beginning and the end of a closing. */
#include "kvtransfer/drivers/sim/sim_transport.h"
#include "kvtransfer/peer_cache.h"

#include <criterion/criterion.h>
#include <string.h>

enum { PEERS_MAX = 2, CLOSE_NS = 1000 };

struct rig {
    struct sim_fabric *fabric;
    struct transport *transport;
    struct peer_cache cache;
    uint64_t now_ns;
    uint64_t closing, closed; /* the last incarnation of which it was said */
};

static void on_closing(void *arg, struct cached_peer *peer)
{
    ((struct rig *)arg)->closing = peer->address.incarnation;
}

static void on_closed(void *arg, struct cached_peer *peer)
{
    ((struct rig *)arg)->closed = peer->address.incarnation;
}

static void open_rig(struct rig *rig)
{
    const struct sim_options options = {.close_ns = CLOSE_NS};
    *rig = (struct rig){.now_ns = 1};
    cr_assert_eq(sim_fabric_create(&options, &rig->fabric), STATUS_OK);
    cr_assert_eq(sim_transport_open(rig->fabric, 1, 100, &rig->transport), STATUS_OK);
    rig->cache.on_closing = on_closing;
    rig->cache.on_closed = on_closed;
    rig->cache.arg = rig;
    cr_assert_eq(peer_cache_init(&rig->cache, rig->transport, PEERS_MAX), STATUS_OK);
}

static void close_rig(struct rig *rig)
{
    peer_cache_finish(&rig->cache);
    rig->transport->ops->close(rig->transport);
    sim_fabric_destroy(rig->fabric);
}

static enum status try_acquire_at(struct rig *rig, uint32_t place, uint64_t incarnation,
                                  struct cached_peer **peer_out)
{
    struct transport_address address = {.worker_bytes = sizeof place, .incarnation = incarnation};
    memcpy(address.worker, &place, sizeof place);
    return peer_cache_acquire(&rig->cache, &address, peer_out);
}

static enum status try_acquire(struct rig *rig, uint64_t incarnation, struct cached_peer **peer_out)
{
    return try_acquire_at(rig, 7, incarnation, peer_out);
}

static struct cached_peer *acquire(struct rig *rig, uint64_t incarnation)
{
    struct cached_peer *peer = NULL;
    cr_assert_eq(try_acquire(rig, incarnation, &peer), STATUS_OK);
    cr_assert_eq(peer->state, PEER_OPEN);
    return peer;
}

static void end_closing(struct rig *rig)
{
    rig->now_ns += CLOSE_NS;
    rig->transport->ops->progress(rig->transport, rig->now_ns);
}

Test(peer_cache, an_incarnation_is_connected_once)
{
    struct rig rig;
    open_rig(&rig);
    struct cached_peer *first = acquire(&rig, 11);
    cr_assert_eq(acquire(&rig, 11), first);
    cr_assert_eq(first->n_holders, 2);
    cr_assert_neq(acquire(&rig, 12), first);
    close_rig(&rig);
}

Test(peer_cache, who_says_that_it_is_another_worker_is_not_asked_in_its_place)
{
    struct rig rig;
    struct cached_peer *liar, *other, *again;
    open_rig(&rig);
    cr_assert_eq(try_acquire_at(&rig, 8, 11, &liar), STATUS_OK);
    cr_assert_eq(try_acquire_at(&rig, 7, 11, &other), STATUS_OK);
    cr_assert_neq(other, liar);
    cr_assert_eq(try_acquire_at(&rig, 8, 11, &again), STATUS_OK);
    cr_assert_eq(again, liar);

    peer_cache_drop(&rig.cache, 11); /* all that is known of it */
    cr_assert_eq(liar->state, PEER_CLOSING);
    cr_assert_eq(other->state, PEER_CLOSING);
    end_closing(&rig);
    close_rig(&rig);
}

Test(peer_cache, the_longest_unused_makes_room_and_a_held_one_does_not)
{
    struct rig rig;
    open_rig(&rig);
    struct cached_peer *first = acquire(&rig, 11), *second = acquire(&rig, 12), *other;
    cr_assert_eq(try_acquire(&rig, 13, &other), STATUS_QUEUE_FULL);
    peer_cache_release(second);
    peer_cache_release(first);
    cr_assert_eq(acquire(&rig, 12), second, "and so the first is the longest unused");
    acquire(&rig, 13);
    cr_assert_eq(rig.closing, 11);
    cr_assert_eq(rig.closed, 0, "its place is not free yet");
    end_closing(&rig);
    cr_assert_eq(rig.closed, 11);
    cr_assert_eq(first->state, PEER_FREE);
    close_rig(&rig);
}

Test(peer_cache, what_is_dropped_closes_and_comes_back_as_a_new_connection)
{
    struct rig rig;
    open_rig(&rig);
    struct cached_peer *first = acquire(&rig, 11);
    peer_cache_drop(&rig.cache, 12);
    cr_assert_eq(first->state, PEER_OPEN, "another life");
    peer_cache_drop(&rig.cache, 11);
    cr_assert_eq(first->state, PEER_CLOSING);
    cr_assert_eq(rig.closing, 11);
    cr_assert_neq(acquire(&rig, 11), first, "nothing is asked of one that closes");
    end_closing(&rig);
    cr_assert_eq(rig.closed, 11);
    acquire(&rig, 12);
    peer_cache_drop_all(&rig.cache);
    cr_assert_eq(rig.cache.n_open, 0);
    end_closing(&rig);
    close_rig(&rig);
}

Test(peer_cache, a_lost_peer_is_replaced_at_once_and_closed_when_asked)
{
    struct rig rig;
    open_rig(&rig);
    struct cached_peer *first = acquire(&rig, 11);
    first->peer->is_failed = true;
    cr_assert_neq(acquire(&rig, 11), first);
    cr_assert_eq(rig.closing, 0);
    peer_cache_close_lost(&rig.cache);
    cr_assert_eq(rig.closing, 11);
    cr_assert_eq(first->state, PEER_CLOSING);
    end_closing(&rig);
    close_rig(&rig);
}
