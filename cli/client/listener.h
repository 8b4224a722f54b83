/*
 * listener - the address of a server as a client takes it, and why nobody could be reached there.
 *
 * Thread: any; blocks for LISTENER_LIMIT_MS an address at most.
 */
#pragma once

#include "process/ports/address.h"

#define LISTENER_LIMIT_MS 1000

/* As gRPC takes it. INVALID_ARGUMENT: --server is none, and why. */
MUST_CHECK enum status listener_address(const char *server, char address_out[ADDRESS_TEXT_MAX],
                                        struct error *error);

/* Of a call to text that ended with PEER_LOST: that there is no such host, that nobody listens, or else words, which
 * are gRPC's. */
void listener_explain(const char *text, const char *words, struct error *error_out);
