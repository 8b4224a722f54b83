/*
 * worker_fit - whether a router may place requests on a worker, and on a pair of workers, by what they
 * say of themselves.
 *
 * A worker that has no tokenizer.json tells no digest of one, and is taken at the word of whoever
 * started it with that folder.
 *
 * Thread: any (plain data); the functions keep no state.
 */
#pragma once

#include "process/process_state.h"

struct worker_wanted {
    Kvferry__Internal__V1__Role role;
    const char *tokenizer_digest; /* the router's own */
    const uint64_t *model_digest; /* [2] that is served; NULL: whichever comes first */
};

/* False: reason_out says why not, with both digests where it is for them; else it is "". */
bool worker_fits(const struct worker_wanted *wanted, const struct process_state *state,
                 char reason_out[PEER_REASON_MAX]);

/* Whether the KV of that context worker, known to the other by that address, can be handed over:
 * neither what both say nor the generation worker's own look at it speaks against it. False: reason_out
 * says what; "here" is the generation worker. */
bool worker_pair_fits(const struct process_state *generation_worker,
                      const struct process_state *context_worker, const char *context_address,
                      char reason_out[PEER_REASON_MAX]);
