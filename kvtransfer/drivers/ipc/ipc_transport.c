#include "kvtransfer/drivers/ipc/ipc_transport.h"

#include "base/clock.h"
#include "base/log/log.h"
#include "base/wake.h"
#include "kvtransfer/drivers/ipc/ipc_lease.h"

#include <assert.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct ipc_peer {
    struct transport_peer base;
    struct device_handle handle;
    int lease;                  /* -1: of an admitted reader, or gone */
    struct device_mapping pool; /* none while it is leasing */
    uint32_t n_out, n_copying;  /* gets that have not ended; of them begun */
    bool is_leaving;            /* no copy begins any more */
};

struct ipc_transport {
    struct local_transport local;
    struct device *device;
    struct ipc_door door; /* of one that is read from */
    struct device_handle handle;
    bool is_lent;
    struct device_ticket *copied; /* [gets_max] of gets that are being copied */
    struct get_list copying;
    struct pollfd *fds; /* [1 + 1 + 2 * peers_max] */
};

static struct ipc_transport *ipc_of(const struct transport *transport)
{
    return (struct ipc_transport *)transport; /* local is its first member */
}

static struct ipc_peer *peer_of(struct transport_peer *peer)
{
    return (struct ipc_peer *)peer; /* base is its first member */
}

/* ---- the lease ---- */

static void leave(struct ipc_peer *peer)
{
    peer->is_leaving = true;
    peer->base.is_failed = true;
}

static void map(struct ipc_transport *transport, struct ipc_peer *peer)
{
    struct error error = {""};
    enum status status = device_import(transport->device, &peer->handle, &peer->pool, &error);
    if (status == STATUS_OK) {
        log_event(LOG_INFO, NULL, "pool mapped", LOG_HEX("incarnation", peer->base.incarnation),
                  LOG_U64("bytes", peer->pool.bytes));
        return;
    }
    log_event(LOG_WARN, NULL, "pool not mapped", LOG_HEX("incarnation", peer->base.incarnation),
              LOG_TEXT("why", error.text));
    leave(peer);
}

static void hear(struct ipc_transport *transport, struct ipc_peer *peer)
{
    enum status status = peer->pool.base ? ipc_lease_check(peer->lease)
                                         : ipc_lease_hear(peer->lease, peer->base.incarnation);
    if (status == STATUS_PEER_LOST)
        leave(peer);
    else if (status == STATUS_OK && !peer->pool.base)
        map(transport, peer);
}

/* Unmaps the pool and closes the lease, which tells the owner. */
static void let_go(struct ipc_transport *transport, struct ipc_peer *peer)
{
    assert(peer->is_leaving && peer->n_copying == 0 && peer->lease >= 0);
    device_import_close(transport->device, &peer->pool);
    close(peer->lease);
    peer->lease = -1;
}

/* Reads what owners have said. The pool of a peer that is leaving is unmapped when the last copy out of it is done. */
static unsigned tend_leases(struct ipc_transport *transport)
{
    unsigned work = 0;
    for (struct transport_peer *next = transport->local.peers.first; next; next = next->next) {
        struct ipc_peer *peer = peer_of(next);
        if (peer->lease < 0)
            continue;
        bool was_mapped = peer->pool.base;
        if (!peer->is_leaving)
            hear(transport, peer);
        work += was_mapped != (peer->pool.base != NULL);
        if (peer->is_leaving && peer->n_copying == 0) {
            let_go(transport, peer);
            work++;
        }
    }
    return work;
}

/* ---- copies ---- */

static void end_get(struct ipc_transport *transport, struct get *get, enum status status)
{
    struct ipc_peer *peer = peer_of(get->peer);
    assert(peer->n_out > peer->n_copying && "what is being copied has not ended");
    peer->n_out--;
    get_table_end(&transport->local.gets, get, status);
}

/* OK: it is on its way. */
static enum status begin_copy(const struct ipc_transport *transport, const struct ipc_peer *peer,
                              const struct piece *piece)
{
    const struct device_mapping *pool = &peer->pool;
    assert(pool->base && piece->bytes > 0);
    if (piece->bytes > pool->bytes || piece->remote_offset > pool->bytes - piece->bytes)
        return STATUS_NOT_HELD;
    device_copy(transport->device, DEVICE_COPY, piece->target, pool->base + piece->remote_offset,
                piece->bytes);
    return STATUS_OK;
}

