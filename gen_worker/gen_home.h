/*
 * gen_home - what the parts of a generation engine share. gen_engine owns it.
 *
 * Thread: the engine's.
 */
#pragma once

#include "base/clock.h"
#include "gen_worker/draft.h"
#include "gen_worker/gen_inbox.h"
#include "gen_worker/gen_ops.h"
#include "gen_worker/gen_stats.h"

struct cache_events;
struct handover_set;
struct prefix_tier;
struct request_queue;
struct schedule;
struct sequence;

struct gen_home {
    const struct gen_engine_options *options;
    const struct gen_engine_ops *ops;
    struct engine_inbox *inbox;
    struct gen_engine_stats *stats;
    struct sequence *sequences; /* [options->sequences_max] */
    struct kv_manager *manager;
    struct prefix_tier *tier;    /* NULL: none */
    struct cache_events *events; /* NULL: nobody watches the cache */
    struct schedule *schedule;   /* decides which requests have blocks and compute */
    struct job **jobs;           /* [sequences_max + queue_max] by schedule_id; NULL: none */
    struct request_queue *queue; /* jobs that wait for their first admission */
    struct handover_set *handovers;
    uint32_t *mask;  /* [(vocabulary + 31) / 32] scratch */
    bool runs_ahead; /* several generated tokens in a pass have the bits of one by one */
    struct draft_pace pace;
    uint64_t step_ns; /* the longest step, less an eighth with each later step */
};

static inline uint64_t gen_home_now_ns(const struct gen_home *home)
{
    return home->ops->now_ns(home->ops->arg);
}

/* Tells the client how the request ended: the last use of the job's stream. */
void gen_home_finish_stream(const struct gen_home *home, const struct job *job,
                            const struct gen_finish *finish);
/* The same for a job that is in neither the schedule nor a sequence. Destroys the job. */
void gen_home_refuse(const struct gen_home *home, struct job *job, enum status status,
                     const char *sentence);
