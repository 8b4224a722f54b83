#include "kvtransfer/ucx_transport.h"

#include "base/clock.h"
#include "kvtransfer/ucx_am.h"
#include "kvtransfer/ucx_peer.h"
#include "kvtransfer/ucx_setup.h"
#include "kvtransfer/ucx_shm.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <ucp/api/ucp.h>

/* Messages that one progress takes in before commands and new gets have their turn again. */
enum { ROUND_MESSAGES = 16 };

/* How often the end of a close is looked for: UCX tells it by no event. */
#define CLOSE_TICK_NS NS_PER_MS

const char *ucx_driver_name(enum ucx_driver driver)
{
    return driver == UCX_SHM_READ ? "shm-read" : "am-tcp";
}

/* ---- the table of gets ---- */

void get_list_append(struct get_list *list, struct ucx_get *get)
{
    get->next = NULL;
    *(list->first ? &list->last->next : &list->first) = get;
    list->last = get;
}

struct ucx_get *get_list_take(struct get_list *list)
{
    struct ucx_get *get = list->first;
    if (get) {
        list->first = get->next;
        if (!list->first)
            list->last = NULL;
    }
    return get;
}

void ucx_get_end(struct ucx_transport *transport, struct ucx_get *get, enum status status)
{
    assert(get->state == GET_OUT);
    get->state = GET_ENDED;
    get->status = status;
    get_list_append(&transport->ended_gets, get);
}

static void end_waiting(struct ucx_transport *transport, const struct ucx_peer *peer,
                        enum status status)
{
    struct get_list waiting = transport->waiting_gets;
    transport->waiting_gets = (struct get_list){0};
    for (struct ucx_get *get = get_list_take(&waiting); get; get = get_list_take(&waiting)) {
        if (get->peer == peer)
            ucx_get_end(transport, get, status);
        else
            get_list_append(&transport->waiting_gets, get);
    }
}

void ucx_gets_end(struct ucx_transport *transport, const struct ucx_peer *peer, enum status status)
{
    if (transport->driver == UCX_SHM_READ) {
        end_waiting(transport, peer, status); /* the others' callbacks will come */
        return;
    }
    for (uint32_t i = 0; i < transport->gets_max; i++) {
        struct ucx_get *get = &transport->gets[i];
        if (get->state == GET_OUT && get->peer == peer)
            ucx_get_end(transport, get, status);
    }
}

static unsigned report_gets(struct ucx_transport *transport)
{
    unsigned work = 0;
    struct get_list ended = transport->ended_gets;
    transport->ended_gets = (struct get_list){0};
    for (struct ucx_get *get = get_list_take(&ended); get; get = get_list_take(&ended)) {
        struct ucx_get copy = *get;
        get->state = GET_FREE;
        get_list_append(&transport->free_gets, get);
        transport->n_free_gets++;
        copy.got(copy.arg, &copy.piece, copy.status);
        work++;
    }
    return work;
}

static enum status create_gets(struct ucx_transport *transport)
{
    transport->gets = calloc(transport->gets_max, sizeof *transport->gets);
    if (!transport->gets)
        return STATUS_NO_MEMORY;
    for (uint32_t i = 0; i < transport->gets_max; i++)
        get_list_append(&transport->free_gets, &transport->gets[i]);
    transport->n_free_gets = transport->gets_max;
    return STATUS_OK;
}

/* ---- transport_ops ---- */

static void ucx_address(const struct transport *base, struct transport_address *address_out)
{
    const struct ucx_transport *transport = ucx_of(base);
    *address_out = (struct transport_address){.worker_bytes = transport->worker_address_bytes,
                                              .pool_key_bytes = transport->pool_key_bytes,
                                              .pool_base = (uint64_t)(uintptr_t)transport->pool,
                                              .incarnation = transport->incarnation,
                                              .pieces_max = transport->pieces_max};
    memcpy(address_out->worker, transport->worker_address, transport->worker_address_bytes);
    memcpy(address_out->pool_key, transport->pool_key, transport->pool_key_bytes);
}

static enum status ucx_connect(struct transport *base, const struct transport_address *address,
                               struct transport_peer **peer_out)
{
    struct ucx_peer *peer;
    struct ucx_transport *transport = ucx_of(base);
    TRY(ucx_peer_create(transport, address, false, &peer));
    peer->connection = ++transport->n_connections;
    enum status status = ucx_peer_open_endpoint(peer);
    if (status != STATUS_OK) {
        ucx_peer_close_endpoint(peer);
        if (ucx_peer_is_quiet(peer))
            ucx_peer_destroy(peer);
        else
            peer->is_closing = true; /* nobody is told: done is NULL */
        return status;
    }
    *peer_out = &peer->base;
    return STATUS_OK;
}

/* The endpoint is made when the first pull comes: UCX then finds the reader's own connection. */
static enum status ucx_admit(struct transport *base, const struct transport_address *address,
                             struct transport_peer **peer_out)
{
    struct ucx_peer *peer;
    TRY(ucx_peer_create(ucx_of(base), address, true, &peer));
    *peer_out = &peer->base;
    return STATUS_OK;
}

