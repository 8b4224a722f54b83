/*
 * engine_calls - the live calls of a door of gateways, by the ids that their clients gave them.
 *
 * Bounds: the port's calls_max. Several calls may have one id: an abort ends them all.
 *
 * Lock: its own, for the lists; nothing else is locked or called under it.
 * Thread: any.
 */
#pragma once

#include "api/engine/engine_call.h"
#include "api/engine/engine_place.h"
#include "base/hash.h"

#include <pthread.h>
#include <stddef.h>

#define ENGINE_CALL_LISTS 256u

struct engine_calls {
    struct engine_place *place;
    pthread_mutex_t mutex;
    struct hash_key key;
    struct engine_call *lists[ENGINE_CALL_LISTS];
    _Atomic uint64_t last_unix_ms; /* when a request came; 0: none has */
};

/* IO_FAILED: no random bits. */
MUST_CHECK enum status engine_calls_init(struct engine_calls *calls, struct engine_place *place,
                                         struct error *error);
/* No call is live any more. A zeroed one is fine. */
void engine_calls_finish(struct engine_calls *calls);

/* Begins a call that ask describes, or refuses it where status is not OK, with error. It ends once, by form. */
void engine_calls_take(struct engine_calls *calls, struct rpc_call *rpc,
                       const struct engine_ask *ask, const struct engine_form *form,
                       enum status status, struct rpc_error *error);
/* Ends the calls with this id as aborted. */
void engine_calls_abort(struct engine_calls *calls, const char *client_id);
