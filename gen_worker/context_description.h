/*
 * context_description - how a client of context workers learns who a worker is, before it asks the worker for anything: see
 * context_client.h.
 *
 * Lock: the client's, held by the caller.
 */
#pragma once

#include "gen_worker/context_client_state.h"

/* Of a peer that is not known. on_described follows, perhaps before this returns. */
void context_describe(struct context_client *client, struct context_peer *peer);