static enum status ucx_get(struct transport_peer *peer_base, const struct transfer_id *id,
                           const struct piece *pieces, uint32_t n, transport_got got, void *arg)
{
    struct ucx_peer *peer = (struct ucx_peer *)peer_base; /* base is its first member */
    struct ucx_transport *transport = ucx_of(peer_base->transport);
    assert(n > 0 && n <= GET_PIECES_MAX && !peer->is_closing && !peer->is_admitted);
    if (peer->base.is_failed)
        return STATUS_PEER_LOST;
    if (transport->n_free_gets < n)
        return STATUS_QUEUE_FULL;

    struct ucx_get *gets[GET_PIECES_MAX];
    for (uint32_t i = 0; i < n; i++) {
        assert(pieces[i].bytes > 0 && pieces[i].bytes <= PIECE_BYTES_MAX);
        gets[i] = get_list_take(&transport->free_gets);
        *gets[i] = (struct ucx_get){.state = GET_OUT,
                                    .generation = gets[i]->generation + 1,
                                    .peer = peer,
                                    .id = *id,
                                    .piece = pieces[i],
                                    .got = got,
                                    .arg = arg};
    }
    transport->n_free_gets -= n;
    if (transport->driver == UCX_SHM_READ) {
        ucx_shm_get(transport, gets, n);
        return STATUS_OK;
    }
    enum status status = ucx_am_get(peer, id, gets, n);
    if (status == STATUS_OK)
        return STATUS_OK;
    for (uint32_t i = 0; i < n; i++) {
        gets[i]->state = GET_FREE;
        get_list_append(&transport->free_gets, gets[i]);
    }
    transport->n_free_gets += n;
    return status;
}

static void ucx_peer_close(struct transport_peer *peer_base, transport_done done, void *arg)
{
    struct ucx_peer *peer = (struct ucx_peer *)peer_base;
    assert(!peer->is_closing);
    peer->is_closing = true;
    peer->done = done;
    peer->done_arg = arg;
    ucx_of(peer_base->transport)->is_letting_go = true; /* wait must not sleep through it */
}

/* After a failure: gets end at once, and so does an admitted reader's endpoint; that of a worker we
 * get from is closed by its owner's peer_close. */
static void handle_failures(struct ucx_transport *transport)
{
    if (!transport->any_failed)
        return;
    transport->any_failed = false;
    for (struct ucx_peer *peer = transport->peers; peer; peer = peer->next) {
        if (!peer->base.is_failed)
            continue;
        if (!peer->is_admitted)
            ucx_gets_end(transport, peer, STATUS_PEER_LOST);
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
    for (struct ucx_peer *peer = transport->peers, *next; peer; peer = next) {
        next = peer->next;
        if (!peer->is_closing) {
            any |= is_between_endpoints(peer) && !ucx_peer_is_quiet(peer);
            continue;
        }
        ucx_peer_close_endpoint(peer);
        if (!ucx_peer_is_quiet(peer)) {
            any = true;
            continue;
        }
        ucx_gets_end(transport, peer, STATUS_PEER_LOST);
        ucx_am_forget(transport, peer);
        report_gets(transport);
        next = peer->next; /* a callback may have added or closed peers */
        transport_done done = peer->done;
        void *arg = peer->done_arg;
        ucx_peer_destroy(peer);
        if (done)
            done(arg);
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
    work += transport->driver == UCX_SHM_READ ? ucx_shm_read(transport) : ucx_am_answer(transport);
    work += report_gets(transport);
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
    uint64_t wait_ms = (until_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS;
    int timeout_ms = until_ns == DEADLINE_NONE ? -1 : wait_ms > 60000 ? 60000 : (int)wait_ms;
    (void)epoll_wait(transport->epoll_fd, &event, 1, timeout_ms); /* EINTR: as if woken */
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
        for (struct ucx_peer *peer = transport->peers; peer; peer = peer->next) {
            ucx_peer_close_endpoint(peer);
            any |= !ucx_peer_is_quiet(peer);
        }
    }
}

static void ucx_close(struct transport *base)
{
    struct ucx_transport *transport = ucx_of(base);
    if (transport->worker)
        close_peers(transport);
    ucx_tear_down(
        transport); /* the last callbacks, if there are any, still find all they refer to */
    while (transport->peers)
        ucx_peer_destroy(transport->peers);
    ucx_am_finish(transport);
    free(transport->gets);
    free(transport);
}

static const struct transport_ops AM_TCP_OPS = {
    "am-tcp", ucx_close,      ucx_address,  ucx_connect, ucx_admit,
    ucx_get,  ucx_peer_close, ucx_progress, ucx_wait,    ucx_wake,
};

static const struct transport_ops SHM_READ_OPS = {
    "shm-read", ucx_close,      ucx_address,  ucx_connect, ucx_admit,
    ucx_get,    ucx_peer_close, ucx_progress, ucx_wait,    ucx_wake,
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
    transport->base.ops = options->driver == UCX_SHM_READ ? &SHM_READ_OPS : &AM_TCP_OPS;
    transport->driver = options->driver;
    transport->incarnation = options->incarnation;
    transport->peers_max = options->peers_max;
    transport->gets_max = options->gets_max;
    transport->reads_max = options->reads_max;
    transport->pieces_max = options->pieces_max ? options->pieces_max : options->reads_max;
    transport->epoll_fd = -1;

    enum status status = create_gets(transport);
    if (status == STATUS_OK)
        status = ucx_set_up(transport, options, error);
    if (status == STATUS_OK && options->driver == UCX_AM_TCP)
        status = ucx_am_init(transport, error);
    if (status != STATUS_OK) {
        ucx_close(&transport->base);
        return status;
    }
    *transport_out = &transport->base;
    return STATUS_OK;
}

void *ucx_transport_pool(const struct transport *transport)
{
    return ucx_of(transport)->pool;
}
