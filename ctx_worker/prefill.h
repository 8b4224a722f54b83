/*
 * prefill - one prompt that has its blocks: computed chunk by chunk, published, held, given back.
 *
 *     FREE -> COMPUTING -> SEALED -> CLOSING (released; its published blocks are fenced) -> FREE
 *
 *     blocks of the prompt   [ from the prefix cache | computed | to be computed ]
 *     crossing               [ held by the reader ][ published | not yet        ]
 *
 * From begin to release every block is held and pinned. A slot is reused when the sender is quiet.
 *
 * Thread: the engine's.
 */
#pragma once

#include "ctx_worker/ctx_ops.h"
#include "ctx_worker/held_transfers.h"
#include "ctx_worker/prompt.h"
#include "kvcache/block_table.h"

enum prefill_state { PREFILL_FREE, PREFILL_COMPUTING, PREFILL_SEALED, PREFILL_CLOSING };

/* What prefills of one engine share. */
struct prefill_home {
    const struct ctx_engine_options *options;
    const struct ctx_engine_ops *ops;
    struct prefix_tree *tree;    /* NULL: no prefix cache */
    struct held_transfers *held; /* those that are SEALED and not granted */
    uint32_t *digests;           /* [blocks of context_tokens] scratch */
};

struct prefill {
    enum prefill_state state;
    struct prompt *prompt; /* owned from begin to release */
    struct transfer_id id; /* the prompt's, as the next: still needed while CLOSING */
    uint32_t schedule_id;
    uint64_t lease_limit_ns; /* when the lease ends by itself */
    uint64_t held_number;    /* in home->held; 0: not SEALED yet */
    struct block_table table;
    struct prefix_hash *hashes; /* [table.blocks_max] of the prompt's whole blocks */
    uint32_t n_computed;        /* tokens */
    uint32_t n_cached;          /* of these, found in the prefix cache */
    uint32_t n_published;       /* blocks, counted from the prompt's beginning */
    uint64_t began_ns;
    block_id *fenced; /* [table.blocks_max] */
    uint32_t n_fenced;
};

/* It holds its blocks for a stream that is open. */
static inline bool prefill_is_live(const struct prefill *prefill)
{
    return prefill->state == PREFILL_COMPUTING || prefill->state == PREFILL_SEALED;
}

MUST_CHECK enum status prefill_init(struct prefill *prefill, const struct prefill_home *home);
/* Nothing else may run any more: what is fenced or held is given back. A zeroed one is fine. */
void prefill_finish(struct prefill *prefill, const struct prefill_home *home);

/* Becomes the prompt's owner on success: blocks, lease, the accepted event, and what the prefix
 * cache knows is published. NO_BLOCKS, DUPLICATE_REQUEST (the transfer id is open): nothing changed. */
MUST_CHECK enum status prefill_take_prompt(struct prefill *prefill, const struct prefill_home *home,
                                           struct prompt *prompt, uint64_t now_ns);

/* How many blocks of that prompt's beginning the prefix cache knows, and how many of these somebody holds, so that
 * taking them costs nothing. Of a FREE slot, whose hashes are overwritten. */
uint32_t prefill_peek(struct prefill *prefill, const struct prefill_home *home,
                      const struct prompt *prompt, uint32_t *held_out);

/* Tokens left to compute. */
uint32_t prefill_n_left(const struct prefill *prefill);
/* n_query more tokens have their KV; drawn is the first token behind the prompt, if its last one is among
 * them. Publishes, and seals at the end. */
void prefill_advance(struct prefill *prefill, const struct prefill_home *home, uint32_t n_query,
                     const struct draw *drawn);

/* Nothing that it computed stays in the prefix cache: what made its last logits NaN may be in any of it. */
void prefill_forget(const struct prefill *prefill, const struct prefill_home *home);

/* Bytes that cross when all of it does. */
uint64_t prefill_kv_bytes(const struct prefill *prefill, const struct prefill_home *home);

/* Ends the lease: the stream is not told. The prompt is destroyed. */
void prefill_release(struct prefill *prefill, const struct prefill_home *home);
/* The sender is quiet: the slot is FREE. */
void prefill_quiet(struct prefill *prefill, const struct prefill_home *home);
