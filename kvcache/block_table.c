#include "kvcache/block_table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum status block_table_init(struct block_table *table, struct block_pool *pool,
                             struct prefix_tree *tree, const struct geometry *geometry,
                             uint32_t spans_max)
{
    assert(pool && geometry->block_tokens > 0 && spans_max > 0);
    const uint32_t n_state = geometry->groups.n_state;
    const size_t n = (size_t)cache_groups_count(&geometry->groups) * spans_max + n_state;
    block_id *blocks = malloc((n + n_state) * sizeof *blocks);
    if (!blocks)
        return STATUS_NO_MEMORY;
    memset(blocks, 0xff, (n + n_state) * sizeof *blocks); /* BLOCK_NONE */
    *table = (struct block_table){.pool = pool,
                                  .tree = tree,
                                  .groups = geometry->groups,
                                  .sinks = geometry->sinks,
                                  .block_tokens = geometry->block_tokens,
                                  .n_lasting = UINT32_MAX,
                                  .spans_max = spans_max,
                                  .blocks = blocks,
                                  .snapshot = blocks + n};
    return STATUS_OK;
}

void block_table_set_window(struct block_table *table, uint32_t window)
{
    assert(table->n_blocks == 0 && table->n_dropped == 0);
    assert(window > table->sinks.sinks || window == 0);
    table->sinks.window = window;
}

uint32_t block_table_n_rows(const struct block_table *table)
{
    return cache_groups_count(&table->groups);
}

struct block_row block_table_row(const struct block_table *table, uint32_t group)
{
    assert(group < block_table_n_rows(table));
    return (struct block_row){table->blocks + (size_t)group * table->spans_max +
                                  table->first[group],
                              table->first[group], table->end[group] - table->first[group]};
}

/* Where the ids of the state's blocks are. */
static block_id *state_of(const struct block_table *table)
{
    return table->blocks + (size_t)block_table_n_rows(table) * table->spans_max;
}

static bool has_state(const struct block_table *table)
{
    return table->groups.n_state > 0 && state_of(table)[0] != BLOCK_NONE;
}

struct block_row block_table_state(const struct block_table *table)
{
    return (struct block_row){.ids = state_of(table),
                              .n = has_state(table) ? table->groups.n_state : 0};
}

static void give_state_back(struct block_table *table)
{
    const uint32_t n = block_table_state(table).n;
    if (n == 0)
        return;
    block_pool_release(table->pool, state_of(table), n);
    memset(state_of(table), 0xff, n * sizeof *table->blocks);
    table->n_blocks -= n;
}

static block_id *ids_of(const struct block_table *table, uint32_t group)
{
    return table->blocks + (size_t)group * table->spans_max;
}

/* The group holds no span before first any more. */
static void give_back(struct block_table *table, uint32_t group, uint32_t first)
{
    const uint32_t end = table->end[group] < first ? table->end[group] : first;
    block_id *ids = ids_of(table, group);
    if (end <= table->first[group])
        return;
    const uint32_t n = end - table->first[group];
    for (uint32_t i = table->first[group]; i < end; i++)
        table->has_lost_origin |= cache_group_window(&table->groups, 0) != 0 &&
                                  block_pool_origin(table->pool, ids[i]) != 0;
    block_pool_release(table->pool, ids + table->first[group], n);
    memset(ids + table->first[group], 0xff, n * sizeof *ids);
    table->n_blocks -= n;
    table->first[group] = end;
}

void block_table_clear(struct block_table *table)
{
    for (uint32_t group = 0; table->blocks && group < block_table_n_rows(table); group++) {
        give_back(table, group, UINT32_MAX);
        table->first[group] = table->end[group] = 0;
    }
    if (table->blocks)
        give_state_back(table);
    assert(table->n_blocks == 0);
    table->n_spans = table->n_dropped = 0;
    table->n_kept = table->n_tried = table->n_in_tree = 0;
    table->n_shared = 0;
    table->has_lost_origin = false;
}

void block_table_finish(struct block_table *table)
{
    block_table_clear(table);
    free(table->blocks);
    *table = (struct block_table){0};
}

