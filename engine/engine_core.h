/*
 * engine_core - the round that both engines make, again and again; what is an engine's own in it, is in a table.
 *
 *     step:  (how long the last one took) -> events of transfers -> messages, drain, stop -> limits of what runs
 *            -> deadlines of what waits -> admission -> the queue's limit -> one batch -> figures
 *
 * The order is part of what callers are promised. Events come first, for they free what admission wants; whose
 * deadline has passed is not admitted any more; who has waited too long is asked after admission, so that with a
 * limit of 0 who can start at once does; a batch comes last, so that whoever ended in this round costs no computing.
 *
 * It knows all there is to know of a request until that starts. A request that comes while the engine drains, after its
 * deadline, or with the id of another one is refused. A request that waits ends with CANCELLED when its stream ends, with
 * DRAINING at a stop, with DEVICE_LOST when nothing can be computed any more, with TIMED_OUT at its deadline, and after the
 * queue's limit with what it lacks. What runs is the engine's.
 *
 * Thread: the engine's.
 */
#pragma once

#include "device/device.h"
#include "engine/engine_inbox.h"
#include "engine/request_queue.h"

struct engine_admission {
    enum status waits_for; /* what the next one lacks: NO_BLOCKS or QUEUE_FULL. OK: nobody waits */
    bool has_changed;      /* something that another round may go on with */
};

struct engine_core_ops {
    void (*take_events)(void *engine, uint64_t now_ns);
    bool (*take_message)(void *engine, uint64_t now_ns); /* one; false: there is none */
    void (*expire_running)(void *engine, uint64_t now_ns);
    uint64_t (*next_limit_ns)(void *engine); /* when the next of them expires; DEADLINE_NONE */
    /* With that status what runs for the stream, if anything; NULL: all that runs. */
    void (*end_running)(void *engine, const void *stream, enum status status);
    bool (*is_running)(void *engine, const struct engine_request *request); /* one of that id */
    /* Into the schedule, under a schedule_id. Not OK: it is not there; sentence_out may say more than the status. */
    enum status (*enlist)(void *engine, struct engine_request *request, uint64_t now_ns,
                          const char **sentence_out);
    void (*delist)(void *engine, struct engine_request *request);
    /* Of one that neither waits nor runs; becomes its owner. */
    void (*end)(void *engine, struct engine_request *request, enum status status,
                const char *sentence);
    struct engine_admission (*admit)(void *engine, uint64_t now_ns);
    bool (*compute)(void *engine); /* one batch; false: there is nothing to compute */
    /* From the begin of a round that computed to that of the next one, which follows at once. */
    void (*took)(void *engine, uint64_t step_ns);
    void (*publish)(void *engine, uint64_t now_ns);
};

struct engine_core {
    const struct engine_core_ops *ops;
    void *engine;                /* of the functions in ops */
    const struct device *device; /* what it computes on */
    struct engine_inbox *inbox;
    struct request_queue *queue;
    bool is_draining;  /* from the first round that saw the wish */
    bool has_computed; /* the last round did, */
    uint64_t began_ns; /* which began then */
};

/* A request that has come: it waits, or ends. Becomes its owner. */
void engine_core_request(struct engine_core *core, struct engine_request *request, uint64_t now_ns);
/* Ends a request that has left the queue and does not run. Becomes its owner. */
void engine_core_refuse(struct engine_core *core, struct engine_request *request,
                        enum status status, const char *sentence);
/* The reader or client is gone. One that crossed its finish names nobody, and is ignored. */
void engine_core_stream_ended(struct engine_core *core, const void *stream);

/* Returns when it wants to be called again: now_ns when there is more to do, DEADLINE_NONE when only a message or
 * an event can bring work. */
uint64_t engine_core_step(struct engine_core *core, uint64_t now_ns);
