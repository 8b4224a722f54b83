/* cache_events: what a watcher has collected is what the cache has, after every change, whatever groups the model has; with the
 * tokens of the common cache, and of no other. */
#include "base/random.h"
#include "engine/cache_events.h"

#include <criterion/criterion.h>
#include <string.h>

enum {
    BLOCK = 8,
    CONTEXT = 96,
    SPANS = CONTEXT / BLOCK,
    SEQUENCES = 5,
    KNOWN_MAX = 30000,
    SLOTS = 1 << 16,
#ifdef KVFERRY_SANITIZED
    STEPS = 4000,
#else
    STEPS = 20000,
#endif
};

#define SHAPE .n_kv_heads = 1, .head_dim = 8, .block_tokens = BLOCK, .dtype = KV_F32

static const struct geometry ONE = {.n_layers = 2, SHAPE};
static const struct geometry WINDOWS = {
    .n_layers = 5,
    SHAPE,
    .groups = {.n = 3, .places = 2, .all = {{1, 0, {0}}, {2, 20, {0}}, {2, 9, {0}}}}};
static const struct geometry ALL_WINDOWS = {
    .n_layers = 4, SHAPE, .groups = {.n = 2, .places = 2, .all = {{2, 16, {0}}, {2, 30, {0}}}}};

/* A span that was ever computed. */
struct known {
    struct prefix_hash hash, parent;
    uint32_t above; /* of the span that it follows; UINT32_MAX: none */
    uint32_t tokens[BLOCK];
    bool is_common;
    bool is_there; /* the cache has it, or one behind it */
    bool is_told;  /* the watcher has it */
};

struct actor {
    bool is_running, is_common;
    struct block_table table;
    uint32_t tokens[CONTEXT];
    struct prefix_hash hashes[SPANS];
    uint32_t n_tokens, n_kv;
};

static struct world {
    struct kv_manager *manager;
    struct block_pool *pool;
    const struct geometry *geometry;
    struct cache_events *events;
    struct span_reader *reader;
    struct random random;
    struct actor actors[SEQUENCES];
    uint32_t n_known;
    struct known known[KNOWN_MAX];
    uint32_t slots[SLOTS]; /* 1 and the place in known; 0: none */
    uint32_t n_stored, n_with_tokens, n_removed;
} world;

static uint32_t below(struct world *w, uint32_t n)
{
    return (uint32_t)random_below(&w->random, n);
}

static uint32_t *slot_of(struct world *w, struct prefix_hash hash)
{
    uint32_t at = (uint32_t)hash.lo % SLOTS;
    while (w->slots[at] != 0 && w->known[w->slots[at] - 1].hash.hi != hash.hi)
        at = (at + 1) % SLOTS;
    return &w->slots[at];
}

static void learn(struct world *w, const struct actor *actor)
{
    for (uint32_t i = 0; i < actor->n_tokens / BLOCK; i++) {
        uint32_t *slot = slot_of(w, actor->hashes[i]);
        if (*slot != 0)
            continue;
        cr_assert(w->n_known < KNOWN_MAX);
        struct known *known = &w->known[w->n_known];
        *known = (struct known){
            .hash = actor->hashes[i], .above = UINT32_MAX, .is_common = actor->is_common};
        memcpy(known->tokens, actor->tokens + (size_t)i * BLOCK, sizeof known->tokens);
        if (i > 0) {
            known->parent = actor->hashes[i - 1];
            known->above = *slot_of(w, actor->hashes[i - 1]) - 1;
        }
        *slot = ++w->n_known;
    }
}

/* ---- what must hold ---- */

static void collect(struct world *w)
{
    struct span_event event;
    while (span_reader_next(w->reader, &event)) {
        if (event.kind == SPAN_GONE)
            continue;
        if (event.kind == SPAN_CLEARED) {
            for (uint32_t i = 0; i < w->n_known; i++)
                w->known[i].is_told = false;
            continue;
        }
        cr_assert_neq(*slot_of(w, event.hash), 0);
        struct known *known = &w->known[*slot_of(w, event.hash) - 1];
        w->n_removed += event.kind == SPAN_REMOVED;
        known->is_told = event.kind == SPAN_STORED;
        if (event.kind == SPAN_REMOVED)
            continue;
        w->n_stored++;
        w->n_with_tokens += event.n_tokens > 0;
        cr_assert_eq(event.parent.hi, known->parent.hi);
        cr_assert_eq(event.n_tokens, known->is_common ? BLOCK : 0);
        if (event.n_tokens > 0)
            cr_assert_arr_eq(event.token_ids, known->tokens, sizeof known->tokens);
    }
}

