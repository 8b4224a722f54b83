#include "kvcache/kv_manager.h"

#include "kvcache/kv_manager_kind.h"

#include <assert.h>
#include <stdlib.h>

/* The list. */
static const struct kv_manager_kind *const KINDS[KV_MANAGERS] = {
    [KV_MANAGER_PAGED] = &KV_MANAGER_PAGED_KIND,
    [KV_MANAGER_CONTIGUOUS] = &KV_MANAGER_CONTIGUOUS_KIND,
};

static enum status check(const struct kv_manager *manager, struct error *error)
{
    TRY(geometry_check(&manager->geometry, error));
    if (geometry_block_bytes(&manager->geometry) != block_pool_block_bytes(manager->pool))
        return error_set(error, STATUS_INVALID_ARGUMENT, "the pool's blocks are of another size");
    return manager->kind->check(manager, error);
}

enum status kv_manager_create(const struct kv_manager_options *options, struct error *error,
                              struct kv_manager **manager_out)
{
    assert((unsigned)options->kind < KV_MANAGERS && options->pool &&
           options->step.context_tokens > 0);
    const struct geometry *geometry = options->geometry;
    const struct kv_manager made = {
        .kind = KINDS[options->kind],
        .pool = options->pool,
        .geometry = *geometry,
        .spans_max = geometry_spans(geometry, options->step.context_tokens),
        .snapshot_tokens = options->snapshot_tokens ? options->snapshot_tokens : KV_SNAPSHOT_TOKENS,
        .n_aside = geometry_step_blocks(geometry, &options->step),
        .n_lasting = options->has_replies && geometry->sinks.window > 0
                         ? sink_window_kept(&geometry->sinks, geometry->block_tokens)
                         : UINT32_MAX,
    };
    TRY(check(&made, error));
    struct kv_manager *manager = calloc(1, sizeof *manager);
    if (!manager)
        return STATUS_NO_MEMORY;
    *manager = made;
    enum status status = STATUS_OK;
    if (options->prefix_cache && manager->kind->shares)
        status = prefix_tree_create(options->pool, &geometry->groups, geometry->block_tokens,
                                    manager->spans_max, &manager->tree);
    if (status != STATUS_OK) {
        free(manager);
        return status;
    }
    *manager_out = manager;
    return STATUS_OK;
}

void kv_manager_destroy(struct kv_manager *manager)
{
    if (!manager)
        return;
    prefix_tree_destroy(manager->tree);
    free(manager);
}

const char *kv_manager_name(const struct kv_manager *manager)
{
    return manager->kind->name;
}

/* ---- a sequence ---- */

enum status kv_manager_init(struct kv_manager *manager, struct block_table *table)
{
    TRY(block_table_init(table, manager->pool, manager->tree, &manager->geometry,
                         manager->spans_max));
    table->n_lasting = manager->n_lasting;
    return STATUS_OK;
}

void kv_manager_set_window(const struct kv_manager *manager, struct block_table *table,
                           uint32_t window)
{
    block_table_set_window(table, sink_window_of(&manager->geometry.sinks, window).window);
}

void kv_manager_finish(struct block_table *table)
{
    block_table_finish(table);
}

uint32_t kv_manager_match(struct kv_manager *manager, struct block_table *table,
                          const struct prefix_hash *hashes, uint32_t n)
{
    (void)manager; /* the table knows its prefix cache */
    return block_table_match(table, hashes, n);
}

uint32_t kv_manager_match_spans(struct kv_manager *manager, struct block_table *table,
                                const struct prefix_hash *hashes, uint32_t n)
{
    (void)manager;
    return block_table_match_spans(table, hashes, n);
}

enum status kv_manager_prepare(struct kv_manager *manager, struct block_table *table,
                               const struct block_need *need)
{
    assert(need->position <= need->end && need->end <= need->known);
    return manager->kind->prepare(manager, table, need);
}

bool kv_manager_settles(const struct kv_manager *manager)
{
    return manager->kind->settle != NULL;
}

void kv_manager_settle(struct kv_manager *manager, struct block_table *table, uint32_t position,
                       enum kv_next next)
{
    if (manager->kind->settle)
        manager->kind->settle(table, position, next);
}

bool kv_manager_copies(const struct kv_manager *manager)
{
    return manager->kind->shares && manager->geometry.groups.n_state == 0 &&
           manager->geometry.sinks.window == 0;
}