static enum status make_free(struct block_table *table, uint32_t n)
{
    const uint32_t n_free = block_pool_count(table->pool, BLOCK_FREE);
    if (n <= n_free)
        return STATUS_OK;
    /* No cached block is evicted for a request that will not fit anyway. */
    if (!table->tree || n - n_free > block_pool_count(table->pool, BLOCK_CACHED))
        return STATUS_NO_BLOCKS;
    prefix_tree_evict(table->tree, n);
    prefix_tree_uproot(table->tree, n);
    assert(block_pool_count(table->pool, BLOCK_FREE) >= n && "what nobody holds can be had");
    return STATUS_OK;
}

/* ---- the state ---- */

/* Evicts, but uproots nothing: for what is not needed. */
static bool has_free(struct block_table *table, uint32_t n)
{
    if (block_pool_count(table->pool, BLOCK_FREE) < n)
        (void)prefix_tree_evict(table->tree, n);
    return block_pool_count(table->pool, BLOCK_FREE) >= n;
}

/* A copy of the snapshot behind the prefix; the snapshot itself where there is no room for a copy. */
static void take_snapshot(struct block_table *table, struct prefix_hash hash)
{
    const uint32_t n = table->groups.n_state;
    block_id *state = state_of(table);
    prefix_tree_share_state(table->tree, hash, table->snapshot);
    if (has_free(table, n) && block_pool_acquire(table->pool, n, state) == STATUS_OK) {
        block_pool_copy(table->pool, state, table->snapshot, n);
        block_pool_release(table->pool, table->snapshot, n);
    } else {
        prefix_tree_take_state(table->tree, hash);
        memcpy(state, table->snapshot, n * sizeof *state);
    }
    table->n_blocks += n;
}

static enum status acquire_state(struct block_table *table)
{
    if (table->groups.n_state == 0 || has_state(table))
        return STATUS_OK;
    table->n_blocks += table->groups.n_state;
    return block_pool_acquire(table->pool, table->groups.n_state, state_of(table));
}

void block_table_keep_state(struct block_table *table, const struct prefix_hash *hashes, uint32_t n,
                            uint32_t room)
{
    const uint32_t n_state = table->groups.n_state;
    const struct prefix_hash hash = hashes[n - 1];
    assert(n > 0 && has_state(table) && "its content is copied");
    table->n_tried = n * table->block_tokens;
    if (!table->tree || n > table->n_in_tree)
        return;
    if (!prefix_tree_has_state(table->tree, hash)) {
        if (n_state > room || !has_free(table, n_state) ||
            block_pool_acquire(table->pool, n_state, table->snapshot) != STATUS_OK)
            return;
        block_pool_copy(table->pool, table->snapshot, state_of(table), n_state);
        (void)prefix_tree_add_state(table->tree, hash, 0, 0, n_state, table->snapshot);
        block_pool_release(table->pool, table->snapshot, n_state);
    }
    table->n_kept = n * table->block_tokens;
}

