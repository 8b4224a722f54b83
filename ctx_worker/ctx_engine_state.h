/*
 * ctx_engine_state - what a context engine holds. ctx_engine.h says what it does.
 *
 * Thread: the engine's, but for inbox, held and published.
 */
#pragma once

#include "ctx_worker/ctx_backlog.h"
#include "ctx_worker/ctx_batch.h"
#include "ctx_worker/ctx_inbox.h"
#include "ctx_worker/ctx_ops.h"
#include "ctx_worker/ctx_options.h"
#include "ctx_worker/ctx_stats.h"
#include "ctx_worker/held_transfers.h"
#include "ctx_worker/prefill_set.h"
#include "engine/block_owners.h"
#include "engine/engine_core.h"
#include "engine/published.h"
#include "schedule/schedule.h"

struct ctx_engine {
    struct ctx_engine_options options;
    struct ctx_engine_ops ops;
    struct prefill_home home;
    struct engine_inbox inbox;
    struct request_queue pending; /* wait for their constraints */
    struct request_queue queue;   /* what is in it waits in the schedule, too */
    struct schedule *schedule;    /* has an admitted request for each slot that is not FREE */
    struct prefill_set slots;
    struct held_transfers held; /* transfers that are sealed and not granted */
    struct engine_core core;    /* the order of a step */
    struct ctx_batch batch;
    struct ctx_backlog backlog; /* of queue and slots */
    struct block_owners owners;
    struct ctx_engine_stats stats; /* the engine thread's */

    struct published published; /* a struct ctx_engine_stats */
};
