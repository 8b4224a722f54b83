/*
 * stream_owner - the owner's side of a stream: it takes in pulls and sends the pieces in the order of the
 * pulls.
 */
#pragma once

#include "kvtransfer/drivers/stream/stream_state.h"

/* (tls_find_key; arg is the connection) */
bool stream_owner_find_key(void *arg, uint64_t reader_incarnation, uint8_t key_out[TLS_KEY_BYTES]);
/* The hello has come. False: the reader is not admitted, or the connection is older than the one that it has. */
bool stream_owner_greet(struct stream_connection *connection);
/* A whole pull has come. False: the reader may not send it. Items without room hold the connection. */
bool stream_owner_pull(struct stream_connection *connection);
/* Goes on with held connections, if there is room again. */
void stream_owner_resume(struct stream_transport *transport);
/* Reads the next pieces, as many as are written at a time. */
void stream_owner_fill(struct stream_connection *connection);
void stream_owner_sent(struct stream_connection *connection, struct stream_message *message);
/* It has something to send, or waits for room for more items. */
bool stream_owner_is_busy(const struct stream_connection *connection);
