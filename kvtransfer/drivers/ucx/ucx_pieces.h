/*
 * ucx_pieces - what readers have asked this owner for and were not sent yet.
 *
 *     free -> taken, and asked: it waits its turn -> (reading: out of the device) -> ended: free again
 *
 * Bounds: reads_max, and of one reader pieces_max and what UCX is sending; who asks for more is refused and counted, and is
 * dropped when even refusals have no room.
 */
#pragma once

#include "kvtransfer/drivers/ucx/ucx_state.h"

/* Pieces of one reader that wait inside UCX for the socket. UCX copies a piece when there is room: as
 * many as stay in the cache from their CRC until then. */
enum { PIECES_SENDING = 2 };

/* U15: header and data must live until UCX has sent them. */
struct ucx_piece_message {
    struct ucx_piece_message *next;
    struct ucx_peer *peer;
    struct asked_piece asked;
    bool is_reading; /* its bytes are on their way out of the device */
    uint8_t header[PIECE_HEADER_BYTES];
};

MUST_CHECK enum status ucx_pieces_init(struct ucx_transport *transport);
void ucx_pieces_finish(struct ucx_transport *transport); /* a zeroed one is fine */

/* NULL: there is no room, not even to refuse it. */
struct ucx_piece_message *ucx_pieces_take(struct ucx_transport *transport, struct ucx_peer *reader,
                                          const struct wire_pull *pull,
                                          const struct wire_item *item);
/* It waits, behind the others. */
void ucx_pieces_ask(struct ucx_transport *transport, struct ucx_piece_message *message);
/* Its bytes are here. */
void ucx_pieces_end_reading(struct ucx_piece_message *message);
/* OK: its bytes have left. */
void ucx_pieces_end(struct ucx_transport *transport, struct ucx_piece_message *message,
                    enum status status);
/* A peer goes: forgets what it has asked for and not been sent. */
void ucx_pieces_forget(struct ucx_transport *transport, const struct ucx_peer *peer);
