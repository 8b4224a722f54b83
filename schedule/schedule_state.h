/*
 * schedule_state - the state of a schedule, for its three files: schedule.c (requests and their states),
 * schedule_capacity.c (blocks), schedule_batch.c (the work of a step).
 *
 *     entries   [sequences_max + waiting_max] by schedule_id
 *     admitted  [n_admitted] ids, by rank: the first always makes progress, the last is paused first
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
    bool is_stalled; /* no block for its next token */
    bool needs_handover;
    bool is_held; /* not to be admitted now */
    bool is_whole;
    uint32_t n_beams; /* 1 or more: its places */
    uint32_t n_prompt, max_new;
    uint32_t n_tokens;   /* known tokens: the prompt and the generated ones */
    uint32_t n_kv;       /* of these, computed; 0 while it waits */
    uint32_t n_ahead;    /* of a decode: known tokens behind its last one, computed with it */
    uint32_t n_chosen;   /* of a decode: tokens in the batch that is made */
    uint32_t n_charged;  /* the most that n_kv has been: computing again is free of charge */
    uint32_t n_cached;   /* where the computation begins */
    uint32_t n_cut;      /* where a chunk ends; 0: anywhere */
    uint32_t n_shared;   /* blocks that other sequences hold, too */
    uint32_t n_blocks;   /* in its table; 0 while it waits */
    uint32_t n_granted;  /* in its table after its next work */
    uint32_t n_promised; /* prompt tokens that its tenant will be charged for; 0 while it waits */
    uint32_t share;      /* index of its sharer */
    schedule_id next;    /* in the batch's list of its tenant's prompts */
};

struct schedule_holding {
    uint32_t n_sequences;
    schedule_id first, last; /* its prompts by rank, while a batch is made */
    bool is_computing;       /* the last batch had prompts of it */
    uint64_t chunk_time;     /* then: their computed tokens, divided by weight */
};

struct schedule {
    struct schedule_options options;
    uint32_t entries_max;
    struct schedule_entry *entries;
    schedule_id *unused; /* [entries_max] a stack of free ids */
    uint32_t n_unused;
    struct fair_queue queue;
    struct fair_turns turns;
    struct schedule_holding *holdings; /* [entries_max] */
    struct shares shares;
    struct pace pace;
    uint32_t n_chunk_tokens; /* prompt tokens reported since the last schedule_took */
    uint64_t n_looks;        /* searches for the next request since the start: shares.h */
    schedule_id *admitted;   /* [sequences_max] */
    uint32_t n_admitted;
    uint32_t n_paused; /* waiting ones that were paused: each keeps its places */
    uint32_t n_places; /* of the admitted and the paused ones */
    uint64_t pauses, tokens_again;

    schedule_id *paused;                   /* [sequences_max] by the last capacity */
    struct schedule_admission *admissions; /* [sequences_max] */
    struct schedule_work *work;            /* [sequences_max] of the last batch */
    schedule_id *decodes;                  /* [sequences_max] */
    bool has_turn;     /* not all decodes fitted into the last batch: the next begins after */
    int64_t turn_rank; /* this one */
    uint64_t turn_seq;
};

/* That many of its tokens need. */
uint32_t schedule_blocks(const struct schedule *schedule, const struct schedule_entry *entry,
                         uint32_t n_tokens);
/* A group of layers holds no more than so many spans. */
bool schedule_has_limit(const struct schedule *schedule);
/* The blocks of its table if it becomes as long as it may. */
uint32_t schedule_blocks_at_end(const struct schedule *schedule,
                                const struct schedule_entry *entry);
bool schedule_is_admitted(const struct schedule_entry *entry);

/* The share of one sharer in n, rounded up so that it is never 0. */
uint32_t schedule_share(const struct schedule_options *options, uint32_t n);

/* From WAITING to admitted with blocks, and back. */
void schedule_start(struct schedule *schedule, schedule_id id);
void schedule_stop(struct schedule *schedule, schedule_id id);
