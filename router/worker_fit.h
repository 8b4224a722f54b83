/*
 * worker_fit - whether a router may place requests on a worker, by what the worker says of itself.
 *
 * A worker that has no tokenizer.json tells no digest of one, and is taken at the word of whoever
 * started it with that folder.
 *
 * Thread: any (plain data); the function keeps no state.
 */
#pragma once

#include "process/process_state.h"

#define WORKER_REASON_MAX (sizeof((struct process_peer *)0)->reason) /* bytes, NUL included */

struct worker_wanted {
    Kvferry__V1__Role role;
    const char *tokenizer_digest; /* the router's own */
    const char *model_digest;     /* that is served; NULL: whichever comes first */
};

/* False: reason_out says why not, with both digests where it is for them; else it is "". */
bool worker_fits(const struct worker_wanted *wanted, const struct process_state *state,
                 char reason_out[WORKER_REASON_MAX]);
