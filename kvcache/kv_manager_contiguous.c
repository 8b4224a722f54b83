/* A sequence has a place: the blocks of the longest context, side by side, and those of its recurrent state behind them. It takes them at once and keeps them to its end; those of
 * layers with a window, too. A place can be taken when each of its blocks is FREE. */
#include "kvcache/kv_manager_kind.h"

#include <assert.h>

static uint32_t place_blocks(const struct kv_manager *manager)
{
    const struct cache_groups *groups = &manager->geometry.groups;
    return cache_groups_count(groups) * manager->spans_max + groups->n_state;
}

static uint32_t n_places(const struct kv_manager *manager)
{
    return block_pool_size(manager->pool) / place_blocks(manager);
}

static enum status check(const struct kv_manager *manager, struct error *error)
{
    if (manager->geometry.sinks.window > 0)
        return error_set(error, STATUS_UNSUPPORTED, "kv_manager contiguous with sink_tokens %u",
                         manager->geometry.sinks.sinks);
    if (n_places(manager) > 0)
        return STATUS_OK;
    return error_set(
        error, STATUS_INVALID_ARGUMENT,
        "the pool has %u blocks, and kv_manager contiguous takes %u for each sequence: "
        "raise kv_blocks or kv_memory, or lower max_context_tokens",
        block_pool_size(manager->pool), place_blocks(manager));
}

static bool is_free(const struct kv_manager *manager, uint32_t place)
{
    const uint32_t n = place_blocks(manager);
    for (uint32_t i = 0; i < n; i++)
        if (block_pool_state(manager->pool, place * n + i) != BLOCK_FREE)
            return false;
    return true;
}

static enum status prepare(struct kv_manager *manager, struct block_table *table,
                           const struct block_need *need)
{
    const uint32_t n = place_blocks(manager);
    uint32_t place = 0;
    if (geometry_spans(&manager->geometry, need->known) > manager->spans_max)
        return STATUS_INVALID_ARGUMENT;
    if (table->n_blocks > 0)
        return STATUS_OK;
    while (place < n_places(manager) && !is_free(manager, place))
        place++;
    if (place == n_places(manager))
        return STATUS_NO_BLOCKS;
    for (uint32_t i = 0; i < n; i++)
        table->blocks[i] = place * n + i;
    block_pool_acquire_these(manager->pool, table->blocks, n);
    for (uint32_t group = 0; group < block_table_n_rows(table); group++) {
        table->first[group] = 0;
        table->end[group] = manager->spans_max;
    }
    table->n_spans = manager->spans_max;
    table->n_blocks = n;
    return STATUS_OK;
}

static uint32_t all(const struct kv_manager *manager)
{
    return n_places(manager) * place_blocks(manager);
}

static uint32_t left(const struct kv_manager *manager)
{
    uint32_t n = 0;
    for (uint32_t place = 0; place < n_places(manager); place++)
        n += is_free(manager, place);
    return n * place_blocks(manager);
}

static struct kv_manager_rule rule(const struct kv_manager *manager)
{
    return (struct kv_manager_rule){.n_groups = 1,
                                    .span_limits = {UINT32_MAX},
                                    .n_fixed = place_blocks(manager),
                                    .reply_spans = UINT32_MAX};
}

const struct kv_manager_kind KV_MANAGER_CONTIGUOUS_KIND = {.name = "contiguous",
                                                           .check = check,
                                                           .prepare = prepare,
                                                           .all = all,
                                                           .left = left,
                                                           .rule = rule};
