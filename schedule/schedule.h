/*
 * schedule - who computes what in a worker's next step: policy, and nothing else.
 *
 *     add -> WAITING -> COMPUTING -> DECODING -> remove       a prompt without new tokens: COMPUTING -> DONE
 *               ^   \-> FETCHING ->-/   |                      (a context worker's: held until it was read)
 *               +------- pause ---------+
 *
 * A step is two questions and an answer:
 *
 *     schedule_capacity   whose blocks are given back, who gets blocks for the first time or again;
 *     schedule_batch      which tokens of whom are computed: chunks of prompts, then decodes;
 *     schedule_computed   what came of it, a call for each piece of work that was done;
 *     schedule_took       and how long all of it took, which says how many prompt tokens the next steps have (pace.h).
 *
 * Between the first two the caller moves blocks, looks up prefixes (schedule_set_prefix) and starts
 * hand-overs (schedule_fetch). Work that is not reported was not done and is proposed again. No clock, no
 * I/O, no blocks: time is an argument and blocks are counts. Same calls, same answers.
 *
 * Tokens and blocks. A request knows n_tokens, its prompt and what was generated; n_kv of them are computed.
 * It holds the blocks of all known tokens from its admission on (a hand-over writes into all of them), and
 * one block more whenever a generated token begins one. The last token is never computed:
 *
 *     tokens  [ prompt ......................... | generated .. ]   n_tokens
 *     KV      [ cached | computed, n_kv ....]                       at most prompt + max_new - 1 in the end
 *     blocks  [    ][    ][    ][    ][    ][    ][    ][    ]      ceil(n_tokens / block_tokens)
 *
 * Capacity, by policy:
 *
 *     NO_EVICT         admits when what all admitted ones still need to their very end fits: nobody is paused
 *     MAX_UTILIZATION  admits when the known tokens fit now and headroom_blocks stay; when a decode finds no
 *                      block, the youngest is paused: its blocks go back, its tokens are computed again later
 *     STATIC_BATCH     as NO_EVICT, but admits only when nobody is admitted: a batch at a time
 *
 * Order. Between tenants: who was served least for its weight (fair_queue.h); its head waits for room, and
 * nobody overtakes a head, so that large requests starve no more than small ones. Inside a tenant: by rank, and
 * the older of equals. Rank is arrival minus priority * aging_ms: one more of priority is worth aging_ms of
 * waiting, so a request is overtaken only by what arrives within 2 * SCHEDULE_PRIORITY_MAX * aging_ms after it.
 * Admitted ones stand by rank, too, whosoever they are: the last is paused first, nobody pauses for a younger
 * one, and so the first always gets on. After a step that paused or stalled somebody nobody is admitted. Who is
 * paused keeps one of sequences_max places, and so comes before those of its tenant that have none.
 * In a batch the tenants that compute prompts get chunks in turn; who begins to begins beside the one of the
 * others that got least, whatever was admitted before it came.
 *
 * Bounds
 *   Tokens      a batch computes at most batch_tokens; decodes come first, and while prompts are computed one
 *               block's worth is kept for them. Decodes that find no room are first the next time.
 *   Time        of prompts no more than is believed to be computed in step_target_ns, but one block.
 *   Unfairness  two tenants that have waiting requests all the time from a moment when both were new are served
 *               (tokens computed for the first time, over weight) within 2 * U / smaller weight of each other.
 *               U: what the admitted of one tenant can be served in all. NO_EVICT, STATIC_BATCH: the
 *               pool's tokens, without shared prefixes. Always: sequences_max * longest request.
 *               With tenant_share_percent under 100 there is no such bound: whose sharer is at its cap waits,
 *               while those of its tenant that other sharers ask for may come before it.
 *   Tenants     as many as requests, and so always enough: one without requests is forgotten when its place is
 *               needed for another.
 *   Memory      all is allocated by create. sequences_max are admitted or paused, waiting_max wait; beyond:
 *               QUEUE_FULL.
 *
 * Thread: one, the engine's.
 */
