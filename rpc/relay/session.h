/*
 * session - the HTTP/2 state of one client connection, from its frame heads. It decides what is forwarded, what waits,
 * which stream is reset and when the connection ends.
 *
 *     client's bytes --session_client--> to the core          no I/O: the caller forwards the walked
 *     core's bytes   --session_core----> to the client        bytes, and does what the event says
 *     time           --session_expire
 *
 * Headers and messages are not decoded. A WINDOW_UPDATE of the core may be withheld for a while. A WINDOW_UPDATE of 0
 * from the client is changed to 1 byte before its stream is reset: by HTTP/2 it ends only that stream, but gRPC's core
 * would end the connection. Sessions update the counts of their address and of all connections.
 *
 * The length of DATA frames is not limited here: the core raises its largest frame as it measures the network. Frames
 * that a client must send in response to output (WINDOW_UPDATE, PING, acknowledgements) are paid for by that output.
 *
 * Thread: the relay's.
 */
#pragma once

#include "rpc/relay/address_book.h"
#include "rpc/relay/frame.h"
#include "rpc/relay/limits.h"
#include "rpc/relay/open_streams.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Streams that a client may open beyond streams_max before it has read our SETTINGS. */
#define SESSION_STREAMS_SLACK 16

/* The state of all connections of a relay. */
struct session_common {
    const struct relay_limits *limits;
    const struct relay_metrics *metrics; /* may be NULL */
    struct budget resets;
    uint32_t n_half_open;
    uint32_t n_half_open_addresses; /* that have half-open streams */
    struct request_room room;
    struct turns turns;
    bool is_quitting; /* the core's GOAWAYs are hidden: they deny calls that the core has seen */
};

enum session_event_kind {
    SESSION_NOTHING, /* go on */
    SESSION_BEGIN,   /* the preface is complete; its bytes are not among those to forward */
    SESSION_PAUSE,   /* do not read the client until until_ns */
    SESSION_WAIT,    /* the same, until session_must_wait is false */
    SESSION_SKIP,  /* do not forward the next n_bytes (maybe more than are here); they are walked */
    SESSION_RESET, /* send RST_STREAM for stream, with error, here and in the other direction */
    SESSION_CLOSE, /* end the connection with a GOAWAY that has error and the name of limit */
};

struct session_event {
    enum session_event_kind kind;
    enum relay_limit limit;
    enum frame_error error;
    uint32_t stream;
    uint32_t n_bytes;
    bool allows_one; /* SESSION_RESET: the last walked byte must become 1 (a WINDOW_UPDATE of 0) */
    uint64_t until_ns;
};

struct session {
    struct session_common *common;
    struct address_entry *address;
    uint64_t began_ns;
    uint64_t called_ns; /* when its last stream was opened; began_ns: none was */
    uint64_t due_ns;    /* when to call session_expire; DEADLINE_NONE: never */

    struct frame_walker client;
    struct frame_walker core;
    struct frame_head frame; /* of the client: the present or the last frame */
    uint8_t n_padding;       /* of that frame, if it is DATA */
    uint8_t n_preface;       /* bytes of the preface that have arrived */
    bool is_http1;           /* its first bytes were an HTTP/1 request */
    bool has_settings;       /* the client's first SETTINGS have arrived */
    bool has_core_settings;  /* the core's SETTINGS were sent; they must be the first frame */
    bool was_served;         /* a call had an answer that was not a refusal */
    bool is_in_headers;      /* inside a header list: the client may send no other frame */
    bool is_refused;         /* the stream that this header list opens is refused */
    enum relay_limit refused_by;
    uint32_t header_bytes;
    uint32_t n_header_frames;
    uint8_t update_bits; /* the bits of a WINDOW_UPDATE's bytes so far */
    uint32_t last_stream;
    uint64_t frame_began_ns; /* when the present frame or its last DATA began; 0: none */
    uint64_t pause_until_ns; /* 0: no pause */

    struct open_streams streams;
    uint32_t n_half_open;
    uint32_t n_asked; /* streams with a whole request and no answer */
    struct request_room room;
    uint32_t n_granted;       /* streams with granted bytes of which the client is not told yet */
    uint32_t n_settings_sent; /* not acknowledged */
    uint64_t settings_sent_ns;
    uint32_t n_pings_sent;    /* not acknowledged */
    uint32_t n_acks_to_leave; /* until the acknowledgement of the PING after our GOAWAY */
    bool is_leaving;          /* that GOAWAY and PING were sent */
    uint32_t paid_pings;
    uint32_t paid_window_bytes; /* output that pays for WINDOW_UPDATEs, SESSION_WINDOW_COST each */
    struct budget pings;
    struct budget controls;
};

#define SESSION_WINDOW_COST 1024u

void session_init(struct session *session, struct session_common *common,
                  struct address_entry *address, uint64_t now_ns);
/* Removes its streams from the counts, and takes them from the address's budget of resets. */
void session_finish(struct session *session, uint64_t now_ns);

/* Walks n bytes from the client until the caller must act. Returns the number of walked bytes: up
 * to and with SESSION_BEGIN they are the preface, else the caller forwards them. */
size_t session_client(struct session *session, const uint8_t *bytes, size_t n, uint64_t now_ns,
                      struct session_event *event_out);
/* The same for bytes from the core, but a part of a frame's head, or of a WINDOW_UPDATE, is not walked: pass it
 * again with the following bytes. wants_boundary: returns at the first place where a frame may be inserted. */
size_t session_core(struct session *session, const uint8_t *bytes, size_t n, bool wants_boundary,
                    uint64_t now_ns, struct session_event *event_out);

/* Checks the time limits; gives one event for each call, until SESSION_NOTHING; then due_ns is the
 * next time. A SESSION_RESET is only given where session_may_reset is true. */
void session_expire(struct session *session, uint64_t now_ns, struct session_event *event_out);

/* ---- room for large requests (request_window.h) ---- */

/* When the longest-waiting of its streams with room began to wait; DEADLINE_NONE: none. */
uint64_t session_wants_room_ns(struct session *session);
/* That stream may continue. */
void session_grant(struct session *session, uint64_t now_ns);
/* The WINDOW_UPDATEs to send to the client for that, one for each call. False: no more. */
bool session_take_granted(struct session *session, uint8_t out[FRAME_UPDATE_BYTES]);

/* A GOAWAY and a PING are sent to the client now. */
void session_leave(struct session *session);
/* Whether its client has acknowledged that, and no stream is open: there will be no more. */
bool session_has_left(const struct session *session);
/* Whether a call of its client was served, or waits for its answer. */
bool session_is_proven(const struct session *session);
/* Whether it must wait because it is the turn of other clients in the core. */
bool session_must_wait(const struct session *session, uint64_t now_ns);
/* Whether a frame may be inserted into the bytes to the core. */
bool session_may_reset(const struct session *session);
/* Counts an exceeded limit that the relay itself has found. */
void session_count(const struct session_common *common, enum relay_limit limit);
