/*
 * context_description - authenticates and describes a context worker before it gets any request: see context_client.h.
 *
 * Lock: the client's, held by the caller.
 */
#pragma once

#include "gen_worker/context_client_state.h"

/* Describes a peer that is not known. on_described follows, perhaps before this returns. */
void context_describe(struct context_client *client, struct context_peer *peer);