static bool has_block(const struct world *w, struct prefix_hash hash)
{
    for (uint32_t group = 0; group < cache_groups_count(&w->geometry->groups); group++)
        if (kv_manager_has(w->manager, hash, group))
            return true;
    return false;
}

static void check(struct world *w)
{
    const bool has_full = cache_group_window(&w->geometry->groups, 0) == 0;
    for (uint32_t i = 0; i < w->n_known; i++)
        w->known[i].is_there = has_block(w, w->known[i].hash);
    for (uint32_t i = w->n_known; i-- > 0;) /* one behind another is known later */
        if (w->known[i].is_there && w->known[i].above != UINT32_MAX)
            w->known[w->known[i].above].is_there = true;
    for (uint32_t i = 0; i < w->n_known; i++) {
        const struct known *known = &w->known[i];
        cr_assert_eq(known->is_told, known->is_there, "span %u of %u", i, w->n_known);
        if (has_full)
            cr_assert_eq(known->is_told, kv_manager_has(w->manager, known->hash, 0));
    }
}

/* ---- what happens ---- */

static void hash(struct actor *actor)
{
    static const struct prefix_key KEY = {"0123456789abcdef"};
    prefix_hash_blocks(&KEY, "salt", actor->is_common ? 0 : 4, actor->tokens, actor->n_tokens,
                       BLOCK, actor->hashes);
}

static void stop(struct world *w, struct actor *actor)
{
    kv_manager_free(w->manager, &actor->table);
    actor->is_running = false;
    actor->n_kv = actor->n_tokens = 0;
}

static void start(struct world *w, struct actor *actor)
{
    actor->n_tokens = 1 + below(w, CONTEXT - 8);
    actor->is_common = below(w, 4) > 0;
    for (uint32_t i = 0; i < actor->n_tokens; i++)
        actor->tokens[i] = i < 40 ? below(w, 12) == 0 : below(w, 40) == 0;
    hash(actor);
    learn(w, actor);
    actor->n_kv = kv_manager_match(w->manager, &actor->table, actor->hashes,
                                   (actor->n_tokens - 1) / BLOCK);
    actor->is_running = true;
    const struct block_need need = {actor->n_kv, actor->n_kv, actor->n_tokens, false};
    if (kv_manager_prepare(w->manager, &actor->table, &need) != STATUS_OK)
        stop(w, actor);
}

static void compute(struct world *w, struct actor *actor)
{
    const uint32_t n_left = actor->n_tokens - actor->n_kv;
    const uint32_t n = n_left > 2 * BLOCK ? 2 * BLOCK : n_left;
    const struct block_need need = {actor->n_kv, actor->n_kv + n, actor->n_tokens, false};
    if (n == 0 || kv_manager_prepare(w->manager, &actor->table, &need) != STATUS_OK) {
        stop(w, actor);
        return;
    }
    if (below(w, 5) == 0)
        for (uint32_t group = 0; group < block_table_n_rows(&actor->table); group++) {
            const struct block_row row = block_table_row(&actor->table, group);
            for (uint32_t span = actor->n_kv / BLOCK; span < (actor->n_kv + n) / BLOCK; span++)
                if (span >= row.first && span < row.first + row.n)
                    kv_manager_set_origin(w->manager, &row.ids[span - row.first], 1, 77);
        }
    actor->n_kv += n;
    const struct cache_source source = {.hashes = actor->hashes,
                                        .token_ids = actor->tokens,
                                        .n = actor->n_kv / BLOCK,
                                        .is_common = actor->is_common};
    cache_events_begin(w->events, &source);
    kv_manager_keep(w->manager, &actor->table, actor->hashes, actor->n_kv / BLOCK);
    cache_events_end(w->events);
    kv_manager_settle(w->manager, &actor->table, actor->n_kv,
                      below(w, 2) ? KV_NEXT_NOTHING : KV_NEXT_PROMPT);
}

