/*
 * ucx_state - what the ucx_*.c files share: the transport, its peers, its gets.
 *
 *     ucx_transport.c   open, close, progress, sleep; the table of gets
 *     ucx_setup.c       UCX's context, worker, options, memory, log
 *     ucx_peer.c        endpoints: create, fail, close, count what UCX still owes
 *     ucx_am.c          driver am-tcp (ucx_wire.h)
 *     ucx_shm.c         driver shm-read
 *
 * No UCX header is included here, so that they stay in the .c files.
 *
 * Thread: the transport's.
 */
#pragma once

#include "kvtransfer/shm_folder.h"
#include "kvtransfer/ucx_transport.h"

#include <stdbool.h>

struct ucp_context;
struct ucp_worker;
struct ucp_ep;
struct ucp_mem;
struct ucp_rkey;

enum { POOL_KEY_BYTES_MAX = 512, WORKER_BYTES_MAX = 1024 };

struct ucx_transport;

struct ucx_peer {
    struct transport_peer base;
    struct ucx_peer *next;
    struct transport_address address;
    bool is_admitted;      /* may pull from here; else this worker gets from it */
    bool is_closing;       /* peer_close was called */
    uint64_t connection;   /* the reader's number of the endpoint; admitted: of its last pull */
    struct ucp_ep *ep;     /* NULL: none, or closing */
    struct ucp_rkey *rkey; /* shm-read */
    uint64_t pool_bytes;   /* shm-read: of the peer's pool */
    void *close_request;   /* UCX's, NULL: none */
    uint32_t n_callbacks;  /* that UCX owes for operations on the endpoint */
    uint32_t n_reads;      /* admitted: pieces of it taken and not sent */
    bool has_overrun;      /* admitted: has asked for more than it was told */
    transport_done done;
    void *done_arg;
};

enum get_state { GET_FREE, GET_OUT, GET_ENDED };

struct ucx_get {
    enum get_state state;
    uint32_t generation; /* one more each time the place is used */
    struct ucx_peer *peer;
    struct transfer_id id;
    struct piece piece;
    transport_got got;
    void *arg;
    enum status status;   /* when ENDED */
    struct ucx_get *next; /* of the free, or of the ended, or (shm-read) of the waiting */
};

struct get_list {
    struct ucx_get *first, *last;
};

/* A message under way: pulls of the reader, pieces of the owner. */
struct ucx_pull_message;
struct ucx_piece_message;

struct ucx_transport {
    struct transport base;
    enum ucx_driver driver;
    uint64_t incarnation;
    struct ucp_context *context;
    struct ucp_worker *worker;
    int event_fd; /* the worker's */
    int epoll_fd;
    uint8_t worker_address[WORKER_BYTES_MAX];
    uint32_t worker_address_bytes;

    struct shm_folder folder; /* shm-read: where UCX's segments have names */
    void *pool;               /* shm-read: shared memory, made by UCX */
    size_t pool_bytes;
    struct ucp_mem *pool_memory;
    uint8_t pool_key[POOL_KEY_BYTES_MAX]; /* u64 pool_bytes, then UCX's key */
    uint32_t pool_key_bytes;

    struct ucx_peer *peers;
    uint32_t n_peers, peers_max;
    uint64_t n_connections; /* made so far */
    bool any_failed;
    bool is_letting_go;   /* some peer waits for UCX to end what it has begun */
    struct ucx_get *gets; /* [gets_max] */
    uint32_t gets_max, n_free_gets;
    struct get_list free_gets, ended_gets, waiting_gets;

    struct ucx_pull_message *pulls; /* [gets_max] */
    struct ucx_pull_message *free_pulls;
    struct ucx_piece_message *pieces; /* [reads_max], and some for refusals */
    struct ucx_piece_message *free_pieces;
    struct ucx_piece_message *first_asked, *last_asked; /* pulled, not yet read */
    uint32_t reads_max, pieces_max;
    uint32_t n_reads; /* pieces taken and not sent */
};

static inline struct ucx_transport *ucx_of(const struct transport *transport)
{
    return (struct ucx_transport *)transport; /* base is its first member */
}

/* The get's bytes are there, or never will be: reports at the end of the round. */
void ucx_get_end(struct ucx_transport *transport, struct ucx_get *get, enum status status);
/* Ends all gets of a peer that are out. */
void ucx_gets_end(struct ucx_transport *transport, const struct ucx_peer *peer, enum status status);
void get_list_append(struct get_list *list, struct ucx_get *get);
struct ucx_get *get_list_take(struct get_list *list); /* NULL: empty */
