/*
 * schedule - decides which sequences compute which tokens in the next step of a worker. Pure policy.
 *
 *     add -> WAITING -> COMPUTING -> DECODING -> remove       a prompt without new tokens: COMPUTING -> DONE
 *               ^   \-> FETCHING ->-/   |                      (on a context worker: held until it was read)
 *               +------- pause ---------+
 *
 * A step has two questions and two reports:
 *
 *     schedule_capacity   which sequences give their blocks back, which get blocks for the first time or again;
 *     schedule_batch      which tokens are computed: chunks of prompts, then decodes;
 *     schedule_computed   what was computed: a call for each piece of work that was done;
 *     schedule_took       and how long the step took, which decides how many prompt tokens the next steps have (pace.h).
 *
 * Between the first two the caller moves blocks, looks up prefixes (schedule_set_prefix) and starts KV transfers
 * (schedule_fetch). Work that is not reported counts as not done and is proposed again. There is no clock, no I/O and
 * no real block: time is an argument and blocks are counts. The same calls give the same answers.
 *
 * Tokens and blocks. A request has n_tokens known tokens, its prompt and the generated ones; n_kv of them are computed.
 * From its admission on it holds the blocks of all known tokens (a KV transfer writes into all of them), and one block
 * more whenever a generated token begins one. The KV of the last token is never computed:
 *
 *     tokens  [ prompt ......................... | generated .. ]   n_tokens
 *     KV      [ cached | computed, n_kv ....]                       at most prompt + max_new - 1 in the end
 *     spans   [    ][    ][    ][    ][    ][    ][    ][    ]      ceil(n_tokens / block_tokens)
 *
 * Beams. A request may become n_beams sequences when its first token is known. It takes as many places, computes a token of each in a
 * step, and holds blocks for each; whole blocks of the prompt are common. When it is paused it begins again behind its prompt
 * (schedule_restart).
 *
 * In each group of layers it holds a block for each span; in a group with a window for at most span_limits of them; beside
 * these it may have blocks for all of its tokens (blocks_beside). What
 * a step needs beyond that, for the tokens that it computes, the caller keeps aside: n_blocks and n_blocks_available do
 * not include it. So that this is bounded, tokens of a sequence that begin inside a span end with it.
 *
 * Capacity, by policy:
 *
 *     NO_EVICT         admits if all blocks that the admitted ones still need until their end fit: no pauses
 *     MAX_UTILIZATION  admits if the known tokens fit now and headroom_blocks stay free; if a decode finds no
 *                      block, the youngest is paused: it gives its blocks back, and its tokens are computed again later
 *     STATIC_BATCH     as NO_EVICT, but admits only when none is admitted: one batch at a time
 *
 * Order. Between tenants: the tenant that was served least for its weight is first (fair_queue.h). Its head waits for
 * room, and no request overtakes a head, so that large requests do not starve. Inside a tenant: by rank; of equal ranks
 * the older is first. Rank is arrival minus priority * aging_ms: one step of priority is worth aging_ms of waiting. So
 * only requests that arrive within 2 * SCHEDULE_PRIORITY_MAX * aging_ms after it can overtake a request. Admitted
 * sequences of all tenants are also ordered by rank: the last is paused first, and none is paused for a younger one, so
 * the first always makes progress. After a step that paused or stalled a sequence none is admitted. A paused sequence
 * keeps one of sequences_max places, and so comes before those of its tenant without a place. In a batch the tenants
 * that compute prompts get chunks in turn. A tenant that begins to compute starts level with the other tenant that got
 * least, whatever was admitted before.
 *
 * Bounds
 *   Tokens      a batch computes at most batch_tokens. Decodes come first; while prompts are computed, one
 *               block is reserved for them. Decodes that find no room are first in the next batch.
 *   Time        prompt tokens are limited to what step_target_ns allows by estimate, but at least one block.
 *   Unfairness  two tenants that always have waiting requests, from a moment when both were new, are served
 *               (tokens computed for the first time, divided by weight) within 2 * U / smaller weight of each other.
 *               U: the tokens that the admitted requests of one tenant can be served in all. NO_EVICT, STATIC_BATCH: the
 *               pool's tokens, without shared prefixes. Always: sequences_max * longest request.
 *               With tenant_share_percent under 100 there is no such bound: requests of a sharer at its cap wait,
 *               while requests of the same tenant from other sharers may come first.
 *   Tenants     as many as requests, so always enough: a tenant without requests is forgotten when its entry is
 *               needed for another tenant.
 *   Memory      create allocates all. sequences_max are admitted or paused, waiting_max wait; beyond:
 *               QUEUE_FULL.
 *
 * Thread: the engine's.
 */
#pragma once

