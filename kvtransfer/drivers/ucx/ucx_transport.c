#include "kvtransfer/drivers/ucx/ucx_transport.h"

#include "base/clock.h"
#include "kvtransfer/drivers/ucx/ucx_am.h"
#include "kvtransfer/drivers/ucx/ucx_options.h"
#include "kvtransfer/drivers/ucx/ucx_peer.h"
#include "kvtransfer/drivers/ucx/ucx_pieces.h"
#include "kvtransfer/drivers/ucx/ucx_setup.h"
#include "kvtransfer/transport/accept_gate.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <ucp/api/ucp.h>

/* Messages that one progress takes in, so that commands and new gets get their turn. */
enum { ROUND_MESSAGES = 16 };

/* How often progress looks for the end of a close: UCX has no event for it. */
#define CLOSE_TICK_NS NS_PER_MS

/* ---- transport_ops ---- */

static void ucx_address(const struct transport *base, struct transport_address *address_out)
{
    const struct ucx_transport *transport = ucx_of(base);
    *address_out = (struct transport_address){.worker_bytes = transport->worker_address_bytes,
                                              .incarnation = transport->incarnation,
                                              .pieces_max = transport->bounds.pieces_max,
                                              .n_hosts = transport->n_hosts};
    memcpy(address_out->hosts, transport->hosts, sizeof address_out->hosts);
    memcpy(address_out->worker, transport->worker_address, transport->worker_address_bytes);
}

/* The peer's endpoint may connect to the data port before this side knows more about it. */
static void ucx_expect(struct transport *base, const struct transport_address *address)
{
    (void)base;
    accept_gate_permit(address->incarnation, address->hosts, address->n_hosts);
}

static enum status ucx_connect(struct transport *base, const struct transport_address *address,
                               struct transport_peer **peer_out)
{
    struct ucx_peer *peer;
    struct ucx_transport *transport = ucx_of(base);
    assert(transport->worker);
    TRY(ucx_peer_create(transport, address, false, &peer));
    ucx_expect(base, address);
    peer->connection = ++transport->n_connections;
    enum status status = ucx_peer_open_endpoint(peer);
    if (status == STATUS_OK) {
        *peer_out = &peer->base;
        return STATUS_OK;
    }
    ucx_peer_close_endpoint(peer);
    if (ucx_peer_is_quiet(peer)) {
        ucx_peer_revoke(peer);
        peer_list_remove(&transport->peers, &peer->base);
    } else {
        peer->base.is_closing = true; /* nobody is told: done is NULL */
    }
    return status;
}

/* The endpoint is made at the first pull: UCX then uses the reader's own connection. */
static enum status ucx_admit(struct transport *base, const struct transport_address *address,
                             struct transport_peer **peer_out)
{
    struct ucx_peer *peer;
    TRY(ucx_peer_create(ucx_of(base), address, true, &peer));
    ucx_expect(base, address);
    *peer_out = &peer->base;
    return STATUS_OK;
}

static enum status ucx_get(struct transport_peer *peer_base, const struct transfer_id *id,
                           const struct piece *pieces, uint32_t n, transport_got got, void *arg)
{
    struct ucx_peer *peer = ucx_peer_of(peer_base);
    struct ucx_transport *transport = ucx_of(peer_base->transport);
    assert(!peer_base->is_closing && !peer->base.is_admitted);
    if (peer->base.is_failed)
        return STATUS_PEER_LOST;

    struct get *gets[GET_PIECES_MAX];
    TRY(get_table_take(&transport->gets, &(struct get_call){peer_base, id, pieces, n, got, arg},
                       gets));
    enum status status = ucx_am_get(peer, id, gets, n);
    if (status != STATUS_OK)
        get_table_put_back(&transport->gets, gets, n);
    return status;
}

static void ucx_peer_close(struct transport_peer *peer, transport_done done, void *arg)
{
    peer_list_close(&ucx_of(peer->transport)->peers, peer, done, arg);
    ucx_of(peer->transport)->is_letting_go = true; /* wait must not sleep through it */
}

/* After a failure, gets end at once, and the endpoint of an admitted reader is closed. The caller's peer_close closes the endpoint
 * of a worker that this one gets from. */
static void handle_failures(struct ucx_transport *transport)
{
    if (!transport->any_failed)
        return;
    transport->any_failed = false;
    for (struct transport_peer *next = transport->peers.first; next; next = next->next) {
        struct ucx_peer *peer = ucx_peer_of(next);
        if (!next->is_failed)
            continue;
        if (!peer->base.is_admitted)
            get_table_end_peer(&transport->gets, &peer->base, STATUS_PEER_LOST);
        else
            ucx_peer_close_endpoint(peer);
    }
}

static bool is_between_endpoints(const struct ucx_peer *peer)
{
    return peer->close_request || (!peer->ep && peer->n_callbacks > 0);
}

