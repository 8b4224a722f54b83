/*
 * stream_pieces - what readers have asked this owner for and were not sent yet.
 *
 *     free -> taken, and asked: it waits its turn -> read, and out: it is being written -> ended: free again
 *
 * Bounds: reads_max, and of one reader pieces_max; who asks for more is refused, and counted. When even refusals have no
 * room, the connection is held: not read.
 */
#pragma once

#include "kvtransfer/drivers/stream/stream_state.h"

/* NULL: there is no room, not even to refuse it. */
struct stream_piece *stream_pieces_take(struct stream_transport *transport,
                                        struct stream_peer *reader, const struct wire_pull *pull,
                                        const struct wire_item *item);
/* OK: its bytes have left. */
void stream_pieces_end(struct stream_connection *connection, struct stream_piece *piece,
                       enum status status);
/* Nothing more is sent on it: its reads end. */
void stream_pieces_drop(struct stream_connection *connection);
void stream_pieces_hold(struct stream_connection *connection, bool is_held);
