#include "engine/prefix_tier.h"

#include "base/clock.h"
#include "device/device_fetch.h"
#include "engine/refused_states.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define LEFT_SHIFT 40 /* of the number of free blocks, above that of changes */

/* The blocks of a prefix that were ordered. */
struct restore {
    uint64_t order; /* 0: none */
    uint64_t limit_ns;
    uint32_t n_spans, n_known;  /* of the prefix, and that the cache had */
    struct prefix_hash *hashes; /* [spans_max] */
    uint32_t n_blocks;          /* of the prefix, with those that the cache has */
    uint32_t n_keys;
    struct stored_key *keys; /* [keys_max] in the order of spans */
    uint32_t *spans;         /* [keys_max] of each key */
    /* With events: of the first n_told spans, from the request. */
    uint32_t n_told;
    bool is_common;
    uint32_t *token_ids; /* [spans_max * block_tokens] */
    /* Of the span that comes now: its blocks so far, which are in the tier's memory. */
    uint32_t n_parts;
    struct kv_tier_piece parts[CACHE_GROUPS_MAX];
};

struct prefix_tier {
    struct prefix_tier_options options;
    struct geometry geometry;
    uint32_t n_groups, spans_max, keys_max;
    size_t block_bytes;
    uint64_t more_at_ns;   /* when run left blocks; DEADLINE_NONE: it did not */
    uint64_t next_hold_ns; /* when the next request that was held since run is held no more */
    bool was_late;         /* an order, when late_done works of the tier were done */
    uint64_t late_done;
    struct restore restores[KV_TIER_ORDERS_MAX];
    struct restore plan; /* of the request that is looked at */
    struct refused_states refused;
    struct prefix_tier_figures figures;
};

uint32_t prefix_tier_keys_max(const struct geometry *geometry, uint32_t context_tokens)
{
    return geometry_spans(geometry, context_tokens) * cache_groups_count(&geometry->groups) +
           geometry->groups.n_state;
}

uint32_t prefix_tier_pieces_min(const struct geometry *geometry)
{
    return 2 * cache_groups_count(&geometry->groups);
}

/* ---- blocks that leave ---- */

static void store(struct prefix_tier *tier, const struct prefix_change *change)
{
    if (change->origin == PREFIX_ORIGINS_MIXED) {
        tier->figures.mixed++;
        return;
    }
    const struct stored_block block = {
        .key = {change->hash, change->group}, .parent = change->parent, .origin = change->origin};
    uint8_t *bytes = kv_tier_store_begin(tier->options.tier, &block);
    if (!bytes)
        return;
    const enum status status = device_fetch(tier->options.device,
                                            kv_manager_data(tier->options.manager, change->id),
                                            tier->block_bytes, bytes);
    kv_tier_store_end(tier->options.tier, bytes, status == STATUS_OK);
}

static void on_change(void *arg, const struct prefix_change *change)
{
    if (change->reason == PREFIX_EVICTED && change->is_idle)
        store(arg, change);
}

/* ---- creation ---- */

static bool make_restore(const struct prefix_tier *tier, struct restore *restore)
{
    restore->hashes = calloc(tier->spans_max, sizeof *restore->hashes);
    restore->keys = calloc(tier->keys_max, sizeof *restore->keys);
    restore->spans = calloc(tier->keys_max, sizeof *restore->spans);
    if (tier->options.events)
        restore->token_ids = calloc((size_t)tier->spans_max * tier->geometry.block_tokens,
                                    sizeof *restore->token_ids);
    return restore->hashes && restore->keys && restore->spans &&
           (restore->token_ids || !tier->options.events);
}

static void free_restore(const struct restore *restore)
{
    free(restore->hashes);
    free(restore->keys);
    free(restore->spans);
    free(restore->token_ids);
}

