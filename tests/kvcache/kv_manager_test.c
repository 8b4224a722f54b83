/* kv_manager: every kind keeps the same promises. What a sequence sees is its own or an equal prefix, nothing is held twice or lost,
 * and nothing is refused that there is room for. */
#include "base/random.h"
#include "kvcache/kv_manager.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BLOCK = 8,
    CONTEXT = 96,
    SPANS = CONTEXT / BLOCK,
    SEQUENCES = 6,
    GROUPS = 3,
    POOL_MAX = 400,
#ifdef KVFERRY_SANITIZED
    STEPS = 125000, /* a million in the eight runs */
#else
    STEPS = 200000,
#endif
};

static const struct geometry ONE = {
    .n_layers = 2, .n_kv_heads = 1, .head_dim = 8, .block_tokens = BLOCK, .dtype = KV_F32};
static const struct geometry WINDOWS = {
    .n_layers = 5,
    .n_kv_heads = 1,
    .head_dim = 8,
    .block_tokens = BLOCK,
    .dtype = KV_F32,
    .groups = {.n = 3, .places = 2, .all = {{1, 0, {0}}, {2, 20, {0}}, {2, 9, {0}}}}};
static const struct geometry ALL_WINDOWS = {
    .n_layers = 4,
    .n_kv_heads = 1,
    .head_dim = 8,
    .block_tokens = BLOCK,
    .dtype = KV_F32,
    .groups = {.n = 2, .places = 2, .all = {{2, 16, {0}}, {2, 30, {0}}}}};

static const struct geometry STATE = {.n_layers = 2,
                                      .n_kv_heads = 1,
                                      .head_dim = 8,
                                      .block_tokens = BLOCK,
                                      .dtype = KV_F32,
                                      .groups = {1, 2, {{2, 0, {0}}}, .n_state = 3}};
static const struct geometry STATE_WINDOWS = {
    .n_layers = 4,
    .n_kv_heads = 1,
    .head_dim = 8,
    .block_tokens = BLOCK,
    .dtype = KV_F32,
    .groups = {2, 2, {{2, 0, {0}}, {2, 20, {0}}}, .n_state = 2}};

static const struct cache_step STEP = {3 * BLOCK, SEQUENCES, CONTEXT};
static const struct cache_step WHOLE = {CONTEXT, SEQUENCES, CONTEXT};

/* A sequence of tokens from two letters, so that beginnings are often equal. */
struct actor {
    bool is_running, is_foreign; /* foreign: its first tokens came from another worker */
    struct block_table table;
    uint32_t tokens[CONTEXT];
    struct prefix_hash hashes[SPANS];
    uint32_t n_tokens, n_kv;
    uint32_t
        rests_on; /* the drop before which the foreign tokens came that it rests on; NOTHING: none */
};

#define NOTHING UINT32_MAX

/* What a recurrent state knows, in each of its blocks. */
struct knowledge {
    uint32_t part, n_tokens, rests_on;
    uint64_t sum; /* of these tokens */
};

/* What was written into a block: K and V of the tokens up to a span's end, for a group. */
struct label {
    struct prefix_hash hash;
    uint32_t group;
    bool is_written;
};

struct world {
    struct kv_manager *manager;
    struct block_pool *pool;
    const struct geometry *geometry;
    struct random random;
    struct actor actors[SEQUENCES];
    struct label labels[POOL_MAX];
    block_id fenced[POOL_MAX];
    uint32_t n_fenced;
    uint32_t n_drops;
    uint64_t n_found, n_refused, n_steps, n_snapshots;
};

static uint32_t below(struct world *w, uint32_t n)
{
    return (uint32_t)random_below(&w->random, n);
}

/* ---- states ---- */

static uint64_t sum_of(const struct actor *actor, uint32_t n_tokens)
{
    uint64_t sum = n_tokens;
    for (uint32_t i = 0; i < n_tokens; i++)
        sum = (sum ^ actor->tokens[i]) * 0x100000001b3ull;
    return sum;
}

static struct knowledge *knowledge_in(const struct world *w, block_id id)
{
    return (struct knowledge *)(void *)block_pool_data(w->pool, id);
}