#pragma once

#include "base/standing.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define SCHEDULE_PRIORITY_MAX STANDING_PRIORITY_MAX /* and down to its negative */
#define SCHEDULE_WEIGHT_MAX   STANDING_WEIGHT_MAX   /* 1 and up */
#define SCHEDULE_TOKENS_MAX   (1u << 30)

enum schedule_policy { SCHEDULE_NO_EVICT, SCHEDULE_MAX_UTILIZATION, SCHEDULE_STATIC_BATCH };

const char *schedule_policy_name(enum schedule_policy policy); /* "no-evict" */

struct schedule_options {
    enum schedule_policy policy;
    uint32_t n_blocks;        /* of the pool */
    uint32_t block_tokens;    /* tokens in a block */
    uint32_t batch_tokens;    /* computed in a step at most; over block_tokens */
    uint32_t chunk_tokens;    /* of one prompt in a step; at least block_tokens */
    uint64_t step_target_ns;  /* that a step with prompts should take; 0: however long it takes */
    uint32_t sequences_max;   /* admitted at a time, which is in a batch at most */
    uint32_t waiting_max;     /* waiting when one more is added */
    uint32_t headroom_blocks; /* MAX_UTILIZATION: left free by an admission beside others */
    uint32_t aging_ms;        /* of waiting make up for one of priority */
    uint32_t
        tenant_share_percent; /* of sequences, blocks and waiting places that one sharer gets beside
                                    * what it has already; 100: no cap */
};

struct schedule_request {
    uint64_t tenant;  /* who is served fairly, */
    uint64_t sharer;  /* and who is bounded by tenant_share_percent: a context worker's caller */
    uint32_t weight;  /* its tenant's; what was said last counts */
    int32_t priority; /* higher is earlier */
    uint32_t prompt_tokens;  /* 1 or more */
    uint32_t max_new_tokens; /* 0: only the prompt is computed */
    uint32_t cached_tokens;  /* of the prompt's beginning, their KV is there; not all of it */
    uint32_t blocks_shared;  /* of these, whole blocks that somebody holds: they cost nothing */
    bool needs_handover;     /* the prompt cannot be computed here */
};

enum schedule_state {
    SCHEDULE_WAITING, /* not yet admitted, or paused */
    SCHEDULE_FETCHING,
    SCHEDULE_COMPUTING,
    SCHEDULE_DECODING,
    SCHEDULE_DONE /* has blocks and nothing to compute */
};

struct schedule;

typedef uint32_t schedule_id; /* 0 .. sequences_max + waiting_max - 1; used again after remove */
#define SCHEDULE_NONE UINT32_MAX

/* INVALID_ARGUMENT: error gets a sentence with field, value and limit. NO_MEMORY. */
MUST_CHECK enum status schedule_create(const struct schedule_options *options, struct error *error,
                                       struct schedule **schedule_out);
void schedule_destroy(struct schedule *schedule); /* NULL is fine */

/* ---- requests ---- */

/* NO_BLOCKS: it could never run, error says what it needs and what there is. QUEUE_FULL: try later; SHARE_FULL: the same,
 * but another sharer may come now. INVALID_ARGUMENT: a field is out of range. */
MUST_CHECK enum status schedule_add(struct schedule *schedule,
                                    const struct schedule_request *request, uint64_t now_ms,
                                    struct error *error, schedule_id *id_out);
/* It ended, for whatever reason, or never began; the caller has given its blocks back. */
void schedule_remove(struct schedule *schedule, schedule_id id);
/* Admitted: it computes nothing more and is DONE, but keeps its place and its blocks until it is removed. Its
 * lease has ended, and a reader is not yet quiet. */
void schedule_close(struct schedule *schedule, schedule_id id);

/* What the prefix cache has of its known tokens, which may be as old as the last step for one that waits and
 * must be true for one that was just admitted. Not after its first token was computed. */