enum status prefix_tier_create(const struct prefix_tier_options *options,
                               struct prefix_tier **tier_out)
{
    *tier_out = NULL;
    if (!options->tier || !kv_manager_caches(options->manager))
        return STATUS_OK;
    struct prefix_tier *tier = calloc(1, sizeof *tier);
    if (!tier)
        return STATUS_NO_MEMORY;
    tier->options = *options;
    tier->geometry = *options->geometry;
    tier->n_groups = cache_groups_count(&tier->geometry.groups);
    tier->spans_max = geometry_spans(&tier->geometry, options->context_tokens);
    tier->keys_max = prefix_tier_keys_max(&tier->geometry, options->context_tokens);
    tier->block_bytes = geometry_block_bytes(&tier->geometry);
    tier->more_at_ns = tier->next_hold_ns = DEADLINE_NONE;
    if (tier->options.run_bytes == 0)
        tier->options.run_bytes = PREFIX_TIER_RUN_BYTES;
    bool has_memory = make_restore(tier, &tier->plan);
    for (uint32_t i = 0; i < KV_TIER_ORDERS_MAX; i++)
        has_memory = make_restore(tier, &tier->restores[i]) && has_memory;
    if (!has_memory) {
        prefix_tier_destroy(tier);
        return STATUS_NO_MEMORY;
    }
    kv_manager_observe(options->manager, on_change, tier);
    *tier_out = tier;
    return STATUS_OK;
}

static void end(struct prefix_tier *tier, struct restore *restore);

void prefix_tier_destroy(struct prefix_tier *tier)
{
    if (!tier)
        return;
    kv_manager_observe(tier->options.manager, NULL, NULL);
    for (uint32_t i = 0; i < KV_TIER_ORDERS_MAX; i++) {
        if (tier->restores[i].order != 0)
            end(tier, &tier->restores[i]);
        free_restore(&tier->restores[i]);
    }
    free_restore(&tier->plan);
    free(tier);
}

/* ---- blocks that come back ---- */

static void give_parts(struct prefix_tier *tier, struct restore *restore)
{
    for (uint32_t i = 0; i < restore->n_parts; i++)
        kv_tier_give(tier->options.tier, &restore->parts[i]);
    restore->n_parts = 0;
}

/* Fine for an order that is over. */
static void end(struct prefix_tier *tier, struct restore *restore)
{
    uint32_t n_held;
    const uint32_t n_found = kv_manager_peek(tier->options.manager, restore->hashes,
                                             restore->n_spans, &n_held);
    if (n_found > restore->n_known)
        tier->figures.tokens += (uint64_t)(n_found - restore->n_known) *
                                tier->geometry.block_tokens;
    give_parts(tier, restore);
    kv_tier_cancel(tier->options.tier, restore->order);
    restore->order = 0;
}

/* A block of the snapshot behind the last span, which is in the cache already, enters it. False, likewise. */
static bool add_state(struct prefix_tier *tier, const struct restore *restore,
                      const struct kv_tier_piece *piece)
{
    struct kv_manager *manager = tier->options.manager;
    const struct stored_key *key = &restore->keys[piece->at];
    block_id id;
    if (kv_manager_take(manager, 1, &id) != STATUS_OK)
        return false;
    if (device_put(tier->options.device, kv_manager_data(manager, id), piece->bytes,
                   tier->block_bytes) != STATUS_OK) {
        kv_manager_give(manager, &id, 1);
        return false;
    }
    if (kv_manager_add_state(manager, key->hash, piece->origin, key->group - tier->n_groups, id))
        return true;
    refused_states_add(&tier->refused, key->hash);
    return false;
}

