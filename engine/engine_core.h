/*
 * engine_core - the round of both engines: the order of its parts, and all of a request until it starts. The parts that differ are
 * functions in a table.
 *
 *     step:  (time of the last step) -> events of transfers -> messages, drain, stop -> constraints -> timeouts of running requests
 *            -> deadlines of waiting requests -> admission -> queue limit -> one batch -> figures
 *
 * Callers rely on the order. Events come first, because they free blocks and slots for the admission. Deadlines come before the
 * admission, so a late request does not start. The queue limit comes after the admission, so with a limit of 0 a request that can
 * start at once does. The batch comes last, so a request that ended in this round is not computed.
 *
 * A request with a constraint is pending until that is compiled, one that needs the tokenizer until it is loaded; then it is queued, or refused with what is wrong in the constraint.
 * This takes constraint_desk_limit_ns at most. The queue limit counts from the arrival.
 *
 * A request that arrives while the engine drains, after its deadline, or with the id of another request is refused. A waiting
 * request ends with CANCELLED when its stream ends, with DRAINING at a stop, with DEVICE_LOST after the loss of the device, with
 * TIMED_OUT at its deadline, and at the queue limit with the status of what it lacks. Running requests are the engine's.
 *
 * Thread: the engine's.
 */
#pragma once

#include "device/device.h"
#include "engine/constraint_desk.h"
#include "engine/engine_inbox.h"
#include "engine/request_queue.h"

struct engine_admission {
    enum status
        waits_for;    /* what the next request lacks: NO_BLOCKS or QUEUE_FULL. OK: none waits */
    bool has_changed; /* another round may do more */
};

struct engine_core_ops {
    void (*take_events)(void *engine, uint64_t now_ns);
    bool (*take_message)(void *engine, uint64_t now_ns); /* one; false: there is none */
    void (*expire_running)(void *engine, uint64_t now_ns);
    uint64_t (*next_limit_ns)(
        void *engine); /* the next timeout of a running request; DEADLINE_NONE: none */
    /* Ends the running request of that stream, if there is one. NULL: all running requests. */
    void (*end_running)(void *engine, const void *stream, enum status status);
    bool (*is_running)(void *engine, const struct engine_request *request); /* one with its id */
    /* Adds it to the schedule and sets schedule_id. Not OK: it was not added; sentence_out may say more than the status. */
    enum status (*enlist)(void *engine, struct engine_request *request, uint64_t now_ns,
                          const char **sentence_out);
    void (*delist)(void *engine, struct engine_request *request);
    /* Ends a request that neither waits nor runs. Becomes its owner. */
    void (*end)(void *engine, struct engine_request *request, enum status status,
                const char *sentence);
    struct engine_admission (*admit)(void *engine, uint64_t now_ns);
    bool (*compute)(void *engine); /* one batch; false: there is nothing to compute */
    /* step_ns: from the start of a round that computed to the start of the next round, which follows at once. */
    void (*took)(void *engine, uint64_t step_ns);
    void (*publish)(void *engine, uint64_t now_ns);
};

struct engine_core {
    const struct engine_core_ops *ops;
    void *engine;                /* of the functions in ops */
    const struct device *device; /* what it computes on */
    struct engine_inbox *inbox;
    struct request_queue *queue;
    struct request_queue *pending; /* their constraints are ordered */
    struct constraint_desk *desk;  /* NULL: requests with constraints are refused, UNSUPPORTED */
    bool is_draining;              /* from the first round after engine_inbox_drain */
    bool has_computed;             /* in the last round, */
    uint64_t began_ns;             /* which began at this time */
};

/* A request has arrived: it is queued or refused. Becomes its owner. */
void engine_core_request(struct engine_core *core, struct engine_request *request, uint64_t now_ns);
/* Ends a request that has left the queue and does not run. Becomes its owner. */
void engine_core_refuse(struct engine_core *core, struct engine_request *request,
                        enum status status, const char *sentence);
/* Ends the request of that id if it is pending or queued. False: there is none. */
bool engine_core_abort(struct engine_core *core, const char *request_id, enum status status,
                       const char *sentence);
/* The reader or client has left. Ignored if the stream has finished meanwhile. */
void engine_core_stream_ended(struct engine_core *core, const void *stream);

/* Returns the time of the next call: now_ns when there is more to do, DEADLINE_NONE when only a message or an event can bring
 * work. */
uint64_t engine_core_step(struct engine_core *core, uint64_t now_ns);
