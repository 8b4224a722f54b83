/*
 * stream_listener - the sockets at which readers arrive.
 *
 *     address of a worker    unix: the socket's path    tls: a u16 port for each of its hosts
 *
 * Thread: the transport's.
 */
#pragma once

#include "kvtransfer/drivers/stream/stream_state.h"

#include <sys/socket.h>

/* Fills listeners, and path or hosts. What was made before a failure stays for close. */
MUST_CHECK enum status stream_listener_open(struct stream_transport *transport,
                                            const struct stream_options *options,
                                            struct error *error);
void stream_listener_close(struct stream_transport *transport);

/* Takes in who waits there, some at a time. */
void stream_listener_accept(struct stream_transport *transport, uint32_t index);
/* Watches them again, when there were no descriptors. */
void stream_listener_retry(struct stream_transport *transport);

void stream_listener_address(const struct stream_transport *transport,
                             struct transport_address *address_out);
/* Is it one of this driver's? */
bool stream_address_is_valid(enum stream_driver driver, const struct transport_address *address);
/* The n-th place at which it listens; false: there are no more. */
bool stream_address_place(enum stream_driver driver, const struct transport_address *address,
                          uint32_t n, struct sockaddr_storage *place_out, socklen_t *bytes_out);

/* What epoll says of a listener: EVENT_LISTENER | index. */
#define EVENT_LISTENER 0xffffffff00000000ull
#define EVENT_WAKE     0xfffffffe00000000ull