/* Takes the spans of a prefix. */
static uint32_t take_spans(struct block_table *table, uint32_t known)
{
    for (uint32_t group = 0; group < block_table_n_rows(table); group++) {
        table->first[group] = cache_group_first_span(&table->groups, group, table->block_tokens,
                                                     known * table->block_tokens);
        table->end[group] = known;
        table->n_blocks += known - table->first[group];
    }
    table->n_spans = table->n_shared = known;
    return known * table->block_tokens;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

uint32_t block_table_match(struct block_table *table, const struct prefix_hash *hashes, uint32_t n)
{
    assert(table->n_blocks == 0);
    if (!table->tree)
        return 0;
    const uint32_t known = prefix_tree_match(table->tree, hashes, smaller(n, table->spans_max),
                                             table->blocks, table->spans_max);
    table->n_kept = take_spans(table, known);
    if (known > 0 && table->groups.n_state > 0)
        take_snapshot(table, hashes[known - 1]);
    return table->n_kept;
}

uint32_t block_table_match_spans(struct block_table *table, const struct prefix_hash *hashes,
                                 uint32_t n)
{
    assert(table->n_blocks == 0);
    if (!table->tree)
        return 0;
    return take_spans(table,
                      prefix_tree_match_spans(table->tree, hashes, smaller(n, table->spans_max),
                                              table->blocks, table->spans_max));
}

/* ---- what comes next ---- */

/* The spans of a group. */
struct range {
    uint32_t first, end;
};

static struct range wanted_range(const struct block_table *table, uint32_t group,
                                 const struct block_need *need)
{
    const uint32_t known = cache_spans(table->block_tokens, need->known);
    const uint32_t end = cache_spans(table->block_tokens, need->end);
    const uint32_t first = cache_group_first_span(&table->groups, group, table->block_tokens,
                                                  need->position);
    const uint32_t most = cache_group_spans_max(&table->groups, group, table->block_tokens);
    if (most == UINT32_MAX)
        return (struct range){0, known};
    const uint32_t ahead = smaller(first + smaller(most, known), table->spans_max);
    return (struct range){first, end > ahead ? end : ahead};
}

/* Spans that the group does not hold yet. It holds no gap: what it skips it gives back. */
static uint32_t n_missing(const struct block_table *table, uint32_t group, struct range wanted)
{
    const uint32_t from = table->end[group] > wanted.first ? table->end[group] : wanted.first;
    return wanted.end > from ? wanted.end - from : 0;
}

static enum status acquire(struct block_table *table, uint32_t group, struct range wanted)
{
    const uint32_t n = n_missing(table, group, wanted);
    if (n == 0)
        return STATUS_OK;
    if (table->end[group] < wanted.first)
        table->first[group] = table->end[group] = wanted.first;
    const uint32_t first = table->end[group], end = first + n;
    TRY(block_pool_acquire(table->pool, n, ids_of(table, group) + first));
    const uint32_t lasting = cache_group_window(&table->groups, group) > 0 ? 0 : table->n_lasting;
    const uint32_t passing = lasting > first ? lasting : first;
    if (passing < end)
        block_pool_mark_passing(table->pool, ids_of(table, group) + passing, end - passing);
    table->end[group] += n;
    table->n_blocks += n;
    return STATUS_OK;
}

/* Drops spans behind the sinks until n are dropped. */
static void drop(struct block_table *table, uint32_t n)
{
    const uint32_t kept = sink_window_kept(&table->sinks, table->block_tokens);
    const uint32_t until = smaller(table->end[0], kept + (n - table->n_dropped));
    const uint32_t n_held = until > kept ? until - kept : 0;
    block_id *ids = table->blocks + kept;
    table->n_dropped = n;
    if (n_held == 0)
        return;
    block_pool_release(table->pool, ids, n_held);
    memmove(ids, ids + n_held, (table->end[0] - until) * sizeof *ids);
    memset(table->blocks + table->end[0] - n_held, 0xff, n_held * sizeof *ids);
    table->end[0] -= n_held;
    table->n_spans -= n_held;
    table->n_blocks -= n_held;
}

void block_table_give_back(struct block_table *table, const struct block_need *need)
{
    const uint32_t n_dropped = need->is_reply
                                   ? sink_window_dropped(&table->sinks, table->block_tokens,
                                                         need->position)
                                   : 0;
    for (uint32_t group = 0; group < block_table_n_rows(table); group++)
        give_back(
            table, group,
            cache_group_first_span(&table->groups, group, table->block_tokens, need->position));
    if (n_dropped > table->n_dropped)
        drop(table, n_dropped);
}

/* The need in places. Where tokens were dropped there is room for the most that the reply has: so it holds the same number of blocks
 * from then on. */
static struct block_need place(const struct block_table *table, const struct block_need *need)
{
    const uint32_t most = sink_window_spans_max(&table->sinks, table->block_tokens);
    struct block_need placed = {.position = block_table_places(table, need->position),
                                .end = block_table_places(table, need->end),
                                .known = block_table_places(table, need->known)};
    if (table->n_dropped > 0 && placed.known < most * table->block_tokens)
        placed.known = most * table->block_tokens;
    return placed;
}

enum status block_table_prepare(struct block_table *table, const struct block_need *need)
{
    const uint32_t n_groups = block_table_n_rows(table);
    uint64_t missing = 0;
    assert(need->position <= need->end && need->end <= need->known);
    block_table_give_back(table, need);
    const struct block_need placed = place(table, need);
    const uint32_t known = cache_spans(table->block_tokens, placed.known);
    if (known > table->spans_max)
        return STATUS_INVALID_ARGUMENT;
    for (uint32_t group = 0; group < n_groups; group++)
        missing += n_missing(table, group, wanted_range(table, group, &placed));
    missing += has_state(table) ? 0 : table->groups.n_state;
    if (missing > block_pool_size(table->pool))
        return STATUS_NO_BLOCKS;
    TRY(make_free(table, (uint32_t)missing));
    for (uint32_t group = 0; group < n_groups; group++)
        TRY(acquire(table, group, wanted_range(table, group, &placed)));
    TRY(acquire_state(table));
    table->n_spans = known > table->n_spans ? known : table->n_spans;
    return STATUS_OK;
}

/* ---- copies ---- */

/* Those of a group before end. */
static void share_spans(struct block_table *table, const struct block_table *from, uint32_t group,
                        uint32_t end)
{
    const uint32_t first = from->first[group], n = end - first;
    block_id *ids = ids_of(table, group) + first;
    memcpy(ids, ids_of(from, group) + first, n * sizeof *ids);
    block_pool_share(table->pool, ids, n);
}

/* Of an empty table: shares what is full, and takes blocks for the rest of what the other one holds. */
static enum status acquire_copies(struct block_table *table, const struct block_table *from,
                                  uint32_t n_full)
{
    uint64_t missing = 0;
    for (uint32_t group = 0; group < block_table_n_rows(from); group++) {
        const uint32_t first = from->first[group] > n_full ? from->first[group] : n_full;
        missing += from->end[group] > first ? from->end[group] - first : 0;
    }
    TRY(make_free(table, (uint32_t)missing));
    for (uint32_t group = 0; group < block_table_n_rows(from); group++) {
        const uint32_t first = from->first[group] > n_full ? from->first[group] : n_full;
        table->first[group] = from->first[group];
        table->end[group] = smaller(first, from->end[group]);
        share_spans(table, from, group, table->end[group]);
        table->n_blocks += table->end[group] - table->first[group];
        TRY(acquire(table, group, (struct range){from->first[group], from->end[group]}));
    }
    table->n_spans = from->n_spans;
    return STATUS_OK;
}

/* Shares what is full, in place of its own. */
static void follow(struct block_table *table, const struct block_table *from, uint32_t n_full)
{
    assert(table->n_spans == from->n_spans);
    for (uint32_t group = 0; group < block_table_n_rows(from); group++) {
        const uint32_t first = from->first[group], end = smaller(from->end[group], n_full);
        assert(table->first[group] == first && table->end[group] == from->end[group]);
        if (end <= first)
            continue;
        block_pool_release(table->pool, ids_of(table, group) + first, end - first);
        share_spans(table, from, group, end);
    }
}

enum status block_table_copy(struct block_table *table, const struct block_table *from,
                             uint32_t n_tokens)
{
    const uint32_t n_full = n_tokens / table->block_tokens;
    assert(table != from && table->pool == from->pool && from->n_blocks > 0);
    assert(from->n_dropped == 0 && from->groups.n_state == 0 && n_full <= from->n_spans);
    if (table->n_blocks == 0)
        TRY(acquire_copies(table, from, n_full));
    else
        follow(table, from, n_full);
    for (uint32_t group = 0; group < block_table_n_rows(from); group++)
        if (n_tokens % table->block_tokens != 0 && n_full < from->end[group])
            block_pool_copy(table->pool, ids_of(table, group) + n_full,
                            ids_of(from, group) + n_full, 1);
    return STATUS_OK;
}

void block_table_keep(struct block_table *table, const struct prefix_hash *hashes, uint32_t n)
{
    assert(n <= table->n_spans || table->n_dropped > 0);
    if (table->tree && !table->has_lost_origin && table->n_dropped == 0)
        table->n_in_tree = prefix_tree_insert(table->tree, hashes, n, table->blocks,
                                              table->spans_max);
}
