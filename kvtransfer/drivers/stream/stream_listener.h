/*
 * stream_listener - the sockets at which readers arrive.
 *
 * Thread: the transport's.
 */
#pragma once

#include "kvtransfer/drivers/stream/stream_state.h"

/* Fills listeners, and path or hosts. What was made before a failure stays for close. */
MUST_CHECK enum status stream_listener_open(struct stream_transport *transport,
                                            const struct stream_options *options,
                                            struct error *error);
void stream_listener_close(struct stream_transport *transport);

/* Takes in who waits there, some at a time. */
void stream_listener_accept(struct stream_transport *transport, uint32_t index);
/* Watches them again, when there were no descriptors. */
void stream_listener_retry(struct stream_transport *transport);

/* What epoll says of a listener: EVENT_LISTENER | index. */
#define EVENT_LISTENER 0xffffffff00000000ull
#define EVENT_WAKE     0xfffffffe00000000ull