void schedule_set_prefix(struct schedule *schedule, schedule_id id, uint32_t cached_tokens,
                         uint32_t blocks_shared);
/* Just admitted: its prompt comes from a context worker; it holds blocks and computes nothing, */
void schedule_fetch(struct schedule *schedule, schedule_id id);
/* until all KV of its prompt has arrived, */
void schedule_fetched(struct schedule *schedule, schedule_id id);
/* or the hand-over failed, and what was not cached is computed here. */
void schedule_fetch_failed(struct schedule *schedule, schedule_id id);
/* The pool did not have after all what the plan said: its blocks were given back. */
void schedule_pause(struct schedule *schedule, schedule_id id);

/* ---- a step ---- */

struct schedule_room {
    uint32_t n_blocks_available; /* free, or cached and held by nobody */
    uint32_t n_handovers_free;   /* UINT32_MAX: they do not matter */
};

struct schedule_admission {
    schedule_id id;
    uint32_t n_blocks; /* of its table, what it shares included */
    bool is_resumed;   /* was admitted before, and paused */
};

/* Borrowed until the next call of schedule_capacity. First all pauses, then the admissions in their order. */
struct schedule_changes {
    uint32_t n_paused, n_admitted;
    const schedule_id *paused;
    const struct schedule_admission *admitted;
    enum status
        waits_for; /* what the next one lacks. NO_BLOCKS; QUEUE_FULL: a sequence, a hand-over,
                            * its share of them, or the batch's end. OK: nobody waits */
    /* Who lacks blocks: it comes first when it turns out to need fewer (set_prefix). NONE: something else is
     * lacking, or somebody was paused or stalled. */
    schedule_id next;
};

/* Paused and admitted ones are in their new state when it returns. */
void schedule_capacity(struct schedule *schedule, const struct schedule_room *room,
                       struct schedule_changes *changes_out);

struct schedule_work {
    schedule_id id;
    uint32_t first;    /* position of the first token to compute: n_kv */
    uint32_t n_tokens; /* whole blocks up to its end, unless it is the last chunk; a decode: 1 */
    uint32_t n_blocks; /* that its table must have by now */
    bool draws;        /* the last known token is computed: the next one is drawn */
};

/* Borrowed until the next call of schedule_batch. */
struct schedule_batch {
    uint32_t n, n_chunks; /* chunks of prompts first, then decodes */
    uint32_t n_tokens;
    const struct schedule_work *work;
};

/* Changes no request. Each after a schedule_capacity: what was drawn since may need a block. */
void schedule_batch(struct schedule *schedule, struct schedule_batch *batch_out);

/* Of id's work: n_tokens of it were computed, and n_new were drawn (for a decode 1, so far). While a hand-over is
 * fetched its first token comes from the context worker, before the KV: (id, 0, 1). What is drawn beyond
 * max_new_tokens is not told: of a prompt with 0, which a context worker computes, the first token. */
void schedule_computed(struct schedule *schedule, schedule_id id, uint32_t n_tokens,
                       uint32_t n_new);

/* All that was reported since the last call was one step, or part of it, and took so long. */
void schedule_took(struct schedule *schedule, uint64_t step_ns);

/* ---- figures ---- */

/* What a prompt's token takes, as was measured; 0: nothing was yet. */
uint64_t schedule_token_ns(const struct schedule *schedule);

struct schedule_counts {
    uint32_t n_waiting, n_paused; /* n_waiting counts the paused, too */
    uint32_t n_admitted, n_fetching, n_computing, n_decoding, n_done;
    uint64_t pauses;         /* ever */
    uint64_t tokens_again;   /* ever computed or fetched a second time */
    uint64_t waiting_tokens; /* of prompts, to be computed or fetched */
};

void schedule_count(const struct schedule *schedule, struct schedule_counts *counts_out);
enum schedule_state schedule_state_of(const struct schedule *schedule, schedule_id id);
