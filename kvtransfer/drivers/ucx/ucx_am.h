/*
 * ucx_am - driver am-tcp: pulls and pieces by eager active messages (pull_wire.h).
 *
 * Reader: a pull names up to GET_PIECES_MAX gets; a piece counts when its header equals what the get
 * asked for, to the last field, and its CRC fits. Everything else is dropped and counted.
 * Owner: pieces wait in the order in which they were asked for and are sent from progress. Asked for
 * beyond pieces_max of one reader: refused and counted, dropped when even refusals have no room. By
 * somebody who was not admitted: dropped and counted.
 */
#pragma once

#include "kvtransfer/drivers/ucx/ucx_state.h"

MUST_CHECK enum status ucx_am_init(struct ucx_transport *transport, struct error *error);
void ucx_am_finish(struct ucx_transport *transport);

/* The gets are taken, one for each piece. QUEUE_FULL: no room for the message. */
MUST_CHECK enum status ucx_am_get(struct ucx_peer *peer, const struct transfer_id *id,
                                  struct get *const *gets, uint32_t n);
/* Sends the pieces that were asked for. Returns how many it dealt with. */
unsigned ucx_am_answer(struct ucx_transport *transport);