/* Enqueues all copies that can begin, and one ticket behind them. */
static unsigned begin_copies(struct ipc_transport *transport)
{
    unsigned work = 0;
    struct get_list waiting = transport->local.waiting, begun = {0};
    transport->local.waiting = (struct get_list){0};
    for (struct get *get = get_list_take(&waiting); get; get = get_list_take(&waiting)) {
        struct ipc_peer *peer = peer_of(get->peer);
        if (!peer->is_leaving && !peer->pool.base) {
            get_list_append(&transport->local.waiting, get);
            continue;
        }
        enum status status = peer->is_leaving ? STATUS_PEER_LOST
                                              : begin_copy(transport, peer, &get->piece);
        work++;
        if (status != STATUS_OK) {
            end_get(transport, get, status);
            continue;
        }
        peer->n_copying++;
        get_list_append(&begun, get);
    }
    if (!begun.first)
        return work;
    const struct device_ticket ticket = device_record(transport->device, DEVICE_COPY);
    for (struct get *get = get_list_take(&begun); get; get = get_list_take(&begun)) {
        transport->copied[get - transport->local.gets.gets] = ticket;
        get_list_append(&transport->copying, get);
    }
    return work;
}

/* Copies end in the order in which they began: they are on one queue. */
static void end_copies(struct ipc_transport *transport)
{
    while (transport->copying.first) {
        const struct get *first = transport->copying.first;
        const struct device_ticket ticket = transport->copied[first - transport->local.gets.gets];
        enum status status = device_poll(transport->device, ticket);
        if (status == STATUS_NOT_READY)
            return;
        struct get *get = get_list_take(&transport->copying);
        struct ipc_peer *peer = peer_of(get->peer);
        assert(peer->n_copying > 0);
        peer->n_copying--;
        end_get(transport, get, status);
    }
}

static enum status ipc_get(struct transport_peer *peer, const struct transfer_id *id,
                           const struct piece *pieces, uint32_t n, transport_got got, void *arg)
{
    TRY(local_get(peer, id, pieces, n, got, arg));
    peer_of(peer)->n_out += n;
    return STATUS_OK;
}

/* ---- peers ---- */

static enum status create_peer(struct ipc_transport *transport, int lease,
                               const struct transport_address *address,
                               struct transport_peer **peer_out)
{
    TRY(peer_list_add(&transport->local.peers, &transport->local.base, address->incarnation,
                      sizeof(struct ipc_peer), peer_out));
    struct ipc_peer *peer = peer_of(*peer_out);
    peer->lease = lease;
    if (lease >= 0)
        memcpy(&peer->handle, address->pool_key, sizeof peer->handle);
    return STATUS_OK;
}

static enum status ipc_connect(struct transport *base, const struct transport_address *address,
                               struct transport_peer **peer_out)
{
    struct ipc_transport *transport = ipc_of(base);
    if (address->worker_bytes == 0 || address->pool_key_bytes != sizeof transport->handle)
        return STATUS_CORRUPT;
    if (address->incarnation == transport->local.incarnation)
        return STATUS_PEER_LOST; /* no driver maps its own memory */
    if (transport->local.peers.n == transport->local.peers.n_max)
        return STATUS_QUEUE_FULL;
    int lease = ipc_lease_ask(address);
    if (lease < 0)
        return STATUS_PEER_LOST;
    enum status status = create_peer(transport, lease, address, peer_out);
    if (status != STATUS_OK)
        close(lease);
    return status;
}

/* Nobody asks: readers take what they want. */
static enum status ipc_admit(struct transport *base, const struct transport_address *address,
                             struct transport_peer **peer_out)
{
    TRY(create_peer(ipc_of(base), -1, address, peer_out));
    (*peer_out)->is_admitted = true;
    return STATUS_OK;
}

static void ipc_peer_close(struct transport_peer *peer, transport_done done, void *arg)
{
    leave(peer_of(peer));
    local_peer_close(peer, done, arg);
}

/* Nothing of it can touch memory any more. */
static bool has_left(struct transport_peer *peer)
{
    return peer->is_closing && peer_of(peer)->n_out == 0 && peer_of(peer)->lease < 0;
}

/* Ends the closing peers whose gets have all ended. A callback may close peers and get, so the search begins anew after each. */
static unsigned end_closing(struct ipc_transport *transport)
{
    unsigned work = 0;
    while (transport->local.peers.any_closing) {
        struct transport_peer *peer = transport->local.peers.first;
        transport->local.peers.any_closing = false;
        for (const struct transport_peer *p = peer; p; p = p->next)
            transport->local.peers.any_closing |= p->is_closing;
        while (peer && !has_left(peer))
            peer = peer->next;
        if (!peer)
            break;
        assert(peer_of(peer)->n_copying == 0);
        peer_list_end(&transport->local.peers, peer);
        work++;
    }
    return work;
}

/* ---- the rest of transport_ops ---- */

static void ipc_address(const struct transport *base, struct transport_address *address_out)
{
    const struct ipc_transport *transport = ipc_of(base);
    local_address(base, address_out);
    if (!transport->is_lent)
        return;
    address_out->worker_bytes = (uint32_t)strlen(transport->door.path);
    memcpy(address_out->worker, transport->door.path, address_out->worker_bytes);
    address_out->pool_key_bytes = sizeof transport->handle;
    memcpy(address_out->pool_key, &transport->handle, sizeof transport->handle);
    static_assert(sizeof transport->handle <= sizeof address_out->pool_key, "crosses in Describe");
}

