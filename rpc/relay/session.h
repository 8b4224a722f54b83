/*
 * session - the HTTP/2 of one client's connection, as far as frame heads tell: what may pass, what must
 * wait, what is reset and what ends.
 *
 *     client's bytes --session_client--> to the core          no I/O: the caller forwards what was
 *     core's bytes   --session_core----> to the client        walked, and does what the event says
 *     time           --session_expire
 *
 * Nothing is decoded. Of the core's frames a WINDOW_UPDATE may be withheld for a while; of the client's one of nothing
 * becomes one of a byte, before its stream is reset: HTTP/2 has it end that stream alone, the core the connection.
 * Counts of an address and of all connections are kept up by the sessions themselves.
 *
 * DATA is never held to a length: the core raises its largest frame as it measures the line. What
 * a client sends because of what it was sent (WINDOW_UPDATE, PING, acknowledgements) is paid for by that.
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

/* Streams that a client may have beyond streams_max before it has read our SETTINGS. */
#define SESSION_STREAMS_SLACK 16

/* Of all connections of a relay. */
struct session_common {
    const struct relay_limits *limits;
    const struct relay_metrics *metrics; /* may be NULL */
    struct budget resets;
    uint32_t n_half_open;
    uint32_t n_half_open_addresses; /* that have any */
    struct request_room room;
    struct turns turns;
    bool is_quitting; /* the core's GOAWAYs are hidden: they deny calls that it has seen */
};

enum session_event_kind {
    SESSION_NOTHING, /* go on */
    SESSION_BEGIN,   /* the preface has come, which is not counted in the bytes to forward */
    SESSION_PAUSE,   /* read no more of the client until until_ns */
    SESSION_WAIT,    /* the same, until session_must_wait no longer says so */
    SESSION_SKIP, /* the next n_bytes, more than are here maybe, are walked, and not to be forwarded */
    SESSION_RESET, /* put a RST_STREAM of stream, with error, here and into the other direction */
    SESSION_CLOSE, /* the connection ends, with error and limit's name in a GOAWAY */
};

struct session_event {
    enum session_event_kind kind;
    enum relay_limit limit;
    enum frame_error error;
    uint32_t stream;
    uint32_t n_bytes;
    bool allows_one; /* SESSION_RESET: the byte walked last becomes a 1 (an update of nothing) */
    uint64_t until_ns;
};

struct session {
    struct session_common *common;
    struct address_entry *address;
    uint64_t began_ns;
    uint64_t called_ns; /* when its last stream was opened; began_ns: none was */
    uint64_t due_ns;    /* of the next session_expire; DEADLINE_NONE: nothing to wait for */

    struct frame_walker client;
    struct frame_walker core;
    struct frame_head frame; /* the client's, under way or last */
    uint8_t n_padding;       /* of that, when it is DATA: behind its data */
    uint8_t n_preface;       /* bytes of it that have come */
    bool is_http1;           /* its first bytes were the begin of a request of HTTP/1 */
    bool has_settings;       /* the client's first */
    bool has_core_settings;  /* the core's, before which its client may hear nothing else */
    bool was_served;         /* a call had an answer that was no refusal */
    bool is_in_headers; /* a list of headers is under way, and the client may send nothing else */
    bool is_refused;    /* the stream that the list opens */
    enum relay_limit refused_by;
    uint32_t header_bytes;
    uint32_t n_header_frames;
    uint8_t update_bits; /* of a WINDOW_UPDATE's bytes so far */
    uint32_t last_stream;
    uint64_t frame_began_ns; /* what is under way, or its last DATA; 0: nothing */
    uint64_t pause_until_ns; /* 0: no need */

    struct open_streams streams;
    uint32_t n_half_open;
    uint32_t n_asked; /* streams whose whole request waits for an answer */
    struct request_room room;
    uint32_t n_granted;       /* streams with something granted that the client does not know yet */
    uint32_t n_settings_sent; /* not acknowledged */
    uint64_t settings_sent_ns;
    uint32_t n_pings_sent;    /* not acknowledged */
    uint32_t n_acks_to_leave; /* until that of the PING after our GOAWAY */
    bool is_leaving;          /* that was said */
    uint32_t paid_pings;
    uint32_t paid_window_bytes; /* in which each WINDOW_UPDATE costs SESSION_WINDOW_COST */
    struct budget pings;
    struct budget controls;
};

#define SESSION_WINDOW_COST 1024u

void session_init(struct session *session, struct session_common *common,
                  struct address_entry *address, uint64_t now_ns);
/* Takes its streams out of the counts, and off the address's resets. */
void session_finish(struct session *session, uint64_t now_ns);

/* Walks n bytes of the client's, until something is to be done. Returns those walked: after
 * SESSION_BEGIN and before it they are the preface's, else they are to be forwarded. */
size_t session_client(struct session *session, const uint8_t *bytes, size_t n, uint64_t now_ns,
                      struct session_event *event_out);
/* The same of the core's bytes, but a part of a frame's head, or of a WINDOW_UPDATE, is left: to be given again with
 * what follows. wants_boundary: returns at the first place where a frame may be put. */
size_t session_core(struct session *session, const uint8_t *bytes, size_t n, bool wants_boundary,
                    uint64_t now_ns, struct session_event *event_out);

/* What time has brought, one event a call, until it is SESSION_NOTHING; then due_ns is the next. A
 * SESSION_RESET is only given where session_may_reset says so. */
void session_expire(struct session *session, uint64_t now_ns, struct session_event *event_out);

/* ---- room for large requests (request_window.h) ---- */

/* When the longest of its streams that there is room for began to wait; DEADLINE_NONE: there is none. */
uint64_t session_wants_room_ns(struct session *session);
/* That one may go on. */
void session_grant(struct session *session, uint64_t now_ns);
/* What the client is to be told of that, one a call. False: nothing more. */
bool session_take_granted(struct session *session, uint8_t out[FRAME_UPDATE_BYTES]);

/* A GOAWAY and a PING go to the client now. */
void session_leave(struct session *session);
/* Whether its client has heard that, and none of its streams is open: there will be none. */
bool session_has_left(const struct session *session);
/* Whether its client was served, or waits for that. */
bool session_is_proven(const struct session *session);
/* Whether it is others' turn to have requests in the core. */
bool session_must_wait(const struct session *session, uint64_t now_ns);
/* Whether a frame may be put into the bytes that go to the core. */
bool session_may_reset(const struct session *session);
/* Counts a limit that the relay itself has found. */
void session_count(const struct session_common *common, enum relay_limit limit);