static void write_state(const struct world *w, const struct actor *actor)
{
    const struct block_row state = block_table_state(&actor->table);
    cr_assert_eq(state.n, w->geometry->groups.n_state);
    for (uint32_t i = 0; i < state.n; i++) {
        cr_assert(!block_pool_is_cached(w->pool, state.ids[i]), "a snapshot is written to");
        *knowledge_in(w, state.ids[i]) = (struct knowledge){i, actor->n_kv, actor->rests_on,
                                                            sum_of(actor, actor->n_kv)};
    }
}

/* It knows the sequence's tokens. Before the first one it may be anything. */
static void check_state(const struct world *w, const struct actor *actor)
{
    const struct block_row state = block_table_state(&actor->table);
    for (uint32_t i = 0; i < state.n && actor->n_kv > 0; i++) {
        const struct knowledge *known = knowledge_in(w, state.ids[i]);
        cr_assert_eq(known->part, i);
        cr_assert_eq(known->n_tokens, actor->n_kv);
        cr_assert_eq(known->sum, sum_of(actor, actor->n_kv));
    }
}

/* It rests on what the snapshot rests on, of which nothing was dropped. */
static void take_state(const struct world *w, struct actor *actor)
{
    const struct block_row state = block_table_state(&actor->table);
    cr_assert_eq(state.n, actor->n_kv > 0 ? w->geometry->groups.n_state : 0);
    for (uint32_t i = 0; i < state.n; i++) {
        const uint32_t rests_on = knowledge_in(w, state.ids[i])->rests_on;
        cr_assert(rests_on == NOTHING || rests_on == w->n_drops, "what it rests on was dropped");
        actor->rests_on = rests_on;
    }
}

static void keep_snapshot(struct world *w, struct actor *actor)
{
    if (!kv_manager_snapshot_is_due(w->manager, &actor->table, actor->n_kv, below(w, 2)))
        return;
    cr_assert_eq(actor->n_kv % BLOCK, 0);
    kv_manager_keep_snapshot(w->manager, &actor->table, actor->hashes, actor->n_kv);
    w->n_snapshots++;
}

/* ---- what must hold ---- */

/* What its next query sees is what its own tokens make. */
static void check_seen(const struct world *w, const struct actor *actor)
{
    for (uint32_t group = 0; group < block_table_n_rows(&actor->table); group++) {
        const struct block_row row = block_table_row(&actor->table, group);
        const uint32_t window = cache_group_window(&w->geometry->groups, group);
        const uint32_t oldest = window && actor->n_kv + 1 > window ? actor->n_kv + 1 - window : 0;
        const uint32_t first = oldest / BLOCK;
        for (uint32_t span = first; span < actor->n_kv / BLOCK; span++) {
            cr_assert(span >= row.first && span < row.first + row.n, "group %u has no span %u",
                      group, span);
            const struct label *label = &w->labels[row.ids[span - row.first]];
            cr_assert(label->is_written && label->group == group);
            cr_assert_arr_eq(&label->hash, &actor->hashes[span], sizeof label->hash,
                             "group %u, span %u is of other tokens", group, span);
        }
    }
}

/* Each block is held by tables, fenced, cached or free; one that is in two tables is so for an equal prefix. */
static void check_books(const struct world *w)
{
    uint32_t n_holders[POOL_MAX] = {0}, n_used = 0;
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        const struct actor *actor = &w->actors[i];
        uint32_t n_blocks = 0;
        for (uint32_t group = 0; group < block_table_n_rows(&actor->table); group++) {
            const struct block_row row = block_table_row(&actor->table, group);
            n_blocks += row.n;
            for (uint32_t k = 0; k < row.n; k++)
                if (n_holders[row.ids[k]]++ > 0)
                    cr_assert(row.first + k < actor->n_kv / BLOCK, "what is written is its own");
        }
        const struct block_row state = block_table_state(&actor->table);
        for (uint32_t k = 0; k < state.n; k++)
            cr_assert_eq(n_holders[state.ids[k]]++, 0, "a state is nobody else's");
        n_blocks += state.n;
        cr_assert_eq(n_blocks, actor->table.n_blocks);
        cr_assert(actor->is_running || n_blocks == 0);
        if (actor->is_running) {
            check_seen(w, actor);
            check_state(w, actor);
        }
    }
    for (uint32_t i = 0; i < w->n_fenced; i++)
        n_holders[w->fenced[i]]++;
    for (uint32_t id = 0; id < kv_manager_size(w->manager); id++)
        n_used += n_holders[id] > 0;
    cr_assert_eq(kv_manager_count(w->manager, BLOCK_FREE) +
                     kv_manager_count(w->manager, BLOCK_CACHED),
                 kv_manager_size(w->manager) - n_used);
}

