/*
 * ucx_pieces - the pieces that readers have asked this owner for and have not been sent.
 *
 *     free -> asked: it waits its turn -> (reading: the device copies its bytes) -> free
 *
 * Bounds: asked_piece.h; a reader may have as many more as UCX is sending. A piece is dropped when there is no room for
 * its refusal.
 */
#pragma once

#include "kvtransfer/drivers/ucx/ucx_state.h"

/* Pieces of one reader that wait inside UCX for the socket. UCX copies a piece when the socket has room. This
 * many stay in the cache between their CRC and the copy. */
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

/* NULL: there is no room even to refuse it. */
struct ucx_piece_message *ucx_pieces_take(struct ucx_transport *transport, struct ucx_peer *reader,
                                          const struct wire_pull *pull,
                                          const struct wire_item *item);
/* Puts it behind the others that wait. */
void ucx_pieces_ask(struct ucx_transport *transport, struct ucx_piece_message *message);
/* The device has copied its bytes. */
void ucx_pieces_end_reading(struct ucx_piece_message *message);
/* OK: its bytes were sent. */
void ucx_pieces_end(struct ucx_transport *transport, struct ucx_piece_message *message,
                    enum status status);
/* Ends the pieces of a peer that wait. */
void ucx_pieces_forget(struct ucx_transport *transport, const struct ucx_peer *peer);
