/*
 * early_requests - those that came too early: before the tokenizer was loaded, or before any generation worker has told what
 * it serves, by which requests for tokens are judged (vocabulary, context).
 *
 *     early_requests_push --> early_requests_step: what it needs is known, or one's wait is over otherwise
 *     --> on_end, once each
 *
 * Who can be judged has its turn by tenant, as in the core's waiting room (waiting_room.h), each for its bytes: their tokens are
 * not known yet. When there is no room, the tenant that has most here for its weight gives way to who would have less.
 *
 * A request is kept packed, since its message is good only while its handler runs.
 *
 * Bounds: requests_max wait, and have bytes_max bytes together (one alone may have more); then a push
 * fails, or another ends. wait_limit_ns each, counted by the steps, and anew when the tokenizer is there: no worker was asked before.
 *
 * Thread: early_requests_step and _drain on main, on_end within them; the others any, and on_end within a push.
 */
#pragma once

#include "router/door.h"

struct early_requests;

struct early_requests_options {
    uint32_t requests_max; /* 0: they are refused */
    uint64_t bytes_max;
    uint64_t wait_limit_ns;
};

/* What a router has come to know; each with those before it. */
enum early_known { EARLY_NOTHING, EARLY_TOKENIZER, EARLY_MODEL };

/* A request as it came. */
struct arrival {
    struct door_call *call;
    const ProtobufCMessage *message;
    enum early_known needs; /* to be served */
    uint64_t arrived_ns;
    /* Of one that needs the tokenizer alone: serves it, on the thread that calls it. */
    void (*serve)(void *arg, const struct arrival *arrival);
    void *arg;
};

/* status: OK it can be served, or judged, now; else what the request is to be refused with, and a sentence ("": the
 * status's own). arrival is good until it returns; message is NULL when there was no memory for it. */
typedef void (*early_request_end)(void *arg, const struct arrival *arrival, enum status status,
                                  const char *sentence);

MUST_CHECK enum status early_requests_create(const struct early_requests_options *options,
                                             struct early_requests **requests_out);
/* None may wait. NULL is fine. */
void early_requests_destroy(struct early_requests *requests);

/* Takes a holder of the call, and a copy. NO_GENERATION_WORKER (requests_max of 0), QUEUE_FULL,
 * DRAINING, NO_MEMORY. on_end, with QUEUE_FULL: of who gives way. */
MUST_CHECK enum status early_requests_push(struct early_requests *requests,
                                           const struct arrival *arrival,
                                           const struct standing *standing,
                                           early_request_end on_end, void *arg);
/* Those whose on_end has not returned: who comes while there are any waits behind them. */
uint32_t early_requests_count(struct early_requests *requests);

/* Ends those whose call is over (with how), those for which enough is known (OK), and those that have waited too long
 * (LOADING, NO_GENERATION_WORKER). */
void early_requests_step(struct early_requests *requests, uint64_t now_ns, enum early_known known,
                         early_request_end on_end, void *arg);
/* Ends all with DRAINING, and lets none wait any more. */
void early_requests_drain(struct early_requests *requests, early_request_end on_end, void *arg);