/* ---- what happens ---- */

static void hash(struct actor *actor)
{
    static const struct prefix_key KEY = {"0123456789abcdef"};
    prefix_hash_blocks(&KEY, "", 0, actor->tokens, actor->n_tokens, BLOCK, actor->hashes);
}

static void stop(struct world *w, struct actor *actor)
{
    kv_manager_free(w->manager, &actor->table);
    actor->is_running = false;
    actor->n_kv = actor->n_tokens = 0;
}

/* A refusal: there was no room for it. */
static void check_refusal(struct world *w, const struct actor *actor, uint32_t n_known)
{
    w->n_refused++;
    cr_assert_gt(kv_manager_needs(w->manager, n_known) + geometry_step_blocks(w->geometry, &WHOLE),
                 kv_manager_count(w->manager, BLOCK_FREE) +
                     kv_manager_count(w->manager, BLOCK_CACHED),
                 "%s refuses %u tokens beside %u blocks", kv_manager_name(w->manager), n_known,
                 actor->table.n_blocks);
}

static void start(struct world *w, struct actor *actor)
{
    actor->n_tokens = 1 + below(w, CONTEXT - 8);
    for (uint32_t i = 0; i < actor->n_tokens; i++)
        actor->tokens[i] = i < 40 ? below(w, 10) == 0 : i;
    hash(actor);
    uint32_t n_held;
    const uint32_t n_lookup = (actor->n_tokens - 1) / BLOCK;
    const uint32_t n_known = kv_manager_peek(w->manager, actor->hashes, n_lookup, &n_held);
    actor->n_kv = kv_manager_match(w->manager, &actor->table, actor->hashes, n_lookup);
    cr_assert_eq(actor->n_kv, n_known * BLOCK);
    w->n_found += n_known;
    actor->is_running = true;
    actor->is_foreign = below(w, 4) == 0;
    actor->rests_on = NOTHING;
    if (w->geometry->groups.n_state > 0)
        take_state(w, actor);
    if (actor->is_foreign)
        actor->rests_on = w->n_drops;
    const struct block_need need = {actor->n_kv, actor->n_kv, actor->n_tokens, false};
    if (kv_manager_prepare(w->manager, &actor->table, &need) == STATUS_OK)
        return;
    check_refusal(w, actor, actor->n_tokens);
    stop(w, actor);
}

static void write_spans(struct world *w, struct actor *actor, uint32_t first, uint32_t end)
{
    for (uint32_t group = 0; group < block_table_n_rows(&actor->table); group++) {
        const struct block_row row = block_table_row(&actor->table, group);
        for (uint32_t span = first; span < end; span++) {
            if (span < row.first || span >= row.first + row.n)
                continue;
            const block_id id = row.ids[span - row.first];
            cr_assert_eq(kv_manager_count(w->manager, BLOCK_FREE) > 0 ||
                             block_pool_state(w->pool, id) != BLOCK_FREE,
                         true);
            w->labels[id] = (struct label){actor->hashes[span], group, true};
            if (actor->is_foreign)
                kv_manager_set_origin(w->manager, &id, 1, 77);
        }
    }
}

