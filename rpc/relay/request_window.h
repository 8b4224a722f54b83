/*
 * request_window - how much of a stream's request its client may send: always REQUEST_WINDOW_BYTES, and more if there
 * is room for the whole message.
 *
 *     the core's WINDOW_UPDATE --request_window_update--> is forwarded, or withheld
 *     room has become free     --request_window_grant---> the client gets the withheld one
 *
 * gRPC's core keeps the received part of messages in one pool for all connections, and resets further streams when
 * that is full. So a message of more than one window either has room for all of it, or its stream (and no other)
 * waits, by the flow control of HTTP/2. Half-sent requests may keep room from other large requests for a while, but
 * never from small ones.
 *
 * The reserved room is the length in the message's prefix. It is kept until the answer begins, but at most
 * REQUEST_TAKEN_NS after the end of the request: by then the core has passed the message on.
 *
 * It counts in the request_room of the connection, of its address and of all connections; each always has room for
 * one message of any length.
 *
 * No I/O. Thread: the owner's (plain data).
 */
#pragma once

#include "base/clock.h"
#include "rpc/relay/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REQUEST_WINDOW_BYTES 65535u /* HTTP/2's first window; the core is configured to keep it */
#define REQUEST_PREFIX_BYTES 5u     /* before each gRPC message: compressed flag, length */
#define REQUEST_TAKEN_NS     NS_PER_S

struct request_room {
    uint64_t bytes;
    uint32_t n_waiting; /* streams with a withheld update */
    bool has_freed;     /* of all: room was freed or is not needed */
};

/* The rooms in which the requests of one connection count. */
struct request_rooms {
    const struct relay_limits *limits;
    struct request_room *all;
    struct request_room *address;
    struct request_room *own;
    bool is_exempt; /* from the limit of the address */
};

/* All zeros at the start, except allowed, which is REQUEST_WINDOW_BYTES. */
struct request_window {
    uint64_t received; /* of messages */
    uint64_t allowed;  /* bytes that the client may send; padding uses it, too */
    uint64_t reserved; /* in the rooms */
    uint64_t since_ns; /* since when it has room or waits for it; 0: neither */
    uint64_t withheld_ns;
    uint64_t ended_ns; /* when the request ended, with bytes reserved; 0: not ended */
    uint32_t withheld; /* bytes of WINDOW_UPDATE; 0: none */
    uint8_t n_prefix;
    uint8_t prefix[REQUEST_PREFIX_BYTES];
};

/* Bytes of messages have arrived. */
void request_window_hear(struct request_window *window, const uint8_t *bytes, size_t n);
/* Bytes of padding have arrived: they use up what the client may send, but are not kept. */
void request_window_hear_padding(struct request_window *window, size_t n);
/* The client has sent more than it may, which the core cannot see. */
bool request_window_is_broken(const struct request_window *window);
/* True: forward the update. False: it is withheld, and limit_out is the exceeded limit. */
bool request_window_update(struct request_window *window, const struct request_rooms *rooms,
                           uint32_t bytes, uint64_t now_ns, enum relay_limit *limit_out);
/* How many withheld bytes the client may send now; 0: none are withheld, or there is still no room. */
uint32_t request_window_grant(struct request_window *window, const struct request_rooms *rooms);
/* Whether request_window_grant would return more than 0. */
bool request_window_may_grant(const struct request_window *window,
                              const struct request_rooms *rooms);
/* Whether the present message uses room, or waits for it. */
bool request_window_is_large(const struct request_window *window);
/* The request has ended; it needs no more room. */
void request_window_end(struct request_window *window, const struct request_rooms *rooms,
                        uint64_t now_ns);
/* It was answered, or is over: the core does not hold its bytes any more. */
void request_window_release(struct request_window *window, const struct request_rooms *rooms);
