/*
 * stream_owner - the side of a stream that answers: pulls in, pieces out, in the order in which they
 * were asked for.
 */
#pragma once

#include "kvtransfer/drivers/stream/stream_state.h"

/* (tls_find_key; arg is the connection) */
bool stream_owner_find_key(void *arg, uint64_t reader_incarnation, uint8_t key_out[TLS_KEY_BYTES]);
/* The hello has come. False: of nobody who was admitted, or of the past. */
bool stream_owner_greet(struct stream_connection *connection);
/* A whole pull has come. False: it may not. What there is no room for holds the connection. */
bool stream_owner_pull(struct stream_connection *connection);
/* There is room again, perhaps: for connections that are held. */
void stream_owner_resume(struct stream_transport *transport);
/* Reads the next pieces, as many as are to be written at a time. */
void stream_owner_fill(struct stream_connection *connection);
void stream_owner_sent(struct stream_connection *connection, struct stream_message *message);
/* Has something to send, or waits for room to be asked more. */
bool stream_owner_is_busy(const struct stream_connection *connection);