/* A chunk of the prompt, or one token more. */
static void compute(struct world *w, struct actor *actor)
{
    const uint32_t n_left = actor->n_tokens - actor->n_kv;
    uint32_t n = n_left > BLOCK ? BLOCK * (1 + below(w, 3)) : n_left;
    if (n_left == 0) {
        if (actor->n_tokens == CONTEXT) {
            stop(w, actor);
            return;
        }
        actor->tokens[actor->n_tokens] = 1000 + below(w, 3);
        actor->n_tokens++;
        hash(actor);
        n = 1;
    }
    n = n < actor->n_tokens - actor->n_kv ? n : actor->n_tokens - actor->n_kv;
    const struct block_need need = {actor->n_kv, actor->n_kv + n, actor->n_tokens, false};
    if (kv_manager_prepare(w->manager, &actor->table, &need) != STATUS_OK) {
        check_refusal(w, actor, actor->n_tokens);
        stop(w, actor);
        return;
    }
    write_spans(w, actor, actor->n_kv / BLOCK, (actor->n_kv + n) / BLOCK);
    actor->n_kv += n;
    if (w->geometry->groups.n_state > 0)
        write_state(w, actor);
    kv_manager_keep(w->manager, &actor->table, actor->hashes, actor->n_kv / BLOCK);
    keep_snapshot(w, actor);
    if (below(w, 2) == 0)
        kv_manager_settle(w->manager, &actor->table, actor->n_kv,
                          below(w, 2) ? KV_NEXT_NOTHING : KV_NEXT_REPLY);
}

/* A reader goes on reading what its sequence has given back. */
static void fence_and_stop(struct world *w, struct actor *actor)
{
    const struct block_row row = block_table_row(&actor->table, 0);
    if (w->n_fenced > 0)
        return;
    w->n_fenced = row.n < POOL_MAX ? row.n : 0;
    memcpy(w->fenced, row.ids, w->n_fenced * sizeof *w->fenced);
    kv_manager_fence(w->manager, w->fenced, w->n_fenced);
    stop(w, actor);
}

/* What rests on that worker's tokens ends. */
static void drop(struct world *w)
{
    (void)kv_manager_drop(w->manager, 77);
    w->n_drops++;
    for (uint32_t i = 0; i < SEQUENCES && w->geometry->groups.n_state > 0; i++)
        if (w->actors[i].is_running && w->actors[i].rests_on != NOTHING)
            stop(w, &w->actors[i]);
}

static void act(struct world *w)
{
    struct actor *actor = &w->actors[below(w, SEQUENCES)];
    const uint32_t what = below(w, 100);
    if (what == 0)
        (void)kv_manager_flush(w->manager);
    if (what == 1)
        drop(w);
    if (what == 2 && w->n_fenced > 0) {
        kv_manager_unfence(w->manager, w->fenced, w->n_fenced);
        w->n_fenced = 0;
    }
    if (!actor->is_running)
        start(w, actor);
    else if (what < 6)
        stop(w, actor);
    else if (what < 8)
        fence_and_stop(w, actor);
    else
        compute(w, actor);
}

static void run(enum kv_manager_choice kind, const struct geometry *geometry, uint32_t n_blocks,
                uint64_t seed)
{
    struct world *w = calloc(1, sizeof *w);
    struct error error = {""};
    w->geometry = geometry;
    random_init(&w->random, seed);
    cr_assert_leq(n_blocks, POOL_MAX);
    cr_assert_eq(block_pool_create(n_blocks, geometry_block_bytes(geometry), &w->pool), STATUS_OK);
    cr_assert_eq(kv_manager_create(&(struct kv_manager_options){.kind = kind,
                                                                .geometry = geometry,
                                                                .pool = w->pool,
                                                                .step = STEP,
                                                                .prefix_cache = true,
                                                                .snapshot_tokens = 2 * BLOCK},
                                   &error, &w->manager),
                 STATUS_OK, "%s", error.text);
    for (uint32_t i = 0; i < SEQUENCES; i++)
        cr_assert_eq(kv_manager_init(w->manager, &w->actors[i].table), STATUS_OK);
    for (uint32_t i = 0; i < STEPS; i++) {
        act(w);
        check_books(w);
    }
    if (w->n_fenced > 0)
        kv_manager_unfence(w->manager, w->fenced, w->n_fenced);
    for (uint32_t i = 0; i < SEQUENCES; i++)
        kv_manager_finish(&w->actors[i].table);
    cr_assert_eq(kv_manager_left(w->manager), kv_manager_all(w->manager), "nobody holds anything");
    cr_assert_eq(kv_manager_caches(w->manager), kind == KV_MANAGER_PAGED);
    cr_assert_eq(w->n_found > 0, kind == KV_MANAGER_PAGED, "%llu spans found",
                 (unsigned long long)w->n_found);
    cr_assert_gt(w->n_refused, 0, "the pool was small");
    cr_assert_eq(w->n_snapshots > 0, kv_manager_keeps_states(w->manager));
    kv_manager_destroy(w->manager);
    cr_assert_eq(block_pool_count(w->pool, BLOCK_FREE), n_blocks);
    block_pool_destroy(w->pool);
    free(w);
}

