/*
 * stream_address - the addresses at which a worker accepts streams, as Describe tells them.
 *
 *     unix   the socket's path
 *     tls    a u16 port for each of its hosts
 *
 * Thread: the transport's.
 */
#pragma once

#include "kvtransfer/drivers/stream/stream_state.h"

#include <sys/socket.h>

/* This worker's own. */
void stream_address_tell(const struct stream_transport *transport,
                         struct transport_address *address_out);
/* Is it one of this driver's? */
bool stream_address_is_valid(enum stream_driver driver, const struct transport_address *address);
/* The n-th address at which it listens. False: there are no more. */
bool stream_address_place(enum stream_driver driver, const struct transport_address *address,
                          uint32_t n, struct sockaddr_storage *place_out, socklen_t *bytes_out);