#include "base/standing.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define SCHEDULE_PRIORITY_MAX STANDING_PRIORITY_MAX /* the lowest is its negative */
#define SCHEDULE_WEIGHT_MAX   STANDING_WEIGHT_MAX   /* the lowest is 1 */
#define SCHEDULE_TOKENS_MAX   (1u << 30)

#define SCHEDULE_GROUPS_MAX 16u

enum schedule_policy { SCHEDULE_NO_EVICT, SCHEDULE_MAX_UTILIZATION, SCHEDULE_STATIC_BATCH };

const char *schedule_policy_name(enum schedule_policy policy); /* "no-evict" */

struct schedule_options {
    enum schedule_policy policy;
    uint32_t n_blocks;      /* in the pool, less what a step needs beyond those of sequences */
    uint32_t block_tokens;  /* tokens in a block */
    uint32_t n_groups;      /* of layers; 0 is 1, without a limit */
    uint32_t blocks_fixed;  /* of a sequence, whatever its tokens; 0: by its spans */
    uint32_t blocks_beside; /* of a sequence, beside those of its spans */
    uint32_t span_limits[SCHEDULE_GROUPS_MAX]; /* [n_groups] 1 or more; UINT32_MAX: none */
    uint32_t reply_spans;     /* beyond its prompt's, up to so many in all; 0: no limit */
    uint32_t batch_tokens;    /* the most in a step; over block_tokens */
    uint32_t chunk_tokens;    /* the most of one prompt in a step; at least block_tokens */
    uint64_t step_target_ns;  /* target time of a step with prompts; 0: no target */
    uint32_t sequences_max;   /* the most admitted at a time, and in a batch; each beam is one */
    uint32_t waiting_max;     /* the most waiting requests */
    uint32_t headroom_blocks; /* MAX_UTILIZATION: stay free at an admission beside others */
    uint32_t aging_ms;        /* waiting time that equals one step of priority */
    uint32_t
        tenant_share_percent; /* of sequences, blocks and waiting places: the most for one sharer; 100: no cap */
};

struct schedule_request {
    uint64_t tenant;         /* served fairly among tenants */
    uint64_t sharer;         /* tenant_share_percent bounds it: the caller of a context worker */
    uint32_t weight;         /* of its tenant; the last value counts */
    int32_t priority;        /* a higher one is earlier */
    uint32_t prompt_tokens;  /* 1 or more */
    uint32_t max_new_tokens; /* 0: computes only the prompt */
    uint32_t cached_tokens;  /* with KV, at the start of the prompt; not all of it */
    uint32_t
        blocks_shared; /* of these, whole blocks without a limit and with a holder: they cost nothing */
    uint32_t n_beams;    /* 0 is 1; at most sequences_max */
    bool needs_handover; /* this worker cannot compute the prompt */
    bool is_whole;       /* its prompt is one chunk, of at most chunk_tokens */
};

enum schedule_state {
    SCHEDULE_WAITING, /* not admitted yet, or paused */
    SCHEDULE_FETCHING,
    SCHEDULE_COMPUTING,
    SCHEDULE_DECODING,
    SCHEDULE_DONE /* holds blocks, has nothing to compute */
};

struct schedule;

typedef uint32_t schedule_id; /* 0 .. sequences_max + waiting_max - 1; reused after remove */
#define SCHEDULE_NONE UINT32_MAX

/* INVALID_ARGUMENT: error has a sentence with field, value and limit. NO_MEMORY. */
MUST_CHECK enum status schedule_create(const struct schedule_options *options, struct error *error,
                                       struct schedule **schedule_out);
void schedule_destroy(struct schedule *schedule); /* NULL is fine */

/* ---- requests ---- */

/* NO_BLOCKS: the request could never run; error says what it needs and what exists. QUEUE_FULL: try later. SHARE_FULL:
 * the same, but requests of other sharers are still accepted. INVALID_ARGUMENT: a field is out of range. */
MUST_CHECK enum status schedule_add(struct schedule *schedule,
                                    const struct schedule_request *request, uint64_t now_ms,
                                    struct error *error, schedule_id *id_out);
/* The request has ended, or never began; the caller has given its blocks back. */
void schedule_remove(struct schedule *schedule, schedule_id id);
/* For an admitted request: it becomes DONE and computes no more, but keeps its place and its blocks until it
 * is removed, because its lease has ended while a transfer still reads its blocks. */
void schedule_close(struct schedule *schedule, schedule_id id);

/* How many of its known tokens the prefix cache has. For a waiting request the value may be from the last
 * step; for one that was just admitted it must be exact. Do not call it after the first token was computed. */
void schedule_set_prefix(struct schedule *schedule, schedule_id id, uint32_t cached_tokens,
                         uint32_t blocks_shared);
