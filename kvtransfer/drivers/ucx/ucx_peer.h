/*
 * ucx_peer - one endpoint's life: created, failed, closed by force, quiet.
 *
 * Endpoints use UCX's error mode PEER over TCP, so that UCX reports a dead peer. UCX's error callback only
 * marks the peer; progress of the transport does the rest. A peer is quiet when its close has ended and UCX
 * has called back for every operation that it accepted.
 */
#pragma once

#include "kvtransfer/drivers/ucx/ucx_state.h"

#include <stddef.h>

/* address is copied. */
MUST_CHECK enum status ucx_peer_create(struct ucx_transport *transport,
                                       const struct transport_address *address, bool is_admitted,
                                       struct ucx_peer **peer_out);
/* Removes the peer's permit for the data port. The peer is quiet, or the worker ends; it is still in the list. */
void ucx_peer_revoke(struct ucx_peer *peer);

/* The peer must have no endpoint. */
MUST_CHECK enum status ucx_peer_open_endpoint(struct ucx_peer *peer);
void ucx_peer_close_endpoint(struct ucx_peer *peer);
void ucx_peer_mark_failed(struct ucx_peer *peer);
/* Frees a close that has ended. True: nothing of UCX refers to the peer. */
bool ucx_peer_is_quiet(struct ucx_peer *peer);

/* Handles the result of an operation that was posted. True: its callback will run, and is counted. False: the
 * operation is over, and *status_out says how. */
bool ucx_peer_track(struct ucx_peer *peer, void *request, enum status *status_out);
