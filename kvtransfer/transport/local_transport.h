/*
 * local_transport - the common part of drivers whose readers copy blocks out of the owner's pool, on one host.
 *
 *     get: waiting -> taken by the driver, in this order -> ended (get_table.h)
 *
 * The owner takes no part in a get, and does not learn of it. The driver's object begins with struct local_transport.
 *
 * Thread: as transport.h.
 */
#pragma once

#include "kvtransfer/transport/get_table.h"
#include "kvtransfer/transport/peer_list.h"

#include <stddef.h>

struct local_options {
    uint64_t incarnation;
    uint32_t peers_max; /* connected or admitted, closing ones included */
    uint32_t gets_max;  /* pieces asked for and not arrived, all peers */
    uint32_t pieces_max;
};

struct local_transport {
    struct transport base;
    uint64_t incarnation;
    uint32_t pieces_max;
    int wake_fd;
    struct peer_list peers;
    struct get_table gets;
    struct get_list waiting;
};

static inline struct local_transport *local_of(const struct transport *transport)
{
    return (struct local_transport *)transport; /* base is its first member */
}

/* Makes an object of that many bytes; what is behind struct local_transport is zero. INVALID_ARGUMENT: a bound is 0. NO_MEMORY,
 * IO_FAILED. */
MUST_CHECK enum status local_transport_create(const struct transport_ops *ops,
                                              const struct local_options *options, size_t bytes,
                                              struct local_transport **transport_out,
                                              struct error *error);
/* It must have no peers. */
void local_transport_destroy(struct local_transport *transport);

/* get, peer_close, wake and address of transport_ops. The driver adds the rest of the address. */
enum status local_get(struct transport_peer *peer, const struct transfer_id *id,
                      const struct piece *pieces, uint32_t n, transport_got got, void *arg);
void local_peer_close(struct transport_peer *peer, transport_done done, void *arg);
void local_wake(struct transport *transport);
void local_address(const struct transport *transport, struct transport_address *address_out);
