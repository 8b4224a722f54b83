/*
 * ucx_state - what the ucx_*.c files share: the transport, its peers, its gets.
 *
 *     ucx_transport.c   open, close, progress, sleep
 *     ucx_setup.c       UCX's context, worker, memory
 *     ucx_peer.c        endpoints: create, fail, close, count what UCX still owes
 *     ucx_pieces.c      pieces that were asked for, until they are sent
 *     ucx_am.c          driver am-tcp (pull_wire.h)
 *
 * No UCX header is included here, so that they stay in the .c files.
 *
 * Thread: the transport's.
 */
#pragma once

#include "kvtransfer/transport/asked_piece.h"
#include "kvtransfer/transport/get_table.h"
#include "kvtransfer/transport/peer_list.h"

#include <stdbool.h>

struct ucp_context;
struct ucp_worker;
struct ucp_ep;

enum { WORKER_BYTES_MAX = 1024 };

struct ucx_transport;

struct ucx_peer {
    struct transport_peer base;
    struct transport_address address;
    uint64_t connection;  /* the reader's number of the endpoint; admitted: of its last pull */
    struct ucp_ep *ep;    /* NULL: none, or closing */
    void *close_request;  /* UCX's, NULL: none */
    uint32_t n_callbacks; /* that UCX owes for operations on the endpoint */
    uint32_t n_reading; /* admitted: pieces of it whose bytes are on their way out of the device */
};

/* A message under way: pulls of the reader, pieces of the owner. */
struct ucx_pull_message;
struct ucx_piece_message;

struct ucx_transport {
    struct transport base;
    uint64_t incarnation;
    struct ucp_context *context;
    struct ucp_worker *worker;
    int event_fd; /* the worker's */
    int epoll_fd;
    uint8_t worker_address[WORKER_BYTES_MAX];
    uint32_t worker_address_bytes;
    bool knows_addresses;                          /* ucx_address.h is of this UCX */
    struct host_address hosts[HOST_ADDRESSES_MAX]; /* am-tcp */
    uint32_t n_hosts;

    struct peer_list peers; /* of struct ucx_peer */
    uint64_t n_connections; /* made so far */
    bool any_failed;
    bool is_letting_go; /* some peer waits for UCX to end what it has begun */
    struct get_table gets;

    struct ucx_pull_message *pulls; /* [gets.gets_max] */
    struct ucx_pull_message *free_pulls;
    struct ucx_piece_message *pieces; /* [reads_max], and some for refusals */
    struct ucx_piece_message *free_pieces;
    struct ucx_piece_message *first_asked, *last_asked; /* pulled, not yet read */
    struct asked_bounds bounds;
};

static inline struct ucx_transport *ucx_of(const struct transport *transport)
{
    return (struct ucx_transport *)transport; /* base is its first member */
}

static inline struct ucx_peer *ucx_peer_of(struct transport_peer *peer)
{
    return (struct ucx_peer *)peer; /* base is its first member */
}