/* The parts of a span enter the cache. False: they found no place, or the device is lost. */
static bool add_span(struct prefix_tier *tier, struct restore *restore, uint32_t span)
{
    struct kv_manager *manager = tier->options.manager;
    block_id taken[CACHE_GROUPS_MAX], ids[CACHE_GROUPS_MAX];
    bool is_good = true;
    if (kv_manager_take(manager, restore->n_parts, taken) != STATUS_OK)
        return false;
    memset(ids, 0xff, sizeof ids); /* BLOCK_NONE */
    for (uint32_t i = 0; i < restore->n_parts; i++) {
        const struct kv_tier_piece *part = &restore->parts[i];
        ids[restore->keys[part->at].group] = taken[i];
        kv_manager_set_origin(manager, &taken[i], 1, part->origin);
        is_good = is_good && device_put(tier->options.device, kv_manager_data(manager, taken[i]),
                                        part->bytes, tier->block_bytes) == STATUS_OK;
    }
    if (!is_good) {
        kv_manager_give(manager, taken, restore->n_parts);
        return false;
    }
    cache_events_begin(tier->options.events,
                       &(struct cache_source){.hashes = restore->hashes,
                                              .token_ids = restore->token_ids,
                                              .n = restore->n_told,
                                              .is_common = restore->is_common});
    const bool is_added = kv_manager_add(manager, restore->hashes, span, ids);
    cache_events_end(tier->options.events);
    return is_added;
}

static bool is_of_state(const struct prefix_tier *tier, const struct restore *restore, uint32_t at)
{
    return restore->keys[at].group >= tier->n_groups;
}

static struct restore *restore_of(struct prefix_tier *tier, uint64_t order)
{
    for (uint32_t i = 0; i < KV_TIER_ORDERS_MAX; i++)
        if (tier->restores[i].order == order)
            return &tier->restores[i];
    return NULL;
}

static void take_piece(struct prefix_tier *tier, struct restore *restore,
                       const struct kv_tier_piece *piece)
{
    if (!piece->bytes) {
        end(tier, restore);
        return;
    }
    const uint32_t span = restore->spans[piece->at];
    const bool is_state = is_of_state(tier, restore, piece->at);
    restore->parts[restore->n_parts++] = *piece;
    if (!is_state && !piece->is_last && restore->spans[piece->at + 1] == span &&
        !is_of_state(tier, restore, piece->at + 1))
        return;
    if (is_state ? add_state(tier, restore, piece) : add_span(tier, restore, span)) {
        tier->figures.blocks += restore->n_parts;
        give_parts(tier, restore);
    } else {
        tier->figures.no_room += restore->n_parts;
        end(tier, restore);
        return;
    }
    if (piece->is_last)
        end(tier, restore);
}

/* Each call copies a block at least, so that all come. */
static void take_pieces(struct prefix_tier *tier, uint64_t now_ns)
{
    struct kv_tier_piece piece;
    uint64_t n_bytes = 0;
    while (n_bytes < tier->options.run_bytes && kv_tier_take(tier->options.tier, &piece)) {
        struct restore *restore = restore_of(tier, piece.order);
        n_bytes += piece.bytes ? tier->block_bytes : 0;
        if (restore)
            take_piece(tier, restore, &piece);
        else
            kv_tier_give(tier->options.tier, &piece);
    }
    tier->more_at_ns = n_bytes < tier->options.run_bytes ? DEADLINE_NONE : now_ns;
}

void prefix_tier_run(struct prefix_tier *tier, uint64_t now_ns)
{
    if (!tier)
        return;
    /* What was there before is not to make room for what comes. */
    for (uint32_t i = 0; i < KV_TIER_ORDERS_MAX; i++)
        if (tier->restores[i].order != 0)
            (void)kv_manager_touch(tier->options.manager, tier->restores[i].hashes,
                                   tier->restores[i].n_spans);
    tier->next_hold_ns = DEADLINE_NONE;
    take_pieces(tier, now_ns);
    for (uint32_t i = 0; i < KV_TIER_ORDERS_MAX; i++) {
        if (tier->restores[i].order == 0 || tier->restores[i].limit_ns > now_ns)
            continue;
        bool has_work;
        tier->figures.n_late++;
        tier->was_late = true;
        tier->late_done = kv_tier_done(tier->options.tier, &has_work);
        end(tier, &tier->restores[i]);
    }
}