static unsigned ipc_progress(struct transport *base, uint64_t now_ns)
{
    struct ipc_transport *transport = ipc_of(base);
    unsigned work = wake_take(transport->local.wake_fd);
    if (transport->is_lent)
        work += ipc_door_progress(&transport->door, now_ns);
    end_copies(transport);
    work += tend_leases(transport);
    work += begin_copies(transport);
    end_copies(transport);
    work += get_table_report(&transport->local.gets);
    work += end_closing(transport);
    return work + (transport->copying.first != NULL); /* nobody wakes who waits for the device */
}

static void ipc_wait(struct transport *base, uint64_t until_ns)
{
    struct ipc_transport *transport = ipc_of(base);
    uint64_t now_ns = clock_now_ns();
    if (until_ns <= now_ns || transport->copying.first || transport->local.peers.any_closing)
        return;
    uint32_t n = 0;
    transport->fds[n++] = (struct pollfd){.fd = transport->local.wake_fd, .events = POLLIN};
    if (transport->is_lent) {
        n += ipc_door_fds(&transport->door, now_ns, transport->fds + n);
        if (transport->door.deaf_until_ns > now_ns && transport->door.deaf_until_ns < until_ns)
            until_ns = transport->door.deaf_until_ns;
    }
    for (struct transport_peer *next = transport->local.peers.first; next; next = next->next) {
        const struct ipc_peer *peer = peer_of(next);
        if (peer->lease >= 0 && !peer->is_leaving)
            transport->fds[n++] = (struct pollfd){.fd = peer->lease, .events = POLLIN};
    }
    (void)poll(transport->fds, n, clock_poll_ms(now_ns, until_ns));
}

/* Copies under way end, then all is let go. */
static void leave_all(struct ipc_transport *transport)
{
    const struct get *last = transport->copying.last;
    enum status status = STATUS_OK;
    if (transport->copying.first)
        status = device_wait(transport->device,
                             transport->copied[last - transport->local.gets.gets]);
    assert(status == STATUS_OK || status == STATUS_DEVICE_LOST);
    (void)status;
    while (transport->local.peers.first) {
        struct ipc_peer *peer = peer_of(transport->local.peers.first);
        peer->n_copying = 0;
        leave(peer);
        if (peer->lease >= 0)
            let_go(transport, peer);
        peer_list_remove(&transport->local.peers, &peer->base);
    }
}

static void ipc_close(struct transport *base)
{
    struct ipc_transport *transport = ipc_of(base);
    leave_all(transport);
    if (!ipc_door_close(&transport->door, IPC_LET_GO_NS))
        log_warn("readers of the pool have not let go of it, and it is freed");
    free(transport->copied);
    free(transport->fds);
    local_transport_destroy(&transport->local);
}

static const struct transport_ops IPC_OPS = {
    .name = "cuda-ipc",
    .is_direct = true,
    .close = ipc_close,
    .address = ipc_address,
    .connect = ipc_connect,
    .admit = ipc_admit,
    .get = ipc_get,
    .peer_close = ipc_peer_close,
    .progress = ipc_progress,
    .wait = ipc_wait,
    .wake = local_wake,
};

static enum status set_up(struct ipc_transport *transport, const struct ipc_options *options,
                          struct error *error)
{
    const uint32_t peers_max = options->local.peers_max;
    if (!device_can_export(transport->device))
        return error_set(error, STATUS_UNSUPPORTED,
                         "cuda-ipc maps memory of a GPU, and device %s has none",
                         device_name(transport->device));
    transport->copied = calloc(options->local.gets_max, sizeof *transport->copied);
    transport->fds = calloc(2 + 2 * (size_t)peers_max, sizeof *transport->fds);
    if (!transport->copied || !transport->fds)
        return STATUS_NO_MEMORY;
    return options->is_read_from
               ? ipc_door_open(&transport->door, options->local.incarnation, peers_max, error)
               : STATUS_OK;
}

enum status ipc_transport_open(const struct ipc_options *options, struct transport **transport_out,
                               struct error *error)
{
    struct local_transport *local;
    TRY(local_transport_create(&IPC_OPS, &options->local, sizeof(struct ipc_transport), &local,
                               error));
    ipc_of(&local->base)->device = options->device;
    enum status status = set_up(ipc_of(&local->base), options, error);
    if (status != STATUS_OK) {
        ipc_close(&local->base);
        return status;
    }
    *transport_out = &local->base;
    return STATUS_OK;
}

enum status ipc_transport_lend(struct transport *base, const struct device_memory *pool,
                               struct error *error)
{
    struct ipc_transport *transport = ipc_of(base);
    assert(!transport->is_lent && transport->door.readers);
    TRY(device_export(transport->device, pool, &transport->handle, error));
    transport->is_lent = true;
    return STATUS_OK;
}
