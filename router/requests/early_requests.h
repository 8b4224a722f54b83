/*
 * early_requests - requests that arrive before the tokenizer is loaded, or before a generation worker has reported the
 * model with which requests are checked (vocabulary, context).
 *
 *     early_requests_push --> early_requests_step: the needed data is known, or the wait is over --> on_end, once each
 *
 * Requests that can be checked take turns by tenant, as in the core's waiting room (waiting_room.h). Each costs its
 * bytes, as its tokens are not known yet. Without room, a request of the tenant with most requests for its weight ends,
 * to make room for a tenant that would have fewer.
 *
 * A request is kept packed, because its message is only valid while its handler runs.
 *
 * Bounds: requests_max wait, and have bytes_max bytes together (one alone may have more); then a push fails, or another
 * request ends. Each waits at most wait_limit_ns, counted by the steps; the time starts again when the tokenizer is
 * loaded, because no worker was asked before.
 *
 * Thread: early_requests_step and _drain on main, on_end within them; the others any, and on_end within a push.
 */
#pragma once

#include "router/requests/door.h"

struct early_requests;

struct early_requests_options {
    uint32_t requests_max; /* 0: early requests are refused */
    uint64_t bytes_max;
    uint64_t wait_limit_ns;
};

/* What a router has come to know; each with those before it. */
enum early_known { EARLY_NOTHING, EARLY_TOKENIZER, EARLY_MODEL };

/* A request as it arrived. */
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
/* No request may wait any more. NULL is fine. */
void early_requests_destroy(struct early_requests *requests);

/* Takes a holder of the call, and a copy of the request. NO_GENERATION_WORKER (requests_max of 0),
 * QUEUE_FULL, DRAINING, NO_MEMORY. on_end with QUEUE_FULL runs for a request that makes room. */
MUST_CHECK enum status early_requests_push(struct early_requests *requests,
                                           const struct arrival *arrival,
                                           const struct standing *standing,
                                           early_request_end on_end, void *arg);
/* The number of requests whose on_end has not returned: while there are any, new requests wait
 * behind them. */
uint32_t early_requests_count(struct early_requests *requests);

/* Ends the requests whose call is over (with its status), those for which enough is known (OK), and those that have
 * waited too long (LOADING, NO_GENERATION_WORKER). */
void early_requests_step(struct early_requests *requests, uint64_t now_ns, enum early_known known,
                         early_request_end on_end, void *arg);
/* Ends all with DRAINING; from then on none may wait. */
void early_requests_drain(struct early_requests *requests, early_request_end on_end, void *arg);
