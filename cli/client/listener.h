/*
 * listener - the address of a server for a client, and the reason why it could not be reached.
 *
 * Thread: any; blocks at most LISTENER_LIMIT_MS for each address.
 */
#pragma once

#include "process/ports/address.h"

#define LISTENER_LIMIT_MS 1000

/* The address for gRPC. INVALID_ARGUMENT: --server is no address; the sentence says why. */
MUST_CHECK enum status listener_address(const char *server, char address_out[ADDRESS_TEXT_MAX],
                                        struct error *error);

/* For a call to text that ended with PEER_LOST: says that the host does not exist, or that no process listens there;
 * else returns words, gRPC's text. */
void listener_explain(const char *text, const char *words, struct error *error_out);
