/*
 * relayed - one connection of a client: bytes between its socket and the core's end of a socket pair.
 *
 *     client <-- TCP, maybe TLS --> relayed <-- socket pair --> gRPC's core
 *
 * The core gets its end when the client's preface has come. Bytes pass as they are; what the relay
 * adds is RST_STREAM and GOAWAY, between frames. What one side does not take is kept (at most what was
 * read at once), and the other is not read meanwhile; nor is a client that takes nothing.
 *
 * A connection that is ended for a limit says GOAWAY where a frame may be put, and stays for a moment, so
 * that the client can read that; it is not read any more. One that the core has ended stays longer, and a
 * little of it is read: its client may have answers before it that it has not taken yet.
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
#define RELAYED_RESETS_MAX     256 /* that wait for a place between the core's frames */

enum relayed_side { RELAYED_CLIENT, RELAYED_CORE };

enum relayed_state {
    RELAYED_HANDSHAKE, /* of TLS */
    RELAYED_NEW,       /* the core knows nothing of it */
    RELAYED_OPEN,
    RELAYED_LAST_BYTES, /* the core has ended it; what it said is on its way */
    RELAYED_LINGER,     /* all is said; waits for the client's end */
    RELAYED_GONE,
};

struct relayed;

/* What the connections of one relay share. */
struct relayed_common {
    struct session_common session;
    struct address_book *addresses;
    struct timer_heap timers;
    int epoll;
    struct tls_files *tls; /* NULL: clear text */
    struct handshakes *handshakes;
    struct failed_handshakes {
        uint32_t n; /* since the log said so last */
        uint64_t log_at_ns;
    } failed_handshakes;
    void (*hand_over)(void *arg, int fd); /* gives the core its end, whose owner the core becomes */
    void *arg;
    bool is_closing; /* nothing new for the core */
    size_t kept_bytes;
    uint8_t *buffer; /* [RELAYED_READ_BYTES] */
    struct relayed *first;
    struct relayed *oldest_unproven;
    struct relayed *newest_unproven;
    struct relayed *first_waiting; /* for their turn in the core; the one that waits longest */
    struct relayed *last_waiting;
    struct relayed *gone; /* freed after the events that may still name them */
    uint32_t n;
    uint32_t n_unproven;
};

struct relayed_bytes {
    uint8_t *bytes; /* NULL: none */
    size_t at;
    size_t n;
};

struct relayed {
    struct relayed *next; /* of all, or of those gone */
    struct relayed *previous;
    struct relayed *next_unproven;
    struct relayed *previous_unproven;
    struct relayed *next_waiting;
    struct relayed *previous_waiting;
    bool is_unproven; /* in that list */
    bool is_waiting;  /* in that one */
    enum relayed_state state;
    struct handshake *handshake; /* under way, or NULL */
    bool is_computing;           /* a step of it */
    struct tls_link *link;       /* after it; NULL: clear text */
    int fds[2];
    uint32_t events[2];               /* asked of epoll */
    struct relayed_bytes unsent[2];   /* for that side */
    struct relayed_bytes unwalked;    /* of the client's, while it is paused or waits */
    uint8_t rest[FRAME_UPDATE_BYTES]; /* of the core's: a frame's begin that tells too little */
    uint8_t n_rest;
    uint32_t n_skip;          /* of the core's, that do not pass */
    uint64_t paused_until_ns; /* 0: it is not */
    uint32_t farewell_bytes;  /* of the client's that are still read, once the core has ended it */
    uint64_t behind_since_ns; /* first paused since all it had said was read; 0: it is */
    uint64_t moved_ns;        /* when unsent bytes for the client last moved */
    uint64_t linger_until_ns;
    struct timer timer;
    struct session session;
    struct rpc_peer peer;
    struct {
        uint32_t stream;
        enum frame_error error;
    } * resets; /* for the client, [RELAYED_RESETS_MAX] once one has waited */
    uint32_t n_resets;
    bool is_sent_away; /* but has not heard of it */
};

/* Becomes owner of fd and of the address's connection, also when it fails: NO_MEMORY, then both are gone. */
MUST_CHECK enum status relayed_create(struct relayed_common *common, int fd,
                                      struct address_entry *address, const struct rpc_peer *peer,
                                      uint64_t now_ns, struct relayed **relayed_out);

/* Something can be read of or written to that side. */
void relayed_on_event(struct relayed_common *common, struct relayed *relayed,
                      enum relayed_side side, uint32_t events, uint64_t now_ns);
/* A step of its handshake has been computed. */
void relayed_on_handshake(struct relayed_common *common, struct relayed *relayed,
                          enum tls_progress progress, uint64_t now_ns);
/* Its client is to open no more streams here (GOAWAY); those that are open go on. While the relay quits it is asked
 * to confirm that (PING), and the connection ends when it has and no stream is open. */
void relayed_send_away(struct relayed_common *common, struct relayed *relayed, uint64_t now_ns);
/* Its timer is due. */
void relayed_on_time(struct relayed_common *common, struct relayed *relayed, uint64_t now_ns);
/* Large requests go on that there is room for now. */
void relayed_make_room(struct relayed_common *common, uint64_t now_ns);
/* Those whose turn it is go on. */
void relayed_go_on(struct relayed_common *common, uint64_t now_ns);
/* Ends it for that limit. */
void relayed_end(struct relayed_common *common, struct relayed *relayed, enum relay_limit limit,
                 enum frame_error error, uint64_t now_ns);
/* Ends it for another: at once, but its client hears that nothing was wrong. */
void relayed_give_up(struct relayed_common *common, struct relayed *relayed, uint64_t now_ns);
/* Ends it at once; it is freed by relayed_free_gone. */
void relayed_drop(struct relayed_common *common, struct relayed *relayed, uint64_t now_ns);
void relayed_free_gone(struct relayed_common *common);