/* ---- orders ---- */

static bool is_full(const struct prefix_tier *tier, uint32_t group)
{
    return cache_group_window(&tier->geometry.groups, group) == 0;
}

static bool is_cached(const struct prefix_tier *tier, struct prefix_hash hash, uint32_t group)
{
    return kv_manager_has(tier->options.manager, hash, group);
}

static bool is_somewhere(const struct prefix_tier *tier, struct prefix_hash hash, uint32_t group)
{
    return is_cached(tier, hash, group) ||
           kv_tier_has(tier->options.tier, &(struct stored_key){hash, group});
}

/* All blocks of a snapshot are; true if there are no states. */
static bool has_state(struct prefix_tier *tier, struct prefix_hash hash)
{
    const uint32_t n_state = tier->geometry.groups.n_state;
    const bool is_of_cache = n_state > 0 &&
                             refused_states_has(&tier->refused, tier->options.manager,
                                                tier->n_groups, hash);
    for (uint32_t row = tier->n_groups; row < tier->n_groups + n_state; row++)
        if (!(is_of_cache ? is_cached(tier, hash, row) : is_somewhere(tier, hash, row)))
            return false;
    return true;
}

/* As the cache finds a prefix, but in cache and tier. */
static uint32_t find_prefix(struct prefix_tier *tier, const struct prefix_hash *hashes, uint32_t n)
{
    const uint32_t block_tokens = tier->geometry.block_tokens;
    uint32_t runs[CACHE_GROUPS_MAX] = {0};
    uint32_t known = 0;
    for (uint32_t i = 0; i < n; i++) {
        bool is_enough = true;
        for (uint32_t group = 0; group < tier->n_groups; group++) {
            runs[group] = is_somewhere(tier, hashes[i], group) ? runs[group] + 1 : 0;
            if (is_full(tier, group) && runs[group] == 0)
                return known;
            const uint32_t first = cache_group_first_span(&tier->geometry.groups, group,
                                                          block_tokens, (i + 1) * block_tokens);
            is_enough = is_enough && runs[group] >= i + 1 - first;
        }
        if (is_enough && has_state(tier, hashes[i]))
            known = i + 1;
    }
    return known;
}

/* The tier brings it, if the cache lacks it. */
static void plan_block(struct prefix_tier *tier, struct prefix_hash hash, uint32_t row,
                       uint32_t span)
{
    struct restore *plan = &tier->plan;
    plan->n_blocks++;
    if (is_cached(tier, hash, row))
        return;
    plan->keys[plan->n_keys] = (struct stored_key){hash, row};
    plan->spans[plan->n_keys++] = span;
}

/* The keys that the cache lacks of those n spans, and of the snapshot behind them. */
static void make_plan(struct prefix_tier *tier, const struct prefix_hash *hashes, uint32_t n)
{
    const uint32_t block_tokens = tier->geometry.block_tokens;
    struct restore *plan = &tier->plan;
    uint32_t firsts[CACHE_GROUPS_MAX] = {0};
    for (uint32_t group = 0; group < tier->n_groups; group++)
        firsts[group] = cache_group_first_span(&tier->geometry.groups, group, block_tokens,
                                               n * block_tokens);
    plan->n_spans = n;
    plan->n_keys = plan->n_blocks = 0;
    memcpy(plan->hashes, hashes, n * sizeof *hashes);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t group = 0; group < tier->n_groups; group++) {
            if (i >= firsts[group])
                plan_block(tier, hashes[i], group, i);
        }
    for (uint32_t i = 0; i < tier->geometry.groups.n_state && n > 0; i++)
        plan_block(tier, hashes[n - 1], tier->n_groups + i, n - 1);
}

