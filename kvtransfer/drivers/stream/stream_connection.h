/*
 * stream_connection - one stream between a reader and an owner, from its first byte to its loss.
 *
 *     reader: OPENING -> (SHAKING) -> OPEN          owner: (SHAKING) -> GREETED -> OPEN
 *
 * A connection is served when its socket can go on, or when it is ready, that is, has something to do at
 * once. A function returns false when the peer broke a rule. The connection is then lost: nothing more is
 * read from it or written to it.
 */
#pragma once

#include "kvtransfer/drivers/stream/stream_state.h"

/* Connects to an owner, for its peer. PEER_LOST: the owner cannot be reached. QUEUE_FULL: no place is free. */
MUST_CHECK enum status stream_connection_open(struct stream_peer *peer);
/* Takes over fd, a reader's connection. False: no place is free, and fd is closed. */
bool stream_connection_accept(struct stream_transport *transport, int fd);

/* What comes before frames. */
bool stream_connection_advance(struct stream_connection *connection);
/* For what it has to say next. False: epoll refuses. */
bool stream_connection_watch(struct stream_connection *connection);
/* In the next round, whatever the socket says. */
void stream_connection_make_ready(struct stream_connection *connection);
void stream_connection_make_unready(struct stream_connection *connection);
void stream_connection_send(struct stream_connection *connection, struct stream_message *message);
/* A message of the reader, a pull or the hello, was written, or never will be. */
void stream_connection_sent(struct stream_connection *connection, struct stream_message *message);
/* Closed; gets of its owner and reads of its reader end. */
void stream_connection_lose(struct stream_connection *connection);
/* What epoll says of it. */
uint64_t stream_connection_tag(const struct stream_connection *connection);
/* Loses what had to prove itself in time. */
void stream_connections_check_time(struct stream_transport *transport);
