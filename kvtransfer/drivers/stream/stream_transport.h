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

#include "kvtransfer/drivers/stream/stream_options.h"
#include "kvtransfer/transport/transport.h"

/* INVALID_ARGUMENT: a zero bound, no such device. UNSUPPORTED: no folder for the socket, no TLS 1.3. */
MUST_CHECK enum status stream_transport_open(const struct stream_options *options,
                                             struct transport **transport_out, struct error *error);
