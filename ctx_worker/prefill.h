/*
 * prefill - a prompt that has its blocks: they are computed chunk by chunk, published, held, and given back.
 *
 *     FREE -> COMPUTING -> SEALED -> CLOSING (released; its published blocks are fenced) -> FREE
 *
 *     spans of the prompt    [ from the prefix cache | computed | to be computed ]
 *     crossing               [ held by the reader ][ published | not yet        ]
 *
 * Which blocks of a span cross says kvcache/crossing.h: of layers with a window the last ones. Blocks that the window has
 * passed are given back while the prompt is computed. Those that cross are held until release, and pinned from their
 * publication on. A slot is reused when the sender is quiet.
 *
 * Thread: the engine's.
 */
#pragma once

#include "ctx_worker/ctx_ops.h"
#include "ctx_worker/held_transfers.h"
#include "ctx_worker/prompt.h"
#include "kvcache/crossing.h"
#include "kvcache/kv_manager.h"
#include "model/sampling/draws.h"

struct cache_events;
struct prefix_tier;

enum prefill_state { PREFILL_FREE, PREFILL_COMPUTING, PREFILL_SEALED, PREFILL_CLOSING };

/* What all prefills of an engine share. */
struct prefill_home {
    const struct ctx_engine_options *options;
    const struct ctx_engine_ops *ops;
    struct kv_manager *manager;
    struct prefix_tier *tier;    /* NULL: none */
    struct cache_events *events; /* NULL: nobody watches the cache */
    struct held_transfers *held; /* transfers that are SEALED and not granted */
    uint32_t *digests;           /* [blocks of context_tokens] scratch, of all groups */
};

struct prefill {
    enum prefill_state state;
    struct prompt *prompt; /* owned from begin to release */
    struct transfer_id id; /* this and the next are the prompt's, and needed while CLOSING */
    uint32_t schedule_id;
    uint64_t lease_limit_ns; /* when the lease ends by itself */
    uint64_t held_number;    /* in home->held; 0: not SEALED yet */
    struct block_table table;
    struct prefix_hash *hashes; /* [table.spans_max] of the prompt's whole blocks */
    uint32_t n_computed;        /* tokens */
    uint32_t n_cached;          /* of these, found in the prefix cache */
    uint32_t n_branch;          /* tokens whose K and V, if not their recurrent state, are cached */
    uint32_t n_cut;             /* where a snapshot of the state is due; 0: nowhere */
    struct crossing crossing;
    uint32_t n_published; /* spans, counted from the prompt's beginning */
    block_id *crossed;    /* [blocks of context_tokens] published, in the order of crossing */
    uint32_t n_crossed;
    uint32_t n_fenced; /* of crossed: 0 or n_crossed */
    uint64_t began_ns;
};

/* Its stream is open, so it holds its blocks. */
static inline bool prefill_is_live(const struct prefill *prefill)
{
    return prefill->state == PREFILL_COMPUTING || prefill->state == PREFILL_SEALED;
}

MUST_CHECK enum status prefill_init(struct prefill *prefill, const struct prefill_home *home);
/* Gives back blocks that are fenced or held: nothing may use them any more. A zeroed one is fine. */
void prefill_finish(struct prefill *prefill, const struct prefill_home *home);

/* Becomes the prompt's owner on success: takes its blocks, begins the lease, sends the accepted event, and publishes blocks
 * from the prefix cache. NO_BLOCKS, DUPLICATE_REQUEST (the transfer id is open): nothing changed. */
MUST_CHECK enum status prefill_take_prompt(struct prefill *prefill, const struct prefill_home *home,
                                           struct prompt *prompt, uint64_t now_ns);

/* Hashes the blocks that may come from the prefix cache into the hashes of a FREE slot. Returns how many. */
uint32_t prefill_hash(struct prefill *prefill, const struct prefill_home *home,
                      const struct prompt *prompt);
/* Returns how many leading blocks of the prompt the prefix cache has. held_out: how many of these have a holder already, so
 * that they cost nothing. prefill is a FREE slot; its hashes are overwritten. */
uint32_t prefill_peek(struct prefill *prefill, const struct prefill_home *home,
                      const struct prompt *prompt, uint32_t *held_out);

/* Where its next chunk should end, if it can; 0: anywhere. */
uint32_t prefill_cut(struct prefill *prefill, const struct prefill_home *home);
/* Tokens left to compute. */
uint32_t prefill_n_left(const struct prefill *prefill);
/* Before a step computes n_query more tokens: takes the blocks for them. */
void prefill_prepare(struct prefill *prefill, const struct prefill_home *home, uint32_t n_query);
/* n_query more tokens have their KV. drawn: the first generated token, if the last token of the prompt is among them.
 * Publishes blocks, gives back those that a window has passed, and seals after the last one. */
void prefill_advance(struct prefill *prefill, const struct prefill_home *home, uint32_t n_query,
                     const struct draw *drawn);

/* Removes all blocks that it computed from the prefix cache: any of them may have made the logits NaN. */
void prefill_forget(const struct prefill *prefill, const struct prefill_home *home);

/* Bytes of all blocks that are to be transferred. */
uint64_t prefill_kv_bytes(const struct prefill *prefill, const struct prefill_home *home);

/* Ends the lease and destroys the prompt. Sends nothing on the stream. */
void prefill_release(struct prefill *prefill, const struct prefill_home *home);
/* The sender is quiet: the slot is FREE. */
void prefill_quiet(struct prefill *prefill, const struct prefill_home *home);
