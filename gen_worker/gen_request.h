/*
 * gen_request - a request as it comes to a generation worker's engine; everything borrowed.
 *
 * Thread: any (plain data).
 */
#pragma once

#include "base/log/request_origin.h"
#include "engine/engine_request.h"
#include "gen_worker/gen_place.h"

#define GEN_ADDRESS_MAX 256u /* bytes of a context worker's host:port */

struct gen_request {
    struct engine_request_input input;   /* sampling is complete: seed drawn, max_tokens set */
    const struct request_origin *origin; /* passed to the context worker; NULL: there is none */
    const char *context_worker;          /* "" or NULL: compute here, */
    enum gen_place why_local;            /* for this reason; UNKNOWN: there is none */
    bool wants_progress;                 /* until the first token */
    bool ends_when_context_full;         /* with NO_CONTEXT_WORKER, instead of computing here */
};