Test(kv_manager, paged_of_one_group)
{
    run(KV_MANAGER_PAGED, &ONE, 40, 1);
}

Test(kv_manager, paged_of_windows)
{
    run(KV_MANAGER_PAGED, &WINDOWS, 70, 2);
}

Test(kv_manager, paged_of_windows_alone)
{
    run(KV_MANAGER_PAGED, &ALL_WINDOWS, 50, 3);
}

Test(kv_manager, paged_with_a_recurrent_state)
{
    run(KV_MANAGER_PAGED, &STATE, 50, 6);
}

Test(kv_manager, paged_of_windows_with_a_recurrent_state)
{
    run(KV_MANAGER_PAGED, &STATE_WINDOWS, 60, 7);
}

Test(kv_manager, contiguous_with_a_recurrent_state)
{
    run(KV_MANAGER_CONTIGUOUS, &STATE, 50, 8);
}

Test(kv_manager, contiguous_of_one_group)
{
    run(KV_MANAGER_CONTIGUOUS, &ONE, 40, 4);
}

Test(kv_manager, contiguous_of_windows)
{
    run(KV_MANAGER_CONTIGUOUS, &WINDOWS, 120, 5);
}

Test(kv_manager, pools_that_are_too_small_are_refused)
{
    static const struct {
        enum kv_manager_choice kind;
        uint32_t n_blocks, block_factor;
        const char *says;
    } CASES[] = {
        {KV_MANAGER_PAGED, 4, 1,
         "the pool has 4 blocks, and a step needs 4 beside those of sequences"},
        {KV_MANAGER_CONTIGUOUS, 35, 1,
         "the pool has 35 blocks, and kv_manager contiguous takes 36 for each sequence"},
        {KV_MANAGER_PAGED, 100, 2, "the pool's blocks are of another size"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct block_pool *pool;
        struct kv_manager *manager;
        struct error error = {""};
        cr_assert_eq(block_pool_create(CASES[i].n_blocks,
                                       CASES[i].block_factor * geometry_block_bytes(&WINDOWS),
                                       &pool),
                     STATUS_OK);
        cr_assert_eq(kv_manager_create(&(struct kv_manager_options){.kind = CASES[i].kind,
                                                                    .geometry = &WINDOWS,
                                                                    .pool = pool,
                                                                    .step = STEP},
                                       &error, &manager),
                     STATUS_INVALID_ARGUMENT);
        cr_assert(strstr(error.text, CASES[i].says), "%s", error.text);
        block_pool_destroy(pool);
    }
}

Test(kv_manager, says_what_a_sequence_needs_until_its_completion)
{
    struct block_pool *pool;
    struct kv_manager *manager;
    struct error error;
    struct kv_manager_options options = {.geometry = &WINDOWS, .step = STEP};
    cr_assert_eq(block_pool_create(80, geometry_block_bytes(&WINDOWS), &pool), STATUS_OK);
    options.pool = pool;
    cr_assert_eq(kv_manager_create(&options, &error, &manager), STATUS_OK);
    cr_assert_eq(kv_manager_all(manager), 80 - 4);
    cr_assert_eq(kv_manager_needs(manager, 1), 3);
    cr_assert_eq(kv_manager_needs(manager, CONTEXT), 12 + 4 + 2, "windows of 20 and 9 tokens");
    kv_manager_destroy(manager);
    options.kind = KV_MANAGER_CONTIGUOUS;
    cr_assert_eq(kv_manager_create(&options, &error, &manager), STATUS_OK);
    cr_assert_eq(kv_manager_all(manager), 72, "two whole places");
    cr_assert_eq(kv_manager_needs(manager, 1), 36);
    kv_manager_destroy(manager);
    block_pool_destroy(pool);
}
