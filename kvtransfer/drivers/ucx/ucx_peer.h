/*
 * ucx_peer - one endpoint's life: created, failed, closed by force, quiet.
 *
 * Always in UCX's mode PEER over TCP, so that a death is reported. UCX's error callback only marks
 * the peer; everything else happens in the transport's progress. A peer is quiet when its close has
 * ended and UCX has called back for every operation that it had accepted.
 */
#pragma once

#include "kvtransfer/drivers/ucx/ucx_state.h"

#include <stddef.h>

/* address is copied. */
MUST_CHECK enum status ucx_peer_create(struct ucx_transport *transport,
                                       const struct transport_address *address, bool is_admitted,
                                       struct ucx_peer **peer_out);
/* Quiet, or at the end of the worker, before it leaves the list of peers: nobody comes in by it any more. */
void ucx_peer_revoke(struct ucx_peer *peer);

/* The peer must have none. */
MUST_CHECK enum status ucx_peer_open_endpoint(struct ucx_peer *peer);
void ucx_peer_close_endpoint(struct ucx_peer *peer);
void ucx_peer_mark_failed(struct ucx_peer *peer);
/* Frees a close that has ended. True: nothing of UCX refers to the peer. */
bool ucx_peer_is_quiet(struct ucx_peer *peer);

/* What became of an operation that was posted: the only place that tells UCX's three cases apart.
 * True: its callback will run, and was counted. False: it is over; *status_out says how. */
bool ucx_peer_track(struct ucx_peer *peer, void *request, enum status *status_out);