/* Blocks that the prefix has in the cache already stay. */
static bool has_room(const struct prefix_tier *tier)
{
    return tier->plan.n_blocks <= kv_manager_left(tier->options.manager);
}

/* Of the first n_spans of an order, a block is not in the cache. Looks from behind, because blocks come from the front. */
static bool lacks(const struct prefix_tier *tier, const struct restore *restore, uint32_t n_spans)
{
    for (uint32_t i = restore->n_keys; i-- > 0;)
        if (restore->spans[i] < n_spans &&
            !is_cached(tier, restore->keys[i].hash, restore->keys[i].group))
            return true;
    return false;
}

static uint32_t n_common(const struct restore *a, const struct restore *b)
{
    uint32_t n = 0;
    while (n < a->n_spans && n < b->n_spans && prefix_hash_equal(a->hashes[n], b->hashes[n]))
        n++;
    return n;
}

/* Its tokens as far as they are the prompt's: the request may be gone when its blocks come. */
static void copy_tokens(const struct prefix_tier *tier, const struct engine_request *request,
                        struct restore *restore)
{
    const uint32_t block_tokens = tier->geometry.block_tokens;
    const uint32_t n_prompt = request->n_tokens / block_tokens;
    restore->is_common = engine_request_is_common(request);
    restore->n_told = 0;
    if (!restore->token_ids || !restore->is_common)
        return;
    restore->n_told = n_prompt < restore->n_spans ? n_prompt : restore->n_spans;
    memcpy(restore->token_ids, request->token_ids,
           (size_t)restore->n_told * block_tokens * sizeof *restore->token_ids);
}

/* An open order of another request that has blocks of the plan. False: there is none. */
static bool share(const struct prefix_tier *tier, struct engine_request *request)
{
    uint32_t n_most = 0;
    for (uint32_t i = 0; i < KV_TIER_ORDERS_MAX; i++) {
        const struct restore *restore = &tier->restores[i];
        const uint32_t n = restore->order != 0 ? n_common(restore, &tier->plan) : 0;
        if (n <= n_most || !lacks(tier, restore, n))
            continue;
        n_most = n;
        request->restore = restore->order;
    }
    request->restore_spans = n_most;
    request->restores_other = n_most > 0;
    return n_most > 0;
}

/* False: none is free. */
static bool order(struct prefix_tier *tier, struct engine_request *request)
{
    struct restore *restore = restore_of(tier, 0);
    if (!restore)
        return false;
    const uint64_t number = kv_tier_order(tier->options.tier, tier->plan.keys, tier->plan.n_keys);
    if (number == 0)
        return false;
    const struct restore spare = *restore;
    *restore = tier->plan;
    tier->plan = spare;
    copy_tokens(tier, request, restore);
    restore->order = request->restore = number;
    restore->limit_ns = request->held_until_ns;
    request->restore_spans = restore->n_spans;
    request->restores_other = false;
    tier->figures.n_orders++;
    return true;
}

/* Nothing that the tier has to do was done since the last order that was late: its disk hangs. */
static bool hangs(struct prefix_tier *tier)
{
    bool has_work;
    if (tier->was_late)
        tier->was_late = kv_tier_done(tier->options.tier, &has_work) == tier->late_done && has_work;
    return tier->was_late;
}

/* It asks no more. */
static void settle(struct engine_request *request)
{
    request->is_restored = true;
    request->restore = request->held_until_ns = 0;
}

bool prefix_tier_is_settled(const struct prefix_tier *tier, const struct engine_request *request)
{
    return !tier || tier->options.limit_ns == 0 || request->is_restored;
}

/* Its order is open, and lacks blocks of it; looks for these when the cache has changed. */
static bool is_open(struct prefix_tier *tier, struct engine_request *request)
{
    const uint64_t changes = kv_manager_changes(tier->options.manager);
    struct restore *restore = restore_of(tier, request->restore);
    if (!restore || request->restore_lookup == changes)
        return restore != NULL;
    request->restore_lookup = changes;
    if (lacks(tier, restore, request->restore_spans))
        return true;
    if (!request->restores_other)
        end(tier, restore); /* others computed the rest of it */
    return false;
}

