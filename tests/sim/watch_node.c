#include "tests/sim/watch_node.h"

#include "ctx_worker/ctx_engine_state.h"
#include "gen_worker/gen_engine_state.h"
#include "kvcache/kv_manager_kind.h"
#include "kvcache/prefix_tree_state.h"

#include <stdlib.h>

struct watch_node {
    struct span_reader *reader;
    struct prefix_key key;
    uint32_t block_tokens, n_looks, n, n_max;
    struct prefix_hash *has; /* [n_max] */
};

static const struct prefix_tree *tree_of(const struct worker_node *worker)
{
    const struct kv_manager *manager = worker->ctx ? worker->ctx->home.manager
                                                   : worker->gen->home.manager;
    return manager->tree;
}

void watch_node_start(struct worker_node *worker, const struct prefix_key *key)
{
    const struct span_events *spans = worker->ctx ? ctx_engine_spans(worker->ctx)
                                                  : gen_engine_spans(worker->gen);
    worker->watch = NULL;
    if (!spans)
        return;
    struct watch_node *watch = calloc(1, sizeof *watch);
    watch->key = *key;
    watch->block_tokens = span_events_block_tokens(spans);
    watch->n_max = prefix_tree_spans_max(tree_of(worker));
    watch->has = calloc(watch->n_max, sizeof *watch->has);
    if (span_reader_create(spans, &watch->reader) != STATUS_OK)
        abort();
    worker->watch = watch;
}

static uint32_t find_in(const struct watch_node *watch, struct prefix_hash hash)
{
    uint32_t at = watch->n;
    while (at > 0 && !prefix_hash_equal(watch->has[at - 1], hash))
        at--;
    return at;
}

/* Its tokens, behind its parent, give its hash. Prompts with a salt have none. */
static bool is_true(const struct watch_node *watch, const struct span_event *event)
{
    struct prefix_hash hash = event->hash;
    if (event->n_tokens > 0 && prefix_hash_is_none(event->parent))
        prefix_hash_blocks(&watch->key, "", 0, event->token_ids, event->n_tokens,
                           watch->block_tokens, &hash);
    else if (event->n_tokens > 0)
        prefix_hash_next(&watch->key, event->parent, event->token_ids, event->n_tokens,
                         watch->block_tokens, &hash);
    return prefix_hash_equal(hash, event->hash);
}

static void take(struct worker_node *worker, const struct span_event *event)
{
    struct watch_node *watch = worker->watch;
    struct totals *totals = worker->cluster->totals;
    const uint32_t at = find_in(watch, event->hash);
    if (event->kind == SPAN_CLEARED) {
        watch->n = 0;
        totals->watch_snapshots++;
    } else if (event->kind == SPAN_REMOVED && at > 0) {
        watch->has[at - 1] = watch->has[--watch->n];
        totals->watch_removed++;
    } else if (event->kind == SPAN_STORED) {
        if (at > 0 || watch->n == watch->n_max || !is_true(watch, event))
            cluster_fail(worker->cluster, "node %u: its watcher is told something wrong",
                         worker->node);
        else
            watch->has[watch->n++] = event->hash;
        totals->watch_stored++;
        totals->watch_told += event->n_tokens > 0;
    }
}

void watch_node_look(struct worker_node *worker)
{
    struct watch_node *watch = worker->watch;
    struct span_event event;
    if (!watch || (worker->node % 2 && ++watch->n_looks % 16 != 0))
        return;
    while (span_reader_next(watch->reader, &event))
        take(worker, &event);
    const struct prefix_tree *tree = tree_of(worker);
    if (watch->n != prefix_tree_count(tree))
        cluster_fail(worker->cluster, "node %u: its watcher has %u spans, its cache %u",
                     worker->node, watch->n, prefix_tree_count(tree));
    for (uint32_t i = 0; i < watch->n; i++)
        if (find(tree, watch->has[i]) == NONE)
            cluster_fail(worker->cluster, "node %u: its watcher has a span that is not cached",
                         worker->node);
}

void watch_node_stop(struct worker_node *worker)
{
    if (!worker->watch)
        return;
    span_reader_destroy(worker->watch->reader);
    free(worker->watch->has);
    free(worker->watch);
    worker->watch = NULL;
}
