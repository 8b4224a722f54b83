/*
 * handover - one prompt that a context worker computes for this worker, and the fetch of its blocks.
 *
 *     FREE -> STARTING -> FETCHING -> COMMITTING -> CLOSING -> FREE
 *              asked       described,  all arrived,   detached from its sequence; until
 *                          lease open  sealed         prefill_end, QUIET and the commit's result
 *                                                     have come
 *
 * The local blocks belong to the sequence; they are marked inbound from FETCHING on. close(KEEP) after a granted commit leaves
 * them to the sequence. close(DISCARD) fences them until the receiver is quiet, whatever else holds them.
 *
 * Ready events must come in the prompt's order, without gaps. Anything else ends the hand-over.
 *
 * Timeouts. In each context_limit the context worker must announce context_limit_tokens of the prompt; its description, its
 * acceptance and its seal have one context_limit each. So more events do not give it more time. Announced blocks must arrive in
 * a time that grows only with their bytes. A context worker that reports a backlog gets more: one context_limit more with each
 * report, but at most twice the time of the backlog, and at most context_limit_max since it was asked. So one that stops
 * reporting times out as soon as any other. One that computes reports during a step, too, as its layers get done.
 *
 * Thread: the engine's.
 */
#pragma once

#include "engine/prefill_event.h"
#include "gen_worker/gen_described.h"
#include "gen_worker/gen_home.h"
#include "kvcache/crossing.h"
#include "kvtransfer/transfer_plan.h"

enum handover_state {
    HANDOVER_FREE,
    HANDOVER_STARTING,
    HANDOVER_FETCHING,
    HANDOVER_COMMITTING,
    HANDOVER_CLOSING
};

struct handover {
    enum handover_state state;
    uint64_t id;               /* the prefill handle, never reused */
    struct sequence *sequence; /* NULL when CLOSING */
    struct transfer_id transfer;
    char context_worker[GEN_ADDRESS_MAX + 1];
    uint64_t incarnation; /* the context worker's, from FETCHING on */
    bool has_other_numerics;
    bool is_open;    /* the receiver knows the transfer and has not said QUIET */
    bool is_inbound; /* the local blocks are marked */
    bool awaits_end, awaits_commit;
    bool is_accepted, is_sealed;
    bool has_first_token;
    bool wants_scores;        /* of the prompt's tokens; */
    uint32_t n_scored;        /* so many have come */
    struct crossing crossing; /* which blocks of the prompt are fetched, and their numbers */
    uint32_t block_tokens;    /* of the context worker's blocks, */
    uint64_t block_bytes;     /* which have so many bytes; */
    uint32_t n_blocks;        /* so many are to be fetched */
    /* Where blocks that are not like the pool's are put; spans: [n_local], of this worker's groups, one after the other. Read by
     * the transfer thread from open to QUIET. */
    bool is_converted;
    struct crossing local; /* as crossing, in this worker's blocks */
    struct transfer_plan plan;
    uint8_t **spans;
    uint32_t held_tokens; /* whole blocks of this worker */
    uint32_t n_announced, n_arrived;
    uint32_t n_prompt; /* tokens */
    block_id *blocks;  /* [n_local] local ids; room for the blocks of context_tokens */
    uint32_t n_local;
    uint32_t n_fenced; /* of blocks: 0 or n_local */
    /* Two timeouts: of the context worker's progress (its description, its acceptance, so much of the prompt announced), and of
     * what is under way (announced blocks, the answer to the commit). */
    uint64_t word_limit_ns, limit_ns;
    uint32_t n_paced; /* tokens that were announced when word_limit_ns was renewed */
    uint32_t n_backlogs;
    uint64_t began_ns;
    uint64_t first_ready_ns, commit_began_ns;
    uint64_t bytes;                 /* arrived */
    uint32_t context_cached_tokens; /* found in the context worker's prefix cache */
    uint64_t context_queue_us, context_compute_us;
};

MUST_CHECK enum status handover_init(struct handover *handover, uint32_t blocks_max);
/* Takes off marks and fences: no transfer may run any more. A zeroed one is fine. */
void handover_finish(struct handover *handover, const struct gen_home *home);

struct handover_plan {
    uint64_t id;
    const struct job *job;
    uint32_t held_tokens;            /* whole blocks */
    bool wants_scores;               /* of the prompt's tokens */
    const struct block_table *table; /* with the blocks that cross */
};

/* Asks the context worker. */
void handover_start(struct handover *handover, const struct gen_home *home,
                    const struct handover_plan *plan, uint64_t now_ns);

/* Messages for it. Not OK: the hand-over has failed, error says why; close it. */
MUST_CHECK enum status handover_described(struct handover *handover, const struct gen_home *home,
                                          const struct gen_described *described,
                                          struct error *error, uint64_t now_ns);
MUST_CHECK enum status handover_backlog(struct handover *handover, const struct gen_home *home,
                                        const struct prefill_event *event, struct error *error,
                                        uint64_t now_ns);
MUST_CHECK enum status handover_accepted(struct handover *handover, const struct gen_home *home,
                                         const struct prefill_event *event, struct error *error,
                                         uint64_t now_ns);
MUST_CHECK enum status handover_ready(struct handover *handover, const struct gen_home *home,
                                      const struct prefill_event *event, struct error *error,
                                      uint64_t now_ns);
MUST_CHECK enum status handover_sealed(struct handover *handover, const struct prefill_event *event,
                                       struct error *error);
void handover_arrived(struct handover *handover, const struct kv_receiver_event *event);

/* Leading tokens of the prompt whose blocks are here or were announced. */
uint32_t handover_announced_tokens(const struct handover *handover);

/* When it times out; DEADLINE_NONE: never. */
uint64_t handover_limit_ns(const struct handover *handover);
/* Says which timeout that is. */
const char *handover_limit_sentence(const struct handover *handover);

/* All blocks have arrived, and it is sealed: commit it. */
bool handover_is_complete(const struct handover *handover);
void handover_commit(struct handover *handover, const struct gen_home *home, uint64_t now_ns);

enum handover_fate { HANDOVER_KEEP, HANDOVER_DISCARD };
/* Detaches it from its sequence, and ends the lease and the fetch. */
void handover_close(struct handover *handover, const struct gen_home *home,
                    enum handover_fate fate);
/* The receiver said QUIET. */
void handover_quiet(struct handover *handover, const struct gen_home *home);
/* Makes it FREE if it is CLOSING and waits for nothing any more. */
void handover_settle(struct handover *handover);
