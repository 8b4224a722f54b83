/*
 * http_connection - one accepted connection of a port: what comes, which request it is at, what it is sent.
 *
 *     handshake -> idle -> head -> body -> answering -> idle ...     a request that is refused goes straight to
 *                                              |                     answering, or, without a head, to flushing
 *                                              v
 *                                           flushing -> lingering    until the client has closed, too
 *
 * The port's thread owns it. What a function ends is freed by http_connection_settle, which each event calls last.
 *
 * Bounds: HTTP_WIRE_BYTES waiting for the socket beside what one step adds, HTTP_READ_BYTES read ahead.
 */
#pragma once

#include "api/http/http_body.h"
#include "api/http/http_exchange_state.h"
#include "api/http/http_route.h"
#include "rpc/relay/address_book.h"
#include "rpc/relay/handshakes.h"
#include "rpc/relay/listener.h"

#include <sys/queue.h>

#define HTTP_READ_BYTES 16384u
#define HTTP_WIRE_BYTES 65536u
#define HTTP_TRIM_BYTES (16u << 20) /* of large bodies at once */
#define HTTP_LINGER_MAX                                                                            \
    64 /* connections beyond connections_max that only hear why they are refused */

struct event;
struct event_base;
struct tls_files;
struct evbuffer;

enum http_phase {
    HTTP_HANDSHAKE,
    HTTP_IDLE,
    HTTP_HEAD_COMES,
    HTTP_BODY_COMES,
    HTTP_ANSWERING,
    HTTP_FLUSHING, /* the last bytes for the client */
    HTTP_LINGERING,
};

struct http_connection {
    TAILQ_ENTRY(http_connection) link_in_port;
    struct http_common *common;
    int fd;
    struct event *readable;
    struct event *writable;
    struct event *timer;
    struct event *resume;
    bool is_reading, is_writing;
    enum http_phase phase;
    bool is_over;        /* to be freed */
    bool has_said_hello; /* a byte has come */
    bool has_ended;      /* the client has said all that it will */
    struct address_entry *address;
    struct rpc_peer peer;

    struct handshake *handshake;
    bool is_computing;
    struct tls_link *link;

    struct evbuffer *in;   /* decrypted, not looked at yet */
    struct evbuffer *wire; /* for the socket, encrypted */
    struct http_head_scan scan;
    char *head; /* so far, [head_room] */
    size_t head_bytes, head_room;
    struct http_body body;
    struct http_exchange *exchange;
    const struct http_route *route; /* of the exchange; NULL: it is refused */
    uint64_t body_counted;          /* in the address */
    bool is_running;                /* counts among the requests */
    bool resets;                    /* instead of an end in order */
    uint32_t n_lingered;            /* bytes that came while it lingers */

    uint64_t since_ns; /* it has been in this phase; of a body, since its last byte */
    uint64_t due_ns;   /* of the phase */
    uint64_t body_due_ns;
    uint64_t reader_due_ns; /* DEADLINE_NONE: nothing waits for the socket */
    size_t reader_left;     /* bytes that must have left by then */
    uint64_t peek_ns;       /* when to look whether a client that is not read has left */
    uint64_t quiet_ns;      /* when nothing of an answer was sent for too long */
    uint64_t armed_ns;      /* of the timer */
};

/* What connections of a port share. */
struct http_common {
    struct event_base *base;
    struct http_limits limits;
    const struct http_route *routes;
    size_t n_routes;
    const struct http_doorkeeper *doorkeeper;
    const struct http_error_form *error_form;
    const struct http_metrics *metrics; /* may be NULL */
    struct tls_files *tls;
    struct handshakes *handshakes;
    struct http_outbox *outbox;
    struct address_book *addresses;
    TAILQ_HEAD(http_connections, http_connection) connections; /* oldest first */
    uint32_t n_connections;
    uint32_t n_running;
    uint64_t log_tls_at_ns;
    uint32_t n_failed_handshakes;
    bool is_draining;
    struct event *trim; /* what large bodies took is given back */
    uint8_t buffer[HTTP_READ_BYTES];
    uint8_t plain[TLS_PLAIN_MAX];
};

/* fd and one connection of address are taken over, whatever comes of it. NO_MEMORY. */
MUST_CHECK enum status http_connection_create(struct http_common *common, int fd,
                                              struct address_entry *address,
                                              const struct sockaddr_storage *at,
                                              struct http_connection **connection_out);
/* Frees it if it is over; else waits for what is next. */
void http_connection_settle(struct http_connection *connection);
/* Now, whatever it does. */
void http_connection_destroy(struct http_connection *connection);

/* A connection beyond a limit: hears that, and no more. */
void http_connection_turn_away(struct http_connection *connection, enum http_limit limit);
/* Its exchange has something new. */
void http_connection_pump(struct http_connection *connection);
void http_connection_on_handshake(struct http_connection *connection, enum tls_progress progress);
/* No request after the one that it is at. */
void http_connection_drain(struct http_connection *connection);
/* How easily it may end for another one; 0: never. */
enum { HTTP_EASE_BUSY = 1, HTTP_EASE_IDLE, HTTP_EASE_FREE };
unsigned http_connection_dispensable(const struct http_connection *connection);

/* ---- of its own files ---- */

void http_connection_count(const struct http_connection *connection, enum http_limit limit);
void http_connection_enter(struct http_connection *connection, enum http_phase phase,
                           uint64_t limit_ns);
/* What is in `in`, as far as it goes. */
void http_connection_advance(struct http_connection *connection);
/* The head is not whole or no head: answers by itself, and ends. */
void http_connection_refuse(struct http_connection *connection, unsigned code,
                            unsigned retry_after_s, const char *sentence);
/* The exchange's request does not come to its end. */
void http_connection_refuse_body(struct http_connection *connection, unsigned code,
                                 unsigned retry_after_s, const char *sentence);
void http_connection_leave_exchange(struct http_connection *connection, enum status why);
/* The last that it is sent has been put. is_clean: TLS says that it is the end. */
void http_connection_say_last(struct http_connection *connection, bool is_clean);
void http_connection_count_answer(const struct http_connection *connection, unsigned code);

void http_connection_trim_later(struct http_common *common);

/* http_connection_request.c: bytes of `in` go to the head or body. */
void http_connection_take_head(struct http_connection *connection);
void http_connection_take_body(struct http_connection *connection);

/* http_connection_io.c */
void http_connection_read(struct http_connection *connection);
/* Puts the bytes of from, encrypted where there is TLS. */
void http_connection_put(struct http_connection *connection, struct evbuffer *from);
void http_connection_put_link_output(struct http_connection *connection, struct tls_link *link);
void http_connection_write(struct http_connection *connection);
/* Of a client that says no more. */
bool http_connection_may_still_read(const struct http_connection *connection);
bool http_connection_has_peer_left(const struct http_connection *connection);
