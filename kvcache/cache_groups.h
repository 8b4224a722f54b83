/*
 * cache_groups - which layers of a model share the blocks of one table.
 *
 * Layers that see all tokens and layers that see a window need different blocks: those of a window can be given back
 * when all its queries have passed them. So a sequence has a table of blocks for each group of layers:
 *
 *     span   block_tokens tokens that follow each other; a group has one block for each span that it holds
 *     full   a group that holds all spans, as long as the sequence lives
 *     window a group that holds the spans which the next query sees, and those behind it
 *
 * Layers of one kind are divided so that the blocks of all groups have the same number of places, and one pool serves
 * all. A place that no layer uses is padding: at most an eighth of a kind, if CACHE_GROUPS_MAX allows. Full groups come
 * first. A model without windows has one full group of all its layers.
 *
 * Layers with recurrent state are in no group. A sequence has n_state blocks of its own for what they know of all its tokens,
 * whatever their number; a cached prefix has copies of them where it may end (prefix_tree.h).
 *
 * Layers whose heads differ in number or size are of different kinds. Then a place has the largest size of which each layer's
 * is a multiple, and a layer takes several (cache_group_width).
 *
 * Thread: any (plain data).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define CACHE_GROUPS_MAX       16u
#define CACHE_STATE_BLOCKS_MAX 4096u
#define CACHE_ROWS_MAX         (CACHE_GROUPS_MAX + CACHE_STATE_BLOCKS_MAX)

/* Of a layer: K of a token has n * dim elements, and V as many. */
struct cache_heads {
    uint32_t n, dim;
};

struct cache_group {
    uint32_t n_layers;        /* whose K and V its blocks have */
    uint32_t window;          /* a query sees so many tokens, its own among them; 0: all */
    struct cache_heads heads; /* of its layers; zeros, in all groups: those of the model */
};

struct cache_groups {
    uint32_t n;      /* 0: one full group */
    uint32_t places; /* that a block has; 0: as many as the model has layers */
    struct cache_group all[CACHE_GROUPS_MAX];
    uint32_t n_state; /* blocks of a sequence's recurrent state; 0: no layer has any */
};

/* Where a layer's K and V are. */
struct cache_place {
    uint32_t group, index; /* among the layers of that group, which follow each other in a block */
};

/* The layers of a model that have K and V. */
struct cache_layers {
    uint32_t n;
    const uint32_t *windows; /* [n]: 0, and any that is not below context_tokens, are full */
    const struct cache_heads *heads; /* [n], of at most two kinds; NULL: all alike */
    uint32_t context_tokens;
};

/* There may be at most CACHE_GROUPS_MAX different windows, less one if there are two kinds of heads; layers with more become full. */
void cache_groups_divide(const struct cache_layers *layers, struct cache_groups *groups_out);
struct cache_place cache_groups_place(const struct cache_groups *groups,
                                      const struct cache_layers *layers, uint32_t layer);
/* Whether groups have heads of their own. */
bool cache_groups_have_heads(const struct cache_groups *groups);
/* Elements of K in a place; all groups have heads, none of 0. */
uint64_t cache_groups_unit(const struct cache_groups *groups);
/* Places that a layer of the group takes: 1 if no group has heads. */
uint32_t cache_group_width(const struct cache_groups *groups, uint32_t group);

/* ---- for a sequence ---- */

/* Of n tokens; the last one may be a part. */
static inline uint32_t cache_spans(uint32_t block_tokens, uint32_t n_tokens)
{
    return n_tokens / block_tokens + (n_tokens % block_tokens != 0);
}

uint32_t cache_groups_count(const struct cache_groups *groups); /* 1 for n 0 */
uint32_t cache_group_window(const struct cache_groups *groups, uint32_t group);
bool cache_groups_has_window(const struct cache_groups *groups);
/* Rows of a table: the groups, then a row for each block of the state. */
uint32_t cache_groups_rows(const struct cache_groups *groups);
/* One group that keeps all, and no state: the layout of a model without windows. */
bool cache_groups_is_plain(const struct cache_groups *groups);

/* The first span that the group needs when the query at that position is the next one. The last whole span before it can
 * be the end of a prefix: what the query behind that one sees is kept, too. */
uint32_t cache_group_first_span(const struct cache_groups *groups, uint32_t group,
                                uint32_t block_tokens, uint32_t position);
/* The most spans that the group needs for a query; UINT32_MAX: all. */
uint32_t cache_group_spans_max(const struct cache_groups *groups, uint32_t group,
                               uint32_t block_tokens);
/* Blocks of all groups for a sequence that knows n tokens, between two steps. */
uint64_t cache_groups_blocks(const struct cache_groups *groups, uint32_t block_tokens,
                             uint32_t n_tokens);

/* What a worker computes in one step, at most. */
struct cache_step {
    uint32_t n_tokens; /* of all sequences; what begins inside a span ends with it */
    uint32_t n_sequences;
    uint32_t context_tokens; /* of the longest sequence */
};
/* Blocks that a step may need beyond those that its sequences have between two steps. */
uint64_t cache_groups_step_blocks(const struct cache_groups *groups, uint32_t block_tokens,
                                  const struct cache_step *step);
