/*
 * gen_engine_state - what a generation engine holds. gen_engine.h says what it does.
 *
 * Thread: the engine's, but for inbox and published.
 */
#pragma once

#include "engine/block_owners.h"
#include "engine/engine_core.h"
#include "engine/published.h"
#include "gen_worker/gen_batch.h"
#include "gen_worker/gen_ops.h"
#include "gen_worker/gen_options.h"
#include "gen_worker/gen_stats.h"
#include "gen_worker/handover_set.h"

struct gen_engine {
    struct gen_engine_options options;
    struct gen_engine_ops ops;
    struct gen_home home;
    struct engine_inbox inbox;
    struct request_queue pending; /* wait for their constraints */
    struct request_queue queue;
    struct gen_batch batch;
    struct handover_set handovers;
    struct block_owners owners;
    struct engine_core core;       /* the order of a step */
    struct gen_engine_stats stats; /* the engine thread's */

    struct published published; /* a struct gen_engine_stats */
};