static void act(struct world *w)
{
    struct actor *actor = &w->actors[below(w, SEQUENCES)];
    const uint32_t what = below(w, 150);
    if (what == 0)
        (void)kv_manager_flush(w->manager);
    if (what == 1)
        (void)kv_manager_drop(w->manager, 77);
    if (what == 2)
        (void)kv_manager_forget(w->manager, w->known[below(w, w->n_known + 1)].hash);
    if (!actor->is_running)
        start(w, actor);
    else if (what < 10)
        stop(w, actor);
    else
        compute(w, actor);
}

static void run(const struct geometry *geometry, uint32_t n_blocks, uint64_t seed)
{
    struct world *w = &world;
    struct error error = {""};
    *w = (struct world){.geometry = geometry};
    random_init(&w->random, seed);
    cr_assert_eq(block_pool_create(n_blocks, geometry_block_bytes(geometry), &w->pool), STATUS_OK);
    const struct kv_manager_options options = {.kind = KV_MANAGER_PAGED,
                                               .geometry = geometry,
                                               .pool = w->pool,
                                               .step = {3 * BLOCK, SEQUENCES, CONTEXT},
                                               .prefix_cache = true};
    cr_assert_eq(kv_manager_create(&options, &error, &w->manager), STATUS_OK, "%s", error.text);
    const struct cache_events_options events = {
        .manager = w->manager, .block_tokens = BLOCK, .events_max = 500, .wipes = true};
    cr_assert_eq(cache_events_create(&events, &w->events), STATUS_OK);
    cr_assert_eq(span_reader_create(cache_events_spans(w->events), &w->reader), STATUS_OK);
    for (uint32_t i = 0; i < SEQUENCES; i++)
        cr_assert_eq(kv_manager_init(w->manager, &w->actors[i].table), STATUS_OK);
    for (int step = 0; step < STEPS && w->n_known < KNOWN_MAX - SPANS; step++) {
        act(w);
        if (below(w, 300) == 0)
            span_reader_restart(w->reader);
        collect(w);
        if (step % 8 == 0)
            check(w);
    }
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        kv_manager_free(w->manager, &w->actors[i].table);
        kv_manager_finish(&w->actors[i].table);
    }
    (void)kv_manager_flush(w->manager);
    collect(w);
    check(w);
    for (uint32_t i = 0; i < w->n_known; i++)
        cr_assert(!w->known[i].is_told, "after a flush there is nothing");
    cr_assert_gt(w->n_with_tokens, 100);
    cr_assert_gt(w->n_stored, w->n_with_tokens + 100);
    cr_assert_gt(w->n_removed, 100);
    span_reader_destroy(w->reader);
    cache_events_destroy(w->events);
    kv_manager_destroy(w->manager);
    block_pool_destroy(w->pool);
}

Test(cache_events, a_watcher_has_what_the_cache_has)
{
    for (uint64_t seed = 1; seed <= 2; seed++)
        run(&ONE, 60, seed);
}

Test(cache_events, also_where_layers_have_windows)
{
    for (uint64_t seed = 1; seed <= 2; seed++)
        run(&WINDOWS, 160, seed);
}

Test(cache_events, also_where_all_layers_have_windows)
{
    for (uint64_t seed = 1; seed <= 2; seed++)
        run(&ALL_WINDOWS, 90, seed);
}

Test(cache_events, nobody_is_told_without_events_or_a_cache)
{
    struct cache_events *events = (struct cache_events *)1;
    struct block_pool *pool;
    struct kv_manager *manager;
    struct error error = {""};
    cr_assert_eq(block_pool_create(60, geometry_block_bytes(&ONE), &pool), STATUS_OK);
    struct kv_manager_options options = {.kind = KV_MANAGER_PAGED,
                                         .geometry = &ONE,
                                         .pool = pool,
                                         .step = {3 * BLOCK, SEQUENCES, CONTEXT}};
    cr_assert_eq(kv_manager_create(&options, &error, &manager), STATUS_OK);
    const struct cache_events_options none = {
        .manager = manager, .block_tokens = BLOCK, .events_max = 64};
    cr_assert_eq(cache_events_create(&none, &events), STATUS_OK);
    cr_assert_null(events);
    cr_assert_null(cache_events_spans(events));
    cache_events_begin(events, NULL);
    cache_events_end(events);
    cache_events_destroy(events);
    kv_manager_destroy(manager);
    block_pool_destroy(pool);
}
