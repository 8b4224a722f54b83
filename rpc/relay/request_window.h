/*
 * request_window - how much of a stream's request its client may send: REQUEST_WINDOW_BYTES always, and more while there
 * is room for the whole message.
 *
 *     the core's WINDOW_UPDATE --request_window_update--> passes, or is withheld
 *     room has become free     --request_window_grant---> the withheld one is due to the client
 *
 * gRPC's core keeps what has come of a message in one pool of all connections, and resets whoever comes next when that
 * is full. So a message of more than a window is let in whole or waits, its stream alone, by the flow control of
 * HTTP/2: half-sent requests take the places of other large ones for a while, and never those of small ones.
 *
 * A place is as large as the message says that it is. It is kept until the answer begins, after the request's end for
 * REQUEST_TAKEN_NS at most: by then the core has given it away.
 *
 * Counted in a request_room of the connection, of its address and of all; each lets one message in, however large.
 *
 * No I/O. Thread: the owner's (plain data).
 */
#pragma once

#include "base/clock.h"
#include "rpc/relay/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REQUEST_WINDOW_BYTES 65535u /* HTTP/2's first window; the core is told to keep to it */
#define REQUEST_PREFIX_BYTES 5u     /* of gRPC before a message: compressed or not, length */
#define REQUEST_TAKEN_NS     NS_PER_S

struct request_room {
    uint64_t bytes;
    uint32_t n_waiting; /* streams with something withheld */
    bool has_freed;     /* of all: since the owner looked, or a stream needs none any more */
};

/* Those that one connection's requests count in. */
struct request_rooms {
    const struct relay_limits *limits;
    struct request_room *all;
    struct request_room *address;
    struct request_room *own;
    bool is_exempt; /* from the address's limit */
};

/* Starts as zeros but for allowed, which is REQUEST_WINDOW_BYTES. */
struct request_window {
    uint64_t received; /* of messages */
    uint64_t allowed;  /* of messages: padding takes from it */
    uint64_t reserved; /* in the rooms */
    uint64_t since_ns; /* it has had room, or waited for it; 0: neither */
    uint64_t withheld_ns;
    uint64_t ended_ns; /* of the request, with bytes reserved; 0: it has not */
    uint32_t withheld; /* bytes of WINDOW_UPDATE; 0: none */
    uint8_t n_prefix;
    uint8_t prefix[REQUEST_PREFIX_BYTES];
};

/* Bytes of its messages have come. */
void request_window_hear(struct request_window *window, const uint8_t *bytes, size_t n);
/* Bytes have come that take of what its client was allowed, and are no message's: nobody keeps them. */
void request_window_hear_padding(struct request_window *window, size_t n);
/* More has come than its client was allowed, which the core cannot see. */
bool request_window_is_broken(const struct request_window *window);
/* True: it may pass. Else it is withheld, and limit_out is what it meets. */
bool request_window_update(struct request_window *window, const struct request_rooms *rooms,
                           uint32_t bytes, uint64_t now_ns, enum relay_limit *limit_out);
/* How many withheld bytes the client is to be allowed now; 0: none are withheld, or there is still no room. */
uint32_t request_window_grant(struct request_window *window, const struct request_rooms *rooms);
/* Whether that would give any. */
bool request_window_may_grant(const struct request_window *window,
                              const struct request_rooms *rooms);
/* Whether what has begun to come takes room, or waits for it. */
bool request_window_is_large(const struct request_window *window);
/* The request has ended, with all that it needed. */
void request_window_end(struct request_window *window, const struct request_rooms *rooms,
                        uint64_t now_ns);
/* It was answered, or is over: what had come of it is with the core no more. */
void request_window_release(struct request_window *window, const struct request_rooms *rooms);
