/*
 * stream_transport - the pull protocol over streams of our own: no port that parses a stranger's
 * bytes, a peer's death is the end of its stream.
 *
 *     unix   a socket in a folder that only this user can enter, and on both sides the other process
 *            must be this user's. One host.
 *     tls    TCP, TLS 1.3 by a key from the secrets of both incarnations, which travel in Describe
 *
 * The reader connects, says who it is (stream_frame.h), and pulls. What breaks a rule loses its
 * connection: one stream is in order, so that a piece that nobody asked for is a lie.
 *
 * Bounds: unproven_max connections that have not proved who they are, the oldest goes first, each has
 * proof_ns; one connection a reader, the newer one; reads beyond reads_max or pieces_max are refused,
 * beyond those refusals a stream is not read. Who is sent away is counted: port_counts.h.
 * Thread: as transport.h.
 */
#pragma once

#include "kvtransfer/transport/transport.h"

enum stream_driver { STREAM_UNIX, STREAM_TLS };

/* Where the options say 0. */
#define STREAM_UNPROVEN_MAX 64u
#define STREAM_PROOF_NS     2000000000ull

struct stream_options {
    enum stream_driver driver;
    uint64_t incarnation;
    const char *net_devices; /* tls: "eth0", "lo"; NULL or "": all */
    const char *port_range;  /* tls: "20000-20009"; NULL or "": any */
    uint32_t peers_max;      /* connected or admitted, closing ones included */
    uint32_t gets_max;       /* pieces asked for and not arrived, all peers */
    uint32_t reads_max;      /* pieces asked for and not sent, all peers */
    uint32_t pieces_max;     /* of these, of one reader, as its Describe tells it; 0: all */
    uint32_t unproven_max;   /* connections that have not proved who they are */
    uint64_t proof_ns;       /* that each has to do so, and a connection to an owner to be open */
};

/* Refuses what stream_transport_open would of the devices and the range of ports; opens nothing. */
MUST_CHECK enum status stream_options_check(const struct stream_options *options,
                                            struct error *error);

/* INVALID_ARGUMENT: a zero bound, no such device. UNSUPPORTED: no folder for the socket, no TLS 1.3. */
MUST_CHECK enum status stream_transport_open(const struct stream_options *options,
                                             struct transport **transport_out, struct error *error);
