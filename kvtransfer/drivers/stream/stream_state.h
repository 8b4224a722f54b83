/*
 * stream_state - what the stream_*.c files share: the transport, its peers, its connections.
 *
 *     stream_transport.c    open, close, progress, sleep; peers
 *     stream_listener.c     sockets that listen; who is let in
 *     stream_connection.c   one stream: connect, prove, lose
 *     stream_traffic.c      what is read of it and written
 *     stream_reader.c       pulls out, pieces in
 *     stream_owner.c        pulls in, pieces out; stream_pieces.c: what waits for that
 *     stream_link.c         a socket, with or without TLS (stream_tls.c)
 *     stream_frame.c        what crosses it
 *
 * Thread: the transport's.
 */
#pragma once

#include "kvtransfer/drivers/stream/stream_frame.h"
#include "kvtransfer/drivers/stream/stream_link.h"
#include "kvtransfer/drivers/stream/stream_options.h"
#include "kvtransfer/transport/asked_piece.h"
#include "kvtransfer/transport/get_table.h"
#include "kvtransfer/transport/peer_list.h"
#include "kvtransfer/transport/shm_folder.h"

#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/un.h>

enum { STREAM_EVENTS_MAX = 64 };

/* What is written: a head, and a body that stays where it is. */
struct stream_message {
    struct stream_message *next;
    const uint8_t *body;
    size_t body_bytes;
    uint8_t head[FRAME_HEAD_BYTES];
};

struct message_list {
    struct stream_message *first, *last;
};

/* Reader: pieces it wants. message is its first member. */
struct stream_pull {
    struct stream_message message;
    uint8_t items[FRAME_ITEMS_BYTES_MAX];
};

/* Owner: one piece that was asked for. message is its first member. */
struct stream_piece {
    struct stream_message message;
    struct asked_piece asked;
};

struct stream_peer {
    struct transport_peer base;
    struct transport_address address;
    struct stream_connection *connection; /* NULL: none */
    uint32_t host;                        /* of its address, that is being tried */
};

enum connection_state {
    CONNECTION_FREE,
    CONNECTION_OPENING, /* to an owner: the kernel connects */
    CONNECTION_SHAKING, /* hands, of TLS */
    CONNECTION_GREETED, /* from a reader: its hello is awaited */
    CONNECTION_OPEN,
};

struct stream_connection {
    struct stream_transport *transport;
    enum connection_state state;
    uint32_t generation;      /* one more each time the place is used */
    bool is_accepted;         /* from a reader; else to an owner */
    bool is_ready;            /* in the list of those with something to do */
    bool is_held;             /* there is no room for what it asks: not read */
    bool is_blocked;          /* the socket takes no more */
    uint32_t watched;         /* events of epoll; 0: none yet */
    uint64_t since_ns;        /* of what has to be proved in time */
    enum port_refusal why;    /* accepted: of its loss, should it come before its proof */
    uint64_t reader;          /* incarnation; accepted: from its proof */
    uint64_t number;          /* of the connection, as in its hello */
    struct stream_peer *peer; /* accepted: NULL before its hello, and while it is not admitted */
    uint8_t secret[TRANSPORT_SECRET_BYTES]; /* accepted, tls: that the reader has proved */
    struct stream_connection *next_ready;
    struct stream_link link;

    struct frame_parser parser;
    struct get *filling; /* reader: whose piece is coming in */
    uint32_t crc32c;     /* of what has come of it */
    uint32_t n_taken;    /* owner: items of the pull that came in */

    struct message_list out;   /* being written, in this order */
    size_t out_bytes;          /* of their bodies */
    size_t sent;               /* bytes of the first */
    struct message_list asked; /* owner: pieces not yet read */
    struct stream_message hello;
};

struct stream_listener {
    int fd;
    uint16_t port;
};

struct stream_transport {
    struct transport base;
    enum stream_driver driver;
    uint64_t incarnation;
    uint64_t now_ns; /* of this round */
    int epoll_fd, wake_fd;
    int spare_fd; /* given up for a moment when there are no others */
    struct stream_listener listeners[HOST_ADDRESSES_MAX];
    uint32_t n_listeners;
    bool is_deaf;             /* no descriptors: the listeners are not watched */
    uint64_t next_tick_ns;    /* when times are looked at again */
    struct shm_folder folder; /* unix: where the socket is */
    struct sockaddr_un path;
    struct host_address hosts[HOST_ADDRESSES_MAX]; /* tls: of each listener */
    uint8_t secret[TRANSPORT_SECRET_BYTES];        /* tls */
    struct tls_context *tls;

    struct peer_list peers; /* of struct stream_peer */
    struct get_table gets;
    struct stream_pull *pulls; /* [gets.gets_max] */
    struct message_list free_pulls;
    struct stream_piece *pieces; /* [reads_max], and some for refusals */
    struct message_list free_pieces;
    struct asked_bounds bounds;

    struct stream_connection *connections; /* [connections_max] */
    uint32_t connections_max;
    uint32_t unproven_max;
    uint64_t proof_ns;
    uint32_t n_opening; /* to owners, not yet open */
    uint32_t n_held;
    uint64_t n_numbers; /* given to connections so far */
    struct stream_connection *first_ready, *last_ready;
    uint32_t n_ready;
    struct epoll_event events[STREAM_EVENTS_MAX];
    int n_events; /* seen by wait, not yet dealt with */
};

static inline struct stream_transport *stream_of(const struct transport *transport)
{
    return (struct stream_transport *)transport; /* base is its first member */
}

static inline struct stream_peer *stream_peer_of(struct transport_peer *peer)
{
    return (struct stream_peer *)peer; /* base is its first member */
}

static inline void message_append(struct message_list *list, struct stream_message *message)
{
    message->next = NULL;
    *(list->first ? &list->last->next : &list->first) = message;
    list->last = message;
}

/* To be taken next. */
static inline void message_put_back(struct message_list *list, struct stream_message *message)
{
    message->next = list->first;
    if (!list->first)
        list->last = message;
    list->first = message;
}

/* NULL: empty. */
static inline struct stream_message *message_take(struct message_list *list)
{
    struct stream_message *message = list->first;
    if (message)
        list->first = message->next;
    return message;
}
