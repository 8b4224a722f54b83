/*
 * context_description - how a client of context workers learns who a worker is, before it asks the worker for anything: see
 * context_client.h.
 *
 * Lock: the client's, held by the caller.
 */
#pragma once

#include "gen_worker/context_client_state.h"

/* The peer is known. */
void context_prefill_begin(struct context_prefill *prefill);
/* Says prefill_end, frees. */
void context_prefill_end(struct context_prefill *prefill, enum status status, const char *sentence);

/* Of a peer that is not known: prefills that wait for it begin or end with that. */
void context_describe(struct context_client *client, struct context_peer *peer);
