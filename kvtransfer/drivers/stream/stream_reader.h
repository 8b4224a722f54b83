/* stream_reader - the reader's side of a stream: it sends pulls and takes pieces, straight into their targets. */
#pragma once

#include "kvtransfer/drivers/stream/stream_state.h"

/* The gets are taken, one for each piece. */
void stream_reader_get(struct stream_peer *peer, const struct transfer_id *id,
                       struct get *const *gets, uint32_t n);
/* The head of a piece has come. False: no get asked for it. */
bool stream_reader_place(struct stream_connection *connection);
/* A whole frame has come. False: it may not. */
bool stream_reader_take(struct stream_connection *connection);
