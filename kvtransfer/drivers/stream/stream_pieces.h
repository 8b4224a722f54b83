/*
 * stream_pieces - the pieces that readers have asked this owner for and have not been sent.
 *
 *     free -> asked: it waits its turn -> out: it was read and is being written -> free
 *
 * Bounds: asked_piece.h. When there is no room for a refusal either, the connection is held: it is not read.
 */
#pragma once

#include "kvtransfer/drivers/stream/stream_state.h"

/* NULL: there is no room even to refuse it. */
struct stream_piece *stream_pieces_take(struct stream_transport *transport,
                                        struct stream_peer *reader, const struct wire_pull *pull,
                                        const struct wire_item *item);
/* OK: its bytes were sent. */
void stream_pieces_end(struct stream_connection *connection, struct stream_piece *piece,
                       enum status status);
/* Nothing more is sent on the connection: its reads end. */
void stream_pieces_drop(struct stream_connection *connection);
void stream_pieces_hold(struct stream_connection *connection, bool is_held);
