/*
 * local_transport - what drivers share whose readers copy blocks out of the owner's pool themselves, on one host.
 *
 *     get: waiting -> taken by the driver, in this order -> ended (get_table.h)
 *
 * The owner does nothing for a get, and learns of none. The driver's object and its peers begin with the structs of here.
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

/* An object of so many bytes, zeros behind this one. INVALID_ARGUMENT: a zero bound. NO_MEMORY, IO_FAILED. */
MUST_CHECK enum status local_transport_create(const struct transport_ops *ops,
                                              const struct local_options *options, size_t bytes,
                                              struct local_transport **transport_out,
                                              struct error *error);
/* Its peers must have gone. */
void local_transport_destroy(struct local_transport *transport);

/* As transport_ops: get, peer_close, wake; the address without what the driver adds. */
enum status local_get(struct transport_peer *peer, const struct transfer_id *id,
                      const struct piece *pieces, uint32_t n, transport_got got, void *arg);
void local_peer_close(struct transport_peer *peer, transport_done done, void *arg);
void local_wake(struct transport *transport);
void local_address(const struct transport *transport, struct transport_address *address_out);
