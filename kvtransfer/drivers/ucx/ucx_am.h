/*
 * ucx_am - driver am-tcp: pulls and pieces by eager active messages (pull_wire.h).
 *
 * Reader: a pull names up to GET_PIECES_MAX gets. A piece counts when every field of its header equals what
 * the get asked for and its CRC is right. All other pieces are dropped and counted.
 * Owner: pieces wait in the order of the pulls, and progress sends them. A piece beyond the bounds of
 * asked_piece.h is refused and counted; without room for the refusal it is dropped. A pull of a reader that
 * is not admitted is dropped and counted.
 */
#pragma once

#include "kvtransfer/drivers/ucx/ucx_state.h"

MUST_CHECK enum status ucx_am_init(struct ucx_transport *transport, struct error *error);
void ucx_am_finish(struct ucx_transport *transport);

/* Sends the pull of gets that were taken. QUEUE_FULL: there is no room for the message. */
MUST_CHECK enum status ucx_am_get(struct ucx_peer *peer, const struct transfer_id *id,
                                  struct get *const *gets, uint32_t n);
/* Sends the pieces that wait. Returns how many it has handled. */
unsigned ucx_am_answer(struct ucx_transport *transport);
