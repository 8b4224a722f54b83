/*
 * block_table - the blocks of one sequence in the order of its tokens, for each group of layers (cache_groups.h).
 *
 *     token t lives in blocks[group][t / block_tokens], slot t % block_tokens
 *
 * A full group holds the spans of all known tokens. A window group holds those that the next query sees, and as many
 * behind them as a query ever needs, so that the number of its blocks changes only while a step computes more tokens
 * than one:
 *
 *     spans   [ given back | seen by the next query | computed next ... ]
 *                          first                                      end
 *
 * Where layers have recurrent state, the table also has the blocks of what these know, which nobody shares: at first a copy of the
 * snapshot behind a cached prefix, or anything where there is none.
 *
 * With sinks (sink_window.h) there is one group, a full one, and its spans are places: those of a reply that were dropped do not
 * count.
 *
 * The first blocks may come from the prefix tree and be shared; the others belong to the sequence alone. The table holds
 * each block once and releases all in finish.
 *
 * Thread: the pool's.
 */
#pragma once

#include "kvcache/geometry.h"
#include "kvcache/prefix_tree.h"

struct block_table {
    struct block_pool *pool;
    struct prefix_tree *tree; /* may be NULL: no prefix cache */
    struct cache_groups groups;
    struct sink_window sinks;
    uint32_t n_dropped; /* spans behind the sinks */
    uint32_t block_tokens;
    uint32_t n_lasting; /* first spans that full groups keep to the end; UINT32_MAX: all */
    uint32_t spans_max;
    uint32_t n_spans;  /* that the full groups hold; of window groups those behind first */
    uint32_t n_shared; /* first spans, found in the tree */
    uint32_t n_blocks; /* held, of all groups */
    /* A block with KV of another worker was given back, and no group has the rest of that KV: nothing more of this
     * sequence is kept in the tree, which could not tell what rests on it. */
    bool has_lost_origin;
    uint32_t first[CACHE_GROUPS_MAX], end[CACHE_GROUPS_MAX]; /* spans that a group holds */
    block_id *blocks; /* [n_groups][spans_max], then the state's [n_state]; BLOCK_NONE: not held */
    block_id *snapshot; /* [n_state] scratch */
    uint32_t n_in_tree; /* spans that keep has left to the tree: its nodes may stand for them */
    uint32_t n_kept,
        n_tried; /* tokens of the last snapshot that was found or kept, and of the last try */
};

/* What a sequence needs next. */
struct block_need {
    uint32_t position; /* of the next token whose query is computed; earlier ones have their KV */
    uint32_t end;      /* the tokens before it are computed or arrive now: position .. */
    uint32_t known;    /* tokens that the full groups have room for; at least end */
    bool is_reply;     /* the prompt is complete: with sinks, tokens behind them are dropped */
};

/* Allocates room for spans_max spans; geometry is read now. */
MUST_CHECK enum status block_table_init(struct block_table *table, struct block_pool *pool,
                                        struct prefix_tree *tree, const struct geometry *geometry,
                                        uint32_t spans_max);
/* For an empty table with sinks: from now on with another window, over the sinks and at most the geometry's. */
void block_table_set_window(struct block_table *table, uint32_t window);
/* Releases the blocks and frees the table's memory. A zeroed table is fine. */
void block_table_finish(struct block_table *table);
/* Releases the blocks, keeps the table's memory. */
void block_table_clear(struct block_table *table);

/* For an empty table: takes the cached prefix, at most n spans. Returns the number of its tokens. */
uint32_t block_table_match(struct block_table *table, const struct prefix_hash *hashes, uint32_t n);
/* The same, but for the state behind it, which is to arrive. */
uint32_t block_table_match_spans(struct block_table *table, const struct prefix_hash *hashes,
                                 uint32_t n);
/* Gives back the blocks that the query at need's position does not see. */
void block_table_give_back(struct block_table *table, const struct block_need *need);
/* The same, and acquires those that are missing; if needed it evicts
 * cached blocks without a holder. NO_BLOCKS: nothing was acquired. INVALID_ARGUMENT: over spans_max. */
MUST_CHECK enum status block_table_prepare(struct block_table *table,
                                           const struct block_need *need);
/* The table becomes a copy of another one's first n_tokens tokens, of which nothing was dropped, and which has no state: it shares the
 * blocks that these fill, and has blocks of its own for the rest of what the other one holds, with the bytes of the other's block in
 * which the tokens end. It was empty, or was such a copy (or the other of one) before, of no more tokens, and holds the same
 * spans. NO_BLOCKS: it stays empty. */
MUST_CHECK enum status block_table_copy(struct block_table *table, const struct block_table *from,
                                        uint32_t n_tokens);
/* Adds the first n spans to the prefix tree, if there is one, as far as the table holds them; none if some were dropped. */
void block_table_keep(struct block_table *table, const struct prefix_hash *hashes, uint32_t n);

/* Keeps a copy of the state, which knows exactly the first n spans, where a prefix of these will be looked for. They were kept before.
 * Nothing happens if there is a snapshot already, or no room for one: room blocks may be taken. */
void block_table_keep_state(struct block_table *table, const struct prefix_hash *hashes, uint32_t n,
                            uint32_t room);

/* Tokens of the table that the first n tokens of the sequence are, where the last ones are not dropped. */
static inline uint32_t block_table_places(const struct block_table *table, uint32_t n_tokens)
{
    return n_tokens - table->n_dropped * table->block_tokens;
}

/* The blocks of a group: those of the spans first .. first + n - 1. */
struct block_row {
    const block_id *ids;
    uint32_t first, n;
};
uint32_t block_table_n_rows(const struct block_table *table); /* groups */
struct block_row block_table_row(const struct block_table *table, uint32_t group);
/* The blocks of the state; n 0: none are held. */
struct block_row block_table_state(const struct block_table *table);