/* For an admitted one: the chunk that reaches this token ends there, if its batch has room for it; 0: none need. A block boundary. */
void schedule_set_cut(struct schedule *schedule, schedule_id id, uint32_t n_tokens);
/* A waiting request that is held is not admitted, and others overtake it. */
void schedule_hold(struct schedule *schedule, schedule_id id, bool is_held);
/* For a request that was just admitted: a KV transfer brings its prompt; it holds blocks and
 * computes nothing, */
void schedule_fetch(struct schedule *schedule, schedule_id id);
/* until all KV of its prompt has arrived, */
void schedule_fetched(struct schedule *schedule, schedule_id id);
/* or the KV transfer failed; then this worker computes what was not cached. */
void schedule_fetch_failed(struct schedule *schedule, schedule_id id);
/* The pool had fewer blocks than planned: the request's blocks were given back. */
void schedule_pause(struct schedule *schedule, schedule_id id);

/* ---- a step ---- */

struct schedule_room {
    uint32_t
        n_blocks_available;    /* free, or cached without a holder; less what a step needs beyond */
    uint32_t n_handovers_free; /* UINT32_MAX: no limit */
};

struct schedule_admission {
    schedule_id id;
    uint32_t n_tokens; /* known ones, that its table must have blocks for, */
    uint32_t n_blocks; /* and how many these are, with shared blocks: */
    uint32_t n_shared; /* as set_prefix said; if it shares fewer by now, schedule_pause */
    bool is_resumed;   /* was paused before */
};

/* Borrowed until the next call of schedule_capacity. Do all pauses first, then the admissions in their order. */
struct schedule_changes {
    uint32_t n_paused, n_admitted;
    const schedule_id *paused;
    const struct schedule_admission *admitted;
    /* What the next request lacks. NO_BLOCKS; QUEUE_FULL: a sequence, a KV transfer, its share of them, or
     * the end of the batch. OK: none waits. */
    enum status waits_for;
    /* The request that lacks blocks: it is the next one if it needs fewer after all (set_prefix). NONE: it
     * lacks something else, or a sequence was paused or stalled. */
    schedule_id next;
};

/* When it returns, paused and admitted requests have their new states. */
void schedule_capacity(struct schedule *schedule, const struct schedule_room *room,
                       struct schedule_changes *changes_out);

struct schedule_work {
    schedule_id id;
    uint32_t first; /* position of the first token to compute: n_kv */
    uint32_t
        n_tokens; /* ends at a block boundary, unless it is the last chunk; a decode: 1 of each beam, or those that ran ahead, too */
    uint32_t n_known;  /* tokens that its table must have blocks for, */
    uint32_t n_blocks; /* and how many these are between two steps */
    bool draws;        /* computes the last known token, so the next one is drawn */
};

/* Borrowed until the next call of schedule_batch. */
struct schedule_batch {
    uint32_t n,
        n_chunks; /* n_chunks chunks of prompts, and decodes that ran ahead, first; then decodes */
    uint32_t n_tokens;
    const struct schedule_work *work;
};

/* Changes no request. Call schedule_capacity before each call: tokens that were drawn since may
 * need a block. */
void schedule_batch(struct schedule *schedule, struct schedule_batch *batch_out);

/* Reports work of id: n_tokens were computed, and n_new were drawn (for a decode 1, so far). During a KV transfer
 * the first token comes from the context worker, before the KV: (id, 0, 1). Tokens beyond max_new_tokens are not
 * reported: for example the first token of a prompt with 0 on a context worker. */
void schedule_computed(struct schedule *schedule, schedule_id id, uint32_t n_tokens,
                       uint32_t n_new);

/* Of a request with beams, while it waits or a KV transfer brings its prompt: what it has generated is forgotten. */
void schedule_restart(struct schedule *schedule, schedule_id id);

/* Of a decode: one more token is known without being drawn. It is computed with the one before it, in one step if the batch has
 * room, and the next one is drawn behind it. */
void schedule_run_ahead(struct schedule *schedule, schedule_id id);

/* Reports the time of a step: all reports since the last call were this step, or a part of it. */
void schedule_took(struct schedule *schedule, uint64_t step_ns);

/* ---- statistics ---- */

/* The measured time of a prompt token; 0: not measured yet. */
uint64_t schedule_token_ns(const struct schedule *schedule);

struct schedule_counts {
    uint32_t n_waiting, n_paused; /* n_waiting includes the paused */
    uint32_t n_admitted, n_fetching, n_computing, n_decoding, n_done;
    uint64_t pauses;         /* ever */
    uint64_t tokens_again;   /* computed or fetched a second time, since the start */
    uint64_t waiting_tokens; /* prompt tokens still to be computed or fetched */
};

void schedule_count(const struct schedule *schedule, struct schedule_counts *counts_out);
enum schedule_state schedule_state_of(const struct schedule *schedule, schedule_id id);
