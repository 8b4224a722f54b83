/*
 * stream_transport - the pull protocol over streams of our own. No byte of a stranger is parsed, and the end
 * of a stream tells that the peer is dead.
 *
 *     unix   a socket in a folder that only this user can enter, and on both sides the other process
 *            must be this user's. One host.
 *     tls    TCP, TLS 1.3 by a key from the secrets of both incarnations, which travel in Describe
 *
 * The reader connects, says who it is (stream_frame.h), and pulls. A peer that breaks a rule loses its
 * connection. A stream keeps the order, so a piece that nobody asked for breaks a rule.
 *
 * Bounds: unproven_max connections that have not proved who they are; each has proof_ns for it, and the
 * oldest is closed first. A reader has one connection, the newest. Pieces: asked_piece.h; when there is no
 * room for a refusal either, the stream is not read. Refused connections are counted: port_counts.h.
 * Thread: as transport.h.
 */
#pragma once

#include "kvtransfer/drivers/stream/stream_options.h"
#include "kvtransfer/transport/transport.h"

/* INVALID_ARGUMENT: a zero bound, no such device. UNSUPPORTED: no folder for the socket, no TLS 1.3. */
MUST_CHECK enum status stream_transport_open(const struct stream_options *options,
                                             struct transport **transport_out, struct error *error);
