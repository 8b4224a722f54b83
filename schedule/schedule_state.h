/*
 * schedule_state - what a schedule is made of, for its three files: schedule.c (requests and their states),
 * schedule_capacity.c (who has blocks), schedule_batch.c (who computes).
 *
 *     entries   [sequences_max + waiting_max] by schedule_id
 *     admitted  [n_admitted] ids, by rank: the first gets on always, the last is paused first
 *     holdings  of each tenant, by its index in the queue
 *     shares    of each sharer, by the index that its entries have
 *
 * Thread: the schedule's.
 */
#pragma once

#include "schedule/fair_queue.h"
#include "schedule/fair_turns.h"
#include "schedule/pace.h"
#include "schedule/schedule.h"
#include "schedule/shares.h"

struct schedule_entry {
    bool is_known;
    enum schedule_state state;
    bool was_paused; /* admitted before */
    bool is_stalled; /* there was no block for its next token */
    bool needs_handover;
    uint32_t n_prompt, max_new;
    uint32_t n_tokens;   /* known: the prompt and what was generated */
    uint32_t n_kv;       /* of these computed; 0 while it waits */
    uint32_t n_charged;  /* of these, the most that ever were: computing them again is free */
    uint32_t n_cached;   /* where computing begins */
    uint32_t n_shared;   /* blocks that others hold, too */
    uint32_t n_blocks;   /* of its table; 0 while it waits */
    uint32_t n_granted;  /* of its table when its next work is done */
    uint32_t n_promised; /* prompt tokens that its tenant will be charged for; 0 while it waits */
    uint32_t share;      /* index of its sharer */
    schedule_id next;    /* in a batch's list of its tenant's prompts */
};

struct schedule_holding {
    uint32_t n_sequences;
    schedule_id first, last; /* while a batch is made: its prompts, by rank */
    bool is_computing;       /* there were some in the last batch */
    uint64_t chunk_time;     /* while there are: what they were computed, over weight */
};

struct schedule {
    struct schedule_options options;
    uint32_t entries_max;
    struct schedule_entry *entries;
    schedule_id *unused; /* [entries_max] a stack */
    uint32_t n_unused;
    struct fair_queue queue;
    struct fair_turns turns;
    struct schedule_holding *holdings; /* [entries_max] */
    struct shares shares;
    struct pace pace;
    uint32_t n_chunk_tokens; /* of prompts, reported since the last schedule_took */
    uint64_t n_looks;        /* for who comes next, ever: shares.h */
    schedule_id *admitted;   /* [sequences_max] */
    uint32_t n_admitted;
    uint32_t n_paused; /* waiting ones that were admitted before: each keeps a place */
    uint64_t pauses, tokens_again;

    schedule_id *paused;                   /* [sequences_max] by the last capacity */
    struct schedule_admission *admissions; /* [sequences_max] */
    struct schedule_work *work;            /* [sequences_max] of the last batch */
    schedule_id *decodes;                  /* [sequences_max] */
    bool has_turn;     /* the decodes of the last batch did not all fit: the next begin after */
    int64_t turn_rank; /* this one */
    uint64_t turn_seq;
};

uint32_t schedule_blocks(const struct schedule *schedule, uint32_t n_tokens);
/* Blocks of its table when it has ended as long as it may. */
uint32_t schedule_blocks_at_end(const struct schedule *schedule,
                                const struct schedule_entry *entry);
bool schedule_is_admitted(const struct schedule_entry *entry);

/* What one tenant gets of n: rounded up, so that it is never nothing. */
uint32_t schedule_share(const struct schedule_options *options, uint32_t n);

/* WAITING -> with blocks and in admitted, and back. */
void schedule_start(struct schedule *schedule, schedule_id id);
void schedule_stop(struct schedule *schedule, schedule_id id);
