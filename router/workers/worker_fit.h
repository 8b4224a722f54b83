/*
 * worker_fit - whether a router may use a worker, or a pair of workers, according to their reports.
 *
 * A worker without tokenizer.json reports no digest, and is trusted to have the right model folder.
 *
 * Thread: any (plain data); the functions keep no state.
 */
#pragma once

#include "process/process_state.h"

struct worker_wanted {
    Kvferry__Internal__V1__Role role;
    const char *tokenizer_digest; /* of the router */
    const uint64_t *model_digest; /* [2] of the served model; NULL: any */
};

/* False: reason_out says why, with both digests if they differ. True: it is "". */
bool worker_fits(const struct worker_wanted *wanted, const struct process_state *state,
                 char reason_out[PEER_REASON_MAX]);

/* Whether KV transfers from that context worker, which the generation worker knows by that address, are
 * possible: the reports of both match, and the generation worker has not refused it. False: reason_out
 * says why; "here" means the generation worker. */
bool worker_pair_fits(const struct process_state *generation_worker,
                      const struct process_state *context_worker, const char *context_address,
                      char reason_out[PEER_REASON_MAX]);