enum status kv_manager_copy(struct kv_manager *manager, struct block_table *table,
                            const struct block_table *from, uint32_t n_tokens)
{
    assert(kv_manager_copies(manager));
    (void)manager;
    return block_table_copy(table, from, n_tokens);
}

void kv_manager_keep(struct kv_manager *manager, struct block_table *table,
                     const struct prefix_hash *hashes, uint32_t n)
{
    (void)manager;
    block_table_keep(table, hashes, n);
}

bool kv_manager_keeps_states(const struct kv_manager *manager)
{
    return manager->tree && manager->geometry.groups.n_state > 0;
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

bool kv_manager_snapshot_is_due(const struct kv_manager *manager, const struct block_table *table,
                                uint32_t n_tokens, bool where_prompts_part)
{
    const uint32_t last = where_prompts_part ? table->n_kept
                                             : larger(table->n_kept, table->n_tried);
    const uint32_t least = where_prompts_part ? manager->snapshot_tokens / KV_SNAPSHOT_SHARE
                                              : larger(manager->snapshot_tokens, last / 4);
    return kv_manager_keeps_states(manager) && n_tokens % table->block_tokens == 0 &&
           n_tokens > last && n_tokens - last >= least;
}

void kv_manager_keep_snapshot(struct kv_manager *manager, struct block_table *table,
                              const struct prefix_hash *hashes, uint32_t n_tokens)
{
    assert(n_tokens % table->block_tokens == 0 && kv_manager_keeps_states(manager));
    block_table_keep_state(table, hashes, n_tokens / table->block_tokens, kv_manager_left(manager));
}

uint32_t kv_manager_cut(const struct kv_manager *manager, const struct block_table *table,
                        uint32_t n_computed, uint32_t n_branch, uint32_t n_prompt)
{
    const uint32_t last = n_prompt - n_prompt % table->block_tokens;
    const uint32_t least = table->n_kept + manager->snapshot_tokens / KV_SNAPSHOT_SHARE;
    const uint32_t cut = n_branch > n_computed && n_branch >= least ? n_branch : last;
    return kv_manager_keeps_states(manager) && cut > n_computed && cut >= least ? cut : 0;
}

void kv_manager_free(struct kv_manager *manager, struct block_table *table)
{
    (void)manager;
    block_table_clear(table);
}

/* ---- the prefix cache ---- */

bool kv_manager_caches(const struct kv_manager *manager)
{
    return manager->tree != NULL;
}

uint32_t kv_manager_peek(const struct kv_manager *manager, const struct prefix_hash *hashes,
                         uint32_t n, uint32_t *held_out)
{
    *held_out = 0;
    return manager->tree
               ? prefix_tree_peek_held(manager->tree, hashes, n, manager->n_lasting, held_out)
               : 0;
}

uint64_t kv_manager_changes(const struct kv_manager *manager)
{
    return manager->tree ? prefix_tree_changes(manager->tree) : 0;
}

uint32_t kv_manager_reach(const struct kv_manager *manager, const struct prefix_hash *hashes,
                          uint32_t n)
{
    return manager->tree ? prefix_tree_reach(manager->tree, hashes, n) : 0;
}

uint32_t kv_manager_forget(struct kv_manager *manager, struct prefix_hash hash)
{
    return manager->tree ? prefix_tree_forget(manager->tree, hash) : 0;
}

uint32_t kv_manager_drop(struct kv_manager *manager, uint64_t origin)
{
    return manager->tree ? prefix_tree_drop(manager->tree, origin) : 0;
}

uint64_t kv_manager_evictions(const struct kv_manager *manager)
{
    return manager->tree ? prefix_tree_evictions(manager->tree) : 0;
}

uint32_t kv_manager_flush(struct kv_manager *manager)
{
    return manager->tree ? prefix_tree_flush(manager->tree) : 0;
}

void kv_manager_observe(struct kv_manager *manager, prefix_observer observer, void *arg)
{
    assert(manager->tree);
    prefix_tree_observe(manager->tree, observer, arg);
}

void kv_manager_observe_spans(struct kv_manager *manager, prefix_span_observer observer, void *arg)
{
    assert(manager->tree);
    prefix_tree_observe_spans(manager->tree, observer, arg);
}

uint32_t kv_manager_spans_max(const struct kv_manager *manager)
{
    return prefix_tree_spans_max(manager->tree);
}

bool kv_manager_has(const struct kv_manager *manager, struct prefix_hash hash, uint32_t row)
{
    return prefix_tree_has(manager->tree, hash, row);
}

uint32_t kv_manager_touch(struct kv_manager *manager, const struct prefix_hash *hashes, uint32_t n)
{
    return prefix_tree_touch(manager->tree, hashes, n);
}

enum status kv_manager_take(struct kv_manager *manager, uint32_t n, block_id *ids_out)
{
    assert(manager->tree);
    if (n > kv_manager_left(manager))
        return STATUS_NO_BLOCKS;
    (void)prefix_tree_evict(manager->tree, n);
    return block_pool_acquire(manager->pool, n, ids_out);
}

void kv_manager_give(struct kv_manager *manager, const block_id *ids, uint32_t n)
{
    block_pool_release(manager->pool, ids, n);
}

bool kv_manager_add(struct kv_manager *manager, const struct prefix_hash *hashes, uint32_t at,
                    const block_id *ids)
{
    const bool is_added = prefix_tree_add(manager->tree, hashes, at, ids);
    const struct cache_groups *groups = &manager->geometry.groups;
    for (uint32_t group = 0; group < cache_groups_count(groups); group++) {
        if (ids[group] == BLOCK_NONE)
            continue;
        if (cache_group_window(groups, group) > 0 || at >= manager->n_lasting)
            block_pool_mark_passing(manager->pool, &ids[group], 1);
        block_pool_release(manager->pool, &ids[group], 1);
    }
    return is_added;
}

bool kv_manager_add_state(struct kv_manager *manager, struct prefix_hash hash, uint64_t origin,
                          uint32_t i, block_id id)
{
    const bool is_added = prefix_tree_add_state(manager->tree, hash, origin, i, 1, &id);
    block_pool_release(manager->pool, &id, 1);
    return is_added;
}

/* ---- how many ---- */

uint32_t kv_manager_all(const struct kv_manager *manager)
{
    return manager->kind->all(manager);
}

uint32_t kv_manager_left(const struct kv_manager *manager)
{
    return manager->kind->left(manager);
}

struct kv_manager_rule kv_manager_rule_of(const struct kv_manager *manager)
{
    return manager->kind->rule(manager);
}

uint32_t kv_manager_needs(const struct kv_manager *manager, uint32_t n_tokens)
{
    const struct kv_manager_rule rule = kv_manager_rule_of(manager);
    return rule.n_fixed ? rule.n_fixed : geometry_blocks(&manager->geometry, n_tokens);
}

/* ---- blocks ---- */

uint32_t kv_manager_size(const struct kv_manager *manager)
{
    return block_pool_size(manager->pool);
}

uint32_t kv_manager_count(const struct kv_manager *manager, enum block_state state)
{
    return block_pool_count(manager->pool, state);
}

size_t kv_manager_block_bytes(const struct kv_manager *manager)
{
    return block_pool_block_bytes(manager->pool);
}

uint8_t *kv_manager_data(const struct kv_manager *manager, block_id id)
{
    return block_pool_data(manager->pool, id);
}

void kv_manager_pin(struct kv_manager *manager, const block_id *ids, uint32_t n)
{
    block_pool_pin(manager->pool, ids, n);
}

void kv_manager_unpin(struct kv_manager *manager, const block_id *ids, uint32_t n)
{
    block_pool_unpin(manager->pool, ids, n);
}

void kv_manager_fence(struct kv_manager *manager, const block_id *ids, uint32_t n)
{
    block_pool_fence(manager->pool, ids, n);
}

void kv_manager_unfence(struct kv_manager *manager, const block_id *ids, uint32_t n)
{
    block_pool_unfence(manager->pool, ids, n);
}

void kv_manager_inbound(struct kv_manager *manager, const block_id *ids, uint32_t n)
{
    block_pool_inbound(manager->pool, ids, n);
}

void kv_manager_arrived(struct kv_manager *manager, const block_id *ids, uint32_t n)
{
    block_pool_arrived(manager->pool, ids, n);
}

void kv_manager_set_origin(struct kv_manager *manager, const block_id *ids, uint32_t n,
                           uint64_t origin)
{
    block_pool_set_origin(manager->pool, ids, n, origin);
}

uint64_t kv_manager_origin(const struct kv_manager *manager, block_id id)
{
    return block_pool_origin(manager->pool, id);
}