bool prefix_tier_waits(struct prefix_tier *tier, struct engine_request *request, uint64_t now_ns)
{
    if (prefix_tier_is_settled(tier, request) || request->restore == 0)
        return false;
    const bool is_late = request->restores_other && request->held_until_ns <= now_ns;
    if (!is_late && is_open(tier, request)) {
        tier->next_hold_ns = clock_earlier(tier->next_hold_ns, request->held_until_ns);
        return true;
    }
    if (is_late || !request->restores_other)
        settle(request);
    request->restore = request->restore_lookup = 0;
    return false;
}

void prefix_tier_leave(struct prefix_tier *tier, struct engine_request *request)
{
    if (!tier || request->restore == 0)
        return;
    struct restore *restore = restore_of(tier, request->restore);
    if (restore && !request->restores_other)
        end(tier, restore);
    settle(request);
}

/* The plan has what tier and cache have of its n spans. False: the cache has as much. */
static bool finds_more(struct prefix_tier *tier, const struct prefix_hash *hashes, uint32_t n)
{
    uint32_t n_held;
    const uint32_t n_known = kv_manager_peek(tier->options.manager, hashes, n, &n_held);
    const uint32_t n_found = find_prefix(tier, hashes, n);
    if (n_found <= n_known)
        return false;
    make_plan(tier, hashes, n_found);
    tier->plan.n_known = n_known;
    return tier->plan.n_keys > 0; /* windows of one token: such a prefix needs no block */
}

bool prefix_tier_holds(struct prefix_tier *tier, struct engine_request *request,
                       const struct prefix_hash *hashes, uint32_t n, uint64_t now_ns)
{
    if (prefix_tier_waits(tier, request, now_ns))
        return true;
    if (prefix_tier_is_settled(tier, request) || hangs(tier))
        return false;
    const uint64_t lookup = kv_manager_changes(tier->options.manager) +
                            ((uint64_t)kv_manager_left(tier->options.manager) << LEFT_SHIFT);
    if (request->restore_lookup == lookup)
        return false; /* there was no room, and nothing has changed */
    request->restore_lookup = lookup;
    if (!finds_more(tier, hashes, n)) {
        settle(request);
        return false;
    }
    if (request->held_until_ns == 0)
        request->held_until_ns = now_ns + tier->options.limit_ns;
    if (share(tier, request) || (has_room(tier) && order(tier, request))) {
        tier->next_hold_ns = clock_earlier(tier->next_hold_ns, request->held_until_ns);
        return true;
    }
    request->held_until_ns = 0;
    return false;
}

uint64_t prefix_tier_next_limit_ns(const struct prefix_tier *tier)
{
    if (!tier)
        return DEADLINE_NONE;
    uint64_t next_ns = clock_earlier(tier->more_at_ns, tier->next_hold_ns);
    for (uint32_t i = 0; i < KV_TIER_ORDERS_MAX; i++)
        if (tier->restores[i].order != 0)
            next_ns = clock_earlier(next_ns, tier->restores[i].limit_ns);
    return next_ns;
}

/* ---- what must vanish ---- */

void prefix_tier_drop(struct prefix_tier *tier, uint64_t origin)
{
    if (tier)
        kv_tier_drop(tier->options.tier, origin);
}

void prefix_tier_clear(struct prefix_tier *tier)
{
    if (tier)
        kv_tier_clear(tier->options.tier);
}

void prefix_tier_count(struct prefix_tier *tier, struct prefix_tier_figures *figures_out)
{
    *figures_out = (struct prefix_tier_figures){0};
    if (!tier)
        return;
    *figures_out = tier->figures;
    kv_tier_count(tier->options.tier, &figures_out->tier);
}
