/* Blocks are taken when tokens need them. */
#include "kvcache/kv_manager_kind.h"

static enum status check(const struct kv_manager *manager, struct error *error)
{
    if (block_pool_size(manager->pool) > manager->n_aside)
        return STATUS_OK;
    return error_set(error, STATUS_INVALID_ARGUMENT,
                     "the pool has %u blocks, and a step needs %u beside those of sequences: raise "
                     "kv_blocks or kv_memory, or lower prefill_batch_tokens",
                     block_pool_size(manager->pool), manager->n_aside);
}

static enum status prepare(struct kv_manager *manager, struct block_table *table,
                           const struct block_need *need)
{
    (void)manager;
    return block_table_prepare(table, need);
}

static void settle(struct block_table *table, uint32_t position, enum kv_next next)
{
    const uint32_t n_spans = table->n_spans + table->n_dropped;
    const struct block_need need = {.position = position,
                                    .end = position,
                                    .known = n_spans * table->block_tokens,
                                    .is_reply = next != KV_NEXT_PROMPT};
    block_table_give_back(table, &need);
    if (next != KV_NEXT_NOTHING && block_table_prepare(table, &need) != STATUS_OK)
        return; /* before the next step it is tried again */
}

static uint32_t all(const struct kv_manager *manager)
{
    return block_pool_size(manager->pool) - manager->n_aside;
}

static uint32_t left(const struct kv_manager *manager)
{
    const uint32_t n = block_pool_count(manager->pool, BLOCK_FREE) +
                       block_pool_count(manager->pool, BLOCK_CACHED);
    const uint32_t n_spoken_for = manager->n_aside + block_pool_lent(manager->pool);
    return n > n_spoken_for ? n - n_spoken_for : 0;
}

static struct kv_manager_rule rule(const struct kv_manager *manager)
{
    const struct cache_groups *groups = &manager->geometry.groups;
    struct kv_manager_rule rule = {.n_groups = cache_groups_count(groups),
                                   .n_beside = groups->n_state,
                                   .reply_spans = sink_window_spans_max(
                                       &manager->geometry.sinks, manager->geometry.block_tokens)};
    for (uint32_t group = 0; group < rule.n_groups; group++)
        rule.span_limits[group] = cache_group_spans_max(groups, group,
                                                        manager->geometry.block_tokens);
    return rule;
}

const struct kv_manager_kind KV_MANAGER_PAGED_KIND = {.name = "paged",
                                                      .shares = true,
                                                      .check = check,
                                                      .prepare = prepare,
                                                      .settle = settle,
                                                      .all = all,
                                                      .left = left,
                                                      .rule = rule};