/* True: some peer waits for UCX to let go of it. */
static bool advance_closes(struct ucx_transport *transport, unsigned *work)
{
    bool any = false;
    for (struct transport_peer *base = transport->peers.first, *next; base; base = next) {
        struct ucx_peer *peer = ucx_peer_of(base);
        next = base->next;
        if (!base->is_closing) {
            any |= is_between_endpoints(peer) && !ucx_peer_is_quiet(peer);
            continue;
        }
        ucx_peer_close_endpoint(peer);
        if (!ucx_peer_is_quiet(peer)) {
            any = true;
            continue;
        }
        get_table_end_peer(&transport->gets, &peer->base, STATUS_PEER_LOST);
        ucx_pieces_forget(transport, peer);
        get_table_report(&transport->gets);
        assert(base->n_reads == 0 && !peer->ep && peer->n_callbacks == 0);
        next = base->next; /* a callback may have added or closed peers */
        ucx_peer_revoke(peer);
        peer_list_end(&transport->peers, base);
        ++*work;
    }
    return any;
}

static unsigned ucx_progress(struct transport *base, uint64_t now_ns)
{
    (void)now_ns;
    struct ucx_transport *transport = ucx_of(base);
    unsigned work = 0;
    for (unsigned n = 0; n < ROUND_MESSAGES && ucp_worker_progress(transport->worker); n++)
        work++;
    handle_failures(transport);
    work += ucx_am_answer(transport);
    work += get_table_report(&transport->gets);
    transport->is_letting_go = advance_closes(transport, &work);
    return work;
}

static void ucx_wait(struct transport *base, uint64_t until_ns)
{
    struct ucx_transport *transport = ucx_of(base);
    uint64_t now_ns = clock_now_ns();
    if (until_ns <= now_ns || ucp_worker_arm(transport->worker) != UCS_OK)
        return; /* BUSY: something came in between */
    if (transport->is_letting_go && until_ns - now_ns > CLOSE_TICK_NS)
        until_ns = now_ns + CLOSE_TICK_NS;

    struct epoll_event event;
    (void)epoll_wait(transport->epoll_fd, &event, 1,
                     clock_poll_ms(now_ns, until_ns)); /* EINTR: as if woken */
}

static void ucx_wake(struct transport *base)
{
    (void)ucp_worker_signal(ucx_of(base)->worker); /* fails only when it is awake already */
}

/* Ends every endpoint and progresses until UCX has let go of all of them. */
static void close_peers(struct ucx_transport *transport)
{
    const uint64_t limit_ns = clock_now_ns() + 5 * NS_PER_S; /* U12: 1.13.1 takes milliseconds */
    bool any = true;
    while (any && clock_now_ns() < limit_ns) {
        ucp_worker_progress(transport->worker);
        any = false;
        for (struct transport_peer *next = transport->peers.first; next; next = next->next) {
            ucx_peer_close_endpoint(ucx_peer_of(next));
            any |= !ucx_peer_is_quiet(ucx_peer_of(next));
        }
    }
}

static void ucx_close(struct transport *base)
{
    struct ucx_transport *transport = ucx_of(base);
    if (transport->worker)
        close_peers(transport);
    ucx_tear_down(transport); /* the last callbacks still find everything that they refer to */
    while (transport->peers.first) {
        ucx_peer_revoke(ucx_peer_of(transport->peers.first));
        peer_list_remove(&transport->peers, transport->peers.first);
    }
    assert(transport->peers.n == 0);
    ucx_am_finish(transport);
    get_table_finish(&transport->gets);
    free(transport);
}

static const struct transport_ops AM_TCP_OPS = {
    .name = "am-tcp",
    .piece_bytes_max = UCX_PIECE_BYTES,
    .close = ucx_close,
    .address = ucx_address,
    .expect = ucx_expect,
    .connect = ucx_connect,
    .admit = ucx_admit,
    .get = ucx_get,
    .peer_close = ucx_peer_close,
    .progress = ucx_progress,
    .wait = ucx_wait,
    .wake = ucx_wake,
};

enum status ucx_transport_open(const struct ucx_options *options, struct transport **transport_out,
                               struct error *error)
{
    if (options->peers_max == 0 || options->gets_max == 0 || options->reads_max == 0)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "peers_max, gets_max and reads_max must not be 0");
    struct ucx_transport *transport = calloc(1, sizeof *transport);
    if (!transport)
        return STATUS_NO_MEMORY;
    transport->base.ops = &AM_TCP_OPS;
    transport->incarnation = options->incarnation;
    transport->peers.n_max = options->peers_max;
    /* When a connection breaks, the reader may ask again before the pieces that UCX was sending have ended. */
    transport->bounds = (struct asked_bounds){
        .reads_max = options->reads_max,
        .pieces_max = options->pieces_max ? options->pieces_max : options->reads_max,
        .spare = PIECES_SENDING};
    transport->epoll_fd = -1;

    enum status status = get_table_init(&transport->gets, options->gets_max);
    if (status == STATUS_OK)
        status = ucx_set_up(transport, options, error);
    if (status == STATUS_OK)
        status = ucx_am_init(transport, error);
    if (status != STATUS_OK) {
        ucx_close(&transport->base);
        return status;
    }
    *transport_out = &transport->base;
    return STATUS_OK;
}
