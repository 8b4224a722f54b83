/*
 * relayed - one client connection: moves bytes between its socket and the core's end of a socket pair.
 *
 *     client <-- TCP, maybe TLS --> relayed <-- socket pair --> gRPC's core
 *
 * The core gets its end when the client's preface has arrived. Bytes pass unchanged; the relay adds
 * RST_STREAM and GOAWAY between frames. Bytes that one side does not take are kept (at most one read),
 * and the other side is not read meanwhile. A client that takes no output is not read, either.
 *
 * A connection that a limit ends gets a GOAWAY at the next frame boundary and stays open for a moment, so
 * that the client can read it; its input is not read any more. A connection that the core has ended stays
 * open longer, and a little input is still read: the client may not have read all answers yet.
 *
 * Bounds: RELAYED_READ_BYTES kept in each direction; RELAYED_READ_BYTES_FEW while all connections
 * together keep RELAYED_KEPT_BYTES.
 *
 * Thread: the relay's.
 */
#pragma once

#include "rpc/peer.h"
#include "rpc/relay/handshakes.h"
#include "rpc/relay/session.h"
#include "rpc/relay/timer_heap.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RELAYED_READ_BYTES     (64u << 10)
#define RELAYED_READ_BYTES_FEW (4u << 10)
#define RELAYED_KEPT_BYTES     (8u << 20)
#define RELAYED_RESETS_MAX     256 /* that wait for the end of one of the core's frames */

enum relayed_side { RELAYED_CLIENT, RELAYED_CORE };

enum relayed_state {
    RELAYED_HANDSHAKE, /* a TLS handshake */
    RELAYED_NEW,       /* the core does not have it yet */
    RELAYED_OPEN,
    RELAYED_LAST_BYTES, /* the core has ended it; the last output is being sent */
    RELAYED_LINGER,     /* all output is sent; waits for the client to close */
    RELAYED_GONE,
};

struct relayed;

/* The state that the connections of one relay share. */
struct relayed_common {
    struct session_common session;
    struct address_book *addresses;
    struct timer_heap timers;
    int epoll;
    struct tls_files *tls; /* NULL: clear text */
    struct handshakes *handshakes;
    struct failed_handshakes {
        uint32_t n; /* since the last log line */
        uint64_t log_at_ns;
    } failed_handshakes;
    void (*hand_over)(void *arg, int fd); /* gives the core its end; the core owns it then */
    void *arg;
    bool is_closing; /* the core gets no new connection */
    size_t kept_bytes;
    uint8_t *buffer; /* [RELAYED_READ_BYTES] */
    struct relayed *first;
    struct relayed *oldest_unproven;
    struct relayed *newest_unproven;
    struct relayed *first_waiting; /* for their turn in the core, longest first */
    struct relayed *last_waiting;
    struct relayed *gone; /* freed after the events that may still point to them */
    uint32_t n;
    uint32_t n_unproven;
};

struct relayed_bytes {
    uint8_t *bytes; /* NULL: none */
    size_t at;
    size_t n;
};

struct relayed {
    struct relayed *next; /* in the list of all, or of `gone` */
    struct relayed *previous;
    struct relayed *next_unproven;
    struct relayed *previous_unproven;
    struct relayed *next_waiting;
    struct relayed *previous_waiting;
    bool is_unproven; /* in the list of unproven ones */
    bool is_waiting;  /* in the list of waiting ones */
    enum relayed_state state;
    struct handshake *handshake; /* the present handshake, or NULL */
    bool is_computing;           /* a step of it is being computed */
    struct tls_link *link;       /* after the handshake; NULL: clear text */
    int fds[2];
    uint32_t events[2];               /* set in epoll */
    struct relayed_bytes unsent[2];   /* bytes for that side */
    struct relayed_bytes unwalked;    /* bytes from the client, while it is paused or waits */
    uint8_t rest[FRAME_UPDATE_BYTES]; /* from the core: the start of a frame */
    uint8_t n_rest;
    uint32_t n_skip;          /* bytes from the core that are not forwarded */
    uint64_t paused_until_ns; /* 0: not paused */
    uint32_t farewell_bytes;  /* input still to be read after the core has ended it */
    uint64_t behind_since_ns; /* when unread input began to wait; 0: all input is read */
    uint64_t moved_ns;        /* when unsent bytes for the client last moved */
    uint64_t linger_until_ns;
    struct timer timer;
    struct session session;
    struct rpc_peer peer;
    struct {
        uint32_t stream;
        enum frame_error error;
    } * resets; /* for the client; [RELAYED_RESETS_MAX], allocated for the first */
    uint32_t n_resets;
    bool is_sent_away; /* but the GOAWAY is not sent yet */
    bool
        is_parted; /* the core is told that the client has left; what it said before is still forwarded */
};

/* Becomes the owner of fd and of the connection's entry in the address book. NO_MEMORY: both are released. */
MUST_CHECK enum status relayed_create(struct relayed_common *common, int fd,
                                      struct address_entry *address, const struct rpc_peer *peer,
                                      uint64_t now_ns, struct relayed **relayed_out);

/* That side can be read or written. */
void relayed_on_event(struct relayed_common *common, struct relayed *relayed,
                      enum relayed_side side, uint32_t events, uint64_t now_ns);
/* A step of its handshake is finished. */
void relayed_on_handshake(struct relayed_common *common, struct relayed *relayed,
                          enum tls_progress progress, uint64_t now_ns);
/* Tells the client to open no more streams here (GOAWAY); open ones continue. While the relay quits, the client
 * must also acknowledge a PING; the connection ends after that, when no stream is open. */
void relayed_send_away(struct relayed_common *common, struct relayed *relayed, uint64_t now_ns);
/* Its timer has expired. */
void relayed_on_time(struct relayed_common *common, struct relayed *relayed, uint64_t now_ns);
/* Lets large requests continue that have room now. */
void relayed_make_room(struct relayed_common *common, uint64_t now_ns);
/* Lets connections continue whose turn it is. */
void relayed_go_on(struct relayed_common *common, uint64_t now_ns);
/* Ends the connection of a client that was told to leave and is still here: the core can say nothing more, the client is not
 * read any more, and gets what the core has said. */
void relayed_part(struct relayed_common *common, struct relayed *relayed, uint64_t now_ns);
/* Ends the connection because of that limit. */
void relayed_end(struct relayed_common *common, struct relayed *relayed, enum relay_limit limit,
                 enum frame_error error, uint64_t now_ns);
/* Ends the connection at once to make room for another; the client gets a GOAWAY without an error. */
void relayed_give_up(struct relayed_common *common, struct relayed *relayed, uint64_t now_ns);
/* Ends the connection at once; relayed_free_gone frees it. */
void relayed_drop(struct relayed_common *common, struct relayed *relayed, uint64_t now_ns);
void relayed_free_gone(struct relayed_common *common);
