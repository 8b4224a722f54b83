/* prefix_tree: finds the longest known prefix, never evicts a block in use, and evicts leaves in the
 * order in which they became idle; what rests on an origin goes with it. */
#include "base/random.h"
#include "kvcache/prefix_tree.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static const struct cache_groups ONE_GROUP = {0};
static const struct prefix_key KEY = {"0123456789abcdef"};

Test(prefix_hash, depends_on_key_salt_position_and_every_token)
{
    uint32_t tokens[12] = {1, 2, 3, 4, 1, 2, 3, 4, 9, 9, 9, 9};
    struct prefix_hash a[3], b[3];
    prefix_hash_blocks(&KEY, "s", 1, tokens, 12, 4, a);
    cr_assert(a[0].lo != a[1].lo, "the same tokens further on are another prefix");

    prefix_hash_blocks(&KEY, "t", 1, tokens, 12, 4, b);
    cr_assert(a[0].lo != b[0].lo && a[2].lo != b[2].lo);

    struct prefix_key other = KEY;
    other.bytes[15] ^= 1;
    prefix_hash_blocks(&other, "s", 1, tokens, 12, 4, b);
    cr_assert(a[0].hi != b[0].hi);

    tokens[3] ^= 1;
    prefix_hash_blocks(&KEY, "s", 1, tokens, 12, 4, b);
    cr_assert(a[0].lo != b[0].lo && a[1].lo != b[1].lo && a[2].lo != b[2].lo);
}

Test(prefix_hash, the_same_tokens_under_another_numerics_id_are_other_blocks)
{
    static const char *const IDS[] = {"cpu-f32-fma-fma-compute-asis-1",
                                      "cpu-f32-fma-fma-compute-asis-2"};
    uint32_t tokens[4] = {1, 2, 3, 4};
    struct prefix_key keys[2] = {prefix_key_for(&KEY, IDS[0]), prefix_key_for(&KEY, IDS[1])};
    struct prefix_key again = prefix_key_for(&KEY, IDS[0]), other = KEY;
    struct prefix_hash a, b;
    cr_assert_arr_eq(&again, &keys[0], sizeof again);
    prefix_hash_blocks(&keys[0], "s", 1, tokens, 4, 4, &a);
    prefix_hash_blocks(&keys[1], "s", 1, tokens, 4, 4, &b);
    cr_assert(a.lo != b.lo && a.hi != b.hi);
    other.bytes[0] ^= 1;
    again = prefix_key_for(&other, IDS[0]);
    cr_assert(memcmp(&again, &keys[0], sizeof again) != 0, "it is of the secret, too");
}

Test(prefix_hash, ignores_the_tokens_of_a_block_that_is_not_whole)
{
    uint32_t tokens[7] = {1, 2, 3, 4, 5, 6, 7};
    struct prefix_hash hashes[2] = {{0, 0}, {77, 78}};
    prefix_hash_blocks(&KEY, "", 0, tokens, 7, 4, hashes);
    cr_assert_eq(hashes[1].lo, 77);
    cr_assert_eq(hashes[1].hi, 78);
}

Test(prefix_tree, a_known_prefix_keeps_its_first_block)
{
    struct block_pool *pool;
    struct prefix_tree *tree;
    cr_assert_eq(block_pool_create(8, 64, &pool), STATUS_OK);
    cr_assert_eq(prefix_tree_create(pool, &ONE_GROUP, 8, 16, &tree), STATUS_OK);
    struct prefix_hash hashes[2] = {{1, 1}, {2, 2}};
    block_id first[2], second[2], found[2];
    cr_assert_eq(block_pool_acquire(pool, 2, first), STATUS_OK);
    cr_assert_eq(block_pool_acquire(pool, 2, second), STATUS_OK);
    prefix_tree_insert(tree, hashes, 1, first, 1);
    prefix_tree_insert(tree, hashes, 2, second, 2);

    cr_assert_eq(prefix_tree_match(tree, hashes, 2, found, 2), 2);
    cr_assert_eq(found[0], first[0]);
    cr_assert_eq(found[1], second[1]);
    cr_assert_not(block_pool_is_cached(pool, second[0]));

    block_pool_release(pool, found, 2);
    block_pool_release(pool, first, 2);
    block_pool_release(pool, second, 2);
    cr_assert_eq(block_pool_count(pool, BLOCK_CACHED), 2);
    prefix_tree_destroy(tree);
    cr_assert_eq(block_pool_count(pool, BLOCK_FREE), 8);
    block_pool_destroy(pool);
}

Test(prefix_tree, a_pin_below_keeps_everything_above)
{
    struct block_pool *pool;
    struct prefix_tree *tree;
    cr_assert_eq(block_pool_create(4, 64, &pool), STATUS_OK);
    cr_assert_eq(prefix_tree_create(pool, &ONE_GROUP, 8, 16, &tree), STATUS_OK);
    struct prefix_hash hashes[3] = {{1, 0}, {2, 0}, {3, 0}};
    block_id ids[3];
    cr_assert_eq(block_pool_acquire(pool, 3, ids), STATUS_OK);
    prefix_tree_insert(tree, hashes, 3, ids, 3);
    block_pool_pin(pool, &ids[1], 1);
    block_pool_release(pool, ids, 3);

    uint32_t n_held;
    cr_assert_eq(prefix_tree_peek_held(tree, hashes, 3, UINT32_MAX, &n_held), 3);
    cr_assert_eq(n_held, 1, "a pin holds what is pinned");
    cr_assert_eq(prefix_tree_evict(tree, 4), 1);
    cr_assert_eq(prefix_tree_peek(tree, hashes, 3), 2);
    block_pool_unpin(pool, &ids[1], 1);
    cr_assert_eq(prefix_tree_evict(tree, 4), 2);
    prefix_tree_destroy(tree);
    block_pool_destroy(pool);
}

Test(prefix_tree, what_stands_above_held_blocks_can_be_had_at_their_cost)
{
    struct block_pool *pool;
    struct prefix_tree *tree;
    cr_assert_eq(block_pool_create(6, 64, &pool), STATUS_OK);
    cr_assert_eq(prefix_tree_create(pool, &ONE_GROUP, 8, 16, &tree), STATUS_OK);
    const struct prefix_hash hashes[3] = {{1, 0}, {2, 0}, {3, 0}}, other = {9, 0};
    block_id first, longer[3], idle;
    uint32_t n_held;
    cr_assert_eq(block_pool_acquire(pool, 1, &first), STATUS_OK);
    cr_assert_eq(block_pool_acquire(pool, 3, longer), STATUS_OK);
    cr_assert_eq(block_pool_acquire(pool, 1, &idle), STATUS_OK);
    prefix_tree_insert(tree, hashes, 1, &first, 1);
    prefix_tree_insert(tree, hashes, 3, longer, 3); /* longer[0] is a copy of what first holds */
    prefix_tree_insert(tree, &other, 1, &idle, 1);
    block_pool_release(pool, &first, 1);
    block_pool_release(pool, &idle, 1);
    cr_assert_eq(block_pool_state(pool, first), BLOCK_CACHED);
    cr_assert_eq(prefix_tree_peek_held(tree, hashes, 3, UINT32_MAX, &n_held), 3);
    cr_assert_eq(n_held, 2);
    cr_assert_eq(prefix_tree_peek_held(tree, &other, 1, UINT32_MAX, &n_held), 1);
    cr_assert_eq(n_held, 0);

    cr_assert_eq(prefix_tree_evict(tree, 3), 1, "a leaf goes, and nothing above held ones");
    cr_assert_eq(block_pool_count(pool, BLOCK_FREE), 2);
    cr_assert_eq(prefix_tree_uproot(tree, 2), 0, "enough is free");
    cr_assert_eq(prefix_tree_uproot(tree, 3), 3);
    cr_assert_eq(block_pool_state(pool, first), BLOCK_FREE);
    cr_assert_eq(block_pool_count(pool, BLOCK_ACTIVE), 3, "who holds what was below keeps it");
    cr_assert_eq(prefix_tree_count(tree), 0);
    cr_assert_eq(prefix_tree_uproot(tree, 6), 0);
    block_pool_release(pool, longer, 3);
    prefix_tree_destroy(tree);
    block_pool_destroy(pool);
}

/* Tree and pool of 8 blocks; hashes of a chain of 4. */
struct chain {
    struct block_pool *pool;
    struct prefix_tree *tree;
    struct prefix_hash hashes[4];
};

static void chain_open(struct chain *chain)
{
    *chain = (struct chain){.hashes = {{1, 0}, {2, 0}, {3, 0}, {4, 0}}};
    cr_assert_eq(block_pool_create(8, 64, &chain->pool), STATUS_OK);
    cr_assert_eq(prefix_tree_create(chain->pool, &ONE_GROUP, 8, 16, &chain->tree), STATUS_OK);
}

static void chain_close(struct chain *chain)
{
    prefix_tree_destroy(chain->tree);
    cr_assert_eq(block_pool_count(chain->pool, BLOCK_FREE), 8, "every block was given back");
    block_pool_destroy(chain->pool);
}

/* True: it has another number than before. */
static bool has_changed(const struct chain *chain, uint64_t *changes)
{
    uint64_t before = *changes;
    *changes = prefix_tree_changes(chain->tree);
    return *changes != before;
}

Test(prefix_tree, says_when_a_look_may_find_something_else)
{
    struct chain chain;
    block_id ids[4], found[2];
    uint32_t n_held;
    uint64_t changes = 0;
    chain_open(&chain);
    cr_assert(has_changed(&chain, &changes), "0 is nobody's number");
    cr_assert_eq(block_pool_acquire(chain.pool, 4, ids), STATUS_OK);
    cr_assert_not(has_changed(&chain, &changes), "the tree does not know them");
    prefix_tree_insert(chain.tree, chain.hashes, 2, ids, 2);
    cr_assert(has_changed(&chain, &changes));
    prefix_tree_insert(chain.tree, chain.hashes, 2, ids, 2);
    cr_assert_eq(prefix_tree_peek_held(chain.tree, chain.hashes, 2, UINT32_MAX, &n_held), 2);
    cr_assert_eq(prefix_tree_match(chain.tree, chain.hashes, 2, found, 2), 2);
    block_pool_release(chain.pool, found, 2);
    block_pool_release(chain.pool, ids + 2, 2);
    cr_assert_not(has_changed(&chain, &changes), "somebody held them before, and does now");

    block_pool_release(chain.pool, ids, 2);
    cr_assert(has_changed(&chain, &changes), "nobody holds them");
    cr_assert_eq(prefix_tree_match(chain.tree, chain.hashes, 1, found, 1), 1);
    cr_assert(has_changed(&chain, &changes), "somebody does again");
    cr_assert_eq(prefix_tree_evict(chain.tree, 8), 1);
    cr_assert(has_changed(&chain, &changes));
    block_pool_set_origin(chain.pool, found, 1, 77);
    cr_assert_eq(prefix_tree_drop(chain.tree, 77), 1);
    cr_assert(has_changed(&chain, &changes), "a held one has gone");
    block_pool_release(chain.pool, found, 1);
    cr_assert_not(has_changed(&chain, &changes));
    chain_close(&chain);
}

Test(prefix_tree, forgets_a_prefix_and_what_is_below_it_in_use_or_not)
{
    struct chain chain;
    block_id ids[4], aside;
    const struct prefix_hash other = {9, 9};
    chain_open(&chain);
    cr_assert_eq(block_pool_acquire(chain.pool, 4, ids), STATUS_OK);
    cr_assert_eq(block_pool_acquire(chain.pool, 1, &aside), STATUS_OK);
    prefix_tree_insert(chain.tree, chain.hashes, 4, ids, 4);
    prefix_tree_insert(chain.tree, &other, 1, &aside, 1);
    block_pool_release(chain.pool, ids, 3); /* the last one is in use */
    cr_assert_eq(prefix_tree_forget(chain.tree, (struct prefix_hash){5, 6}), 0, "it is not known");
    cr_assert_eq(prefix_tree_forget(chain.tree, chain.hashes[1]), 3);
    cr_assert_eq(prefix_tree_peek(chain.tree, chain.hashes, 4), 1);
    cr_assert_eq(prefix_tree_peek(chain.tree, &other, 1), 1);
    cr_assert_eq(block_pool_count(chain.pool, BLOCK_ACTIVE), 2, "who holds it keeps it");
    block_pool_release(chain.pool, ids + 3, 1);
    block_pool_release(chain.pool, &aside, 1);
    chain_close(&chain);
}

Test(prefix_tree, drops_an_origin_and_all_that_rests_on_it_in_use_or_not)
{
    struct chain chain;
    block_id ids[4], aside;
    const struct prefix_hash other = {9, 9};
    chain_open(&chain);
    cr_assert_eq(block_pool_acquire(chain.pool, 4, ids), STATUS_OK);
    cr_assert_eq(block_pool_acquire(chain.pool, 1, &aside), STATUS_OK);
    block_pool_set_origin(chain.pool, &ids[1], 1, 77);
    block_pool_set_origin(chain.pool, &ids[2], 1, 88); /* read from elsewhere, for this chain */
    prefix_tree_insert(chain.tree, chain.hashes, 4, ids, 4);
    prefix_tree_insert(chain.tree, &other, 1, &aside, 1);
    block_pool_release(chain.pool, ids, 3); /* the last one is in use */

    cr_assert_eq(prefix_tree_drop(chain.tree, 66), 0);
    cr_assert_eq(prefix_tree_drop(chain.tree, 77), 3);
    cr_assert_eq(prefix_tree_peek(chain.tree, chain.hashes, 4), 1);
    cr_assert_eq(prefix_tree_peek(chain.tree, &other, 1), 1);
    cr_assert_eq(block_pool_count(chain.pool, BLOCK_CACHED), 1, "what is left above is idle");
    cr_assert_eq(block_pool_state(chain.pool, ids[3]), BLOCK_ACTIVE);
    cr_assert_eq(block_pool_count(chain.pool, BLOCK_FREE), 5);
    block_pool_release(chain.pool, &ids[3], 1);
    block_pool_release(chain.pool, &aside, 1);
    chain_close(&chain);
}

Test(prefix_tree, a_block_that_is_handed_out_again_has_no_origin)
{
    struct chain chain;
    block_id ids[8];
    chain_open(&chain);
    cr_assert_eq(block_pool_acquire(chain.pool, 8, ids), STATUS_OK);
    block_pool_set_origin(chain.pool, ids, 8, 77);
    block_pool_release(chain.pool, ids, 8);
    cr_assert_eq(block_pool_acquire(chain.pool, 8, ids), STATUS_OK);
    for (int i = 0; i < 8; i++)
        cr_assert_eq(block_pool_origin(chain.pool, ids[i]), 0);
    block_pool_release(chain.pool, ids, 8);
    chain_close(&chain);
}

/* Two requests of one prompt at once: one has its first block from a worker that the tree's is not of. */
Test(prefix_tree, adds_nothing_that_rests_on_an_origin_where_it_would_not_be_dropped_with_it)
{
    static const struct {
        uint64_t first, second; /* origins of the two first blocks */
        uint32_t n_known;       /* of the second's two */
    } CASES[] = {{0, 0, 2}, {77, 77, 2}, {77, 0, 2}, {0, 77, 1}, {88, 77, 1}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct chain chain;
        block_id first, second[2];
        chain_open(&chain);
        cr_assert_eq(block_pool_acquire(chain.pool, 1, &first), STATUS_OK);
        cr_assert_eq(block_pool_acquire(chain.pool, 2, second), STATUS_OK);
        block_pool_set_origin(chain.pool, &first, 1, CASES[i].first);
        block_pool_set_origin(chain.pool, second, 1, CASES[i].second);
        prefix_tree_insert(chain.tree, chain.hashes, 1, &first, 1);
        prefix_tree_insert(chain.tree, chain.hashes, 2, second, 2);
        cr_assert_eq(prefix_tree_peek(chain.tree, chain.hashes, 2), CASES[i].n_known, "case %zu",
                     i);
        block_pool_release(chain.pool, &first, 1);
        block_pool_release(chain.pool, second, 2);
        chain_close(&chain);
    }
}

/* ---- against a naive model: a list of prefixes as strings of letters ---- */

enum { N_BLOCKS = 40, DEPTH = 6, N_USERS = 6, N_STEPS = 20000, N_ORIGINS = 4 };

struct entry {
    char prefix[DEPTH + 1]; /* "" : none */
    uint64_t idle_since;    /* of its block; 0: in use */
};

struct user {
    uint32_t n;
    block_id ids[DEPTH];
};

struct world {
    struct block_pool *pool;
    struct prefix_tree *tree;
    struct random random;
    struct entry entries[N_BLOCKS]; /* by block */
    struct user users[N_USERS];
    uint64_t clock;
};

/* The hash of a prefix: 2 bits a letter, spread so that slots collide often. */
static void hashes_of(const char *prompt, uint32_t n, struct prefix_hash *hashes_out)
{
    uint64_t value = 1;
    for (uint32_t i = 0; i < n; i++) {
        value = value * 4 + (uint64_t)(prompt[i] - 'a');
        hashes_out[i] = (struct prefix_hash){value % 5, value};
    }
}

static block_id model_find(const struct world *w, const char *prompt, uint32_t n)
{
    for (block_id id = 0; id < N_BLOCKS; id++)
        if (strlen(w->entries[id].prefix) == n && memcmp(w->entries[id].prefix, prompt, n) == 0)
            return id;
    return UINT32_MAX;
}

static bool has_child(const struct world *w, const char *prefix)
{
    size_t n = strlen(prefix);
    for (block_id id = 0; id < N_BLOCKS; id++)
        if (strlen(w->entries[id].prefix) == n + 1 && memcmp(w->entries[id].prefix, prefix, n) == 0)
            return true;
    return false;
}

/* Follows the pool: what was in use and is CACHED now has become idle, in the order of ids. */
static void note_idle(struct world *w, const block_id *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct entry *entry = &w->entries[ids[i]];
        bool idle = block_pool_state(w->pool, ids[i]) == BLOCK_CACHED;
        if (entry->prefix[0] && idle && entry->idle_since == 0)
            entry->idle_since = ++w->clock;
        if (!idle)
            entry->idle_since = 0;
    }
}

static uint32_t model_evict(struct world *w, uint32_t n_free, uint32_t wanted)
{
    uint32_t evicted = 0;
    for (; n_free < wanted; n_free++, evicted++) {
        struct entry *oldest = NULL;
        for (block_id id = 0; id < N_BLOCKS; id++) {
            struct entry *e = &w->entries[id];
            if (e->prefix[0] && e->idle_since && !has_child(w, e->prefix) &&
                (!oldest || e->idle_since < oldest->idle_since))
                oldest = e;
        }
        if (!oldest)
            break;
        *oldest = (struct entry){0};
    }
    return evicted;
}

static void compare(struct world *w)
{
    uint32_t n_nodes = 0, n_idle = 0;
    for (block_id id = 0; id < N_BLOCKS; id++) {
        const struct entry *e = &w->entries[id];
        cr_assert_eq(block_pool_is_cached(w->pool, id), e->prefix[0] != '\0', "block %u", id);
        n_nodes += e->prefix[0] != '\0';
        n_idle += e->prefix[0] && e->idle_since != 0;
    }
    cr_assert_eq(prefix_tree_count(w->tree), n_nodes);
    cr_assert_eq(block_pool_count(w->pool, BLOCK_CACHED), n_idle);
}

static void leave(struct world *w, struct user *user)
{
    block_pool_release(w->pool, user->ids, user->n);
    note_idle(w, user->ids, user->n);
    user->n = 0;
}

/* One request's life: match, evict for the rest, acquire, insert. */
static void arrive(struct world *w, struct user *user)
{
    char prompt[DEPTH];
    struct prefix_hash hashes[DEPTH];
    uint32_t n = 1 + (uint32_t)random_below(&w->random, DEPTH), known = 0;
    for (uint32_t i = 0; i < n; i++)
        prompt[i] = (char)('a' + random_below(&w->random, 3));
    hashes_of(prompt, n, hashes);

    while (known < n && model_find(w, prompt, known + 1) != UINT32_MAX)
        known++;
    cr_assert_eq(prefix_tree_peek(w->tree, hashes, n), known);
    uint32_t n_held, n_cached = block_pool_count(w->pool, BLOCK_CACHED);
    cr_assert_eq(prefix_tree_peek_held(w->tree, hashes, n, UINT32_MAX, &n_held), known);
    cr_assert_leq(n_held, known);
    cr_assert_eq(prefix_tree_match(w->tree, hashes, n, user->ids, n), known);
    cr_assert_eq(block_pool_count(w->pool, BLOCK_CACHED), n_cached - (known - n_held),
                 "what was held already costs nothing");
    for (uint32_t i = 0; i < known; i++)
        cr_assert_eq(user->ids[i], model_find(w, prompt, i + 1));
    note_idle(w, user->ids, known);

    uint32_t n_free = block_pool_count(w->pool, BLOCK_FREE);
    uint32_t expected = model_evict(w, n_free, n - known);
    cr_assert_eq(prefix_tree_evict(w->tree, n - known), expected);
    user->n = known;
    if (block_pool_acquire(w->pool, n - known, user->ids + known) != STATUS_OK) {
        leave(w, user);
        return;
    }
    user->n = n;
    if (random_below(&w->random, 4) == 0)
        return; /* never finished: nothing is cached */
    if (random_below(&w->random, 2) == 0)
        block_pool_set_origin(w->pool, user->ids + known, n - known,
                              1 + random_below(&w->random, N_ORIGINS));
    prefix_tree_insert(w->tree, hashes, n, user->ids, n);
    for (uint32_t i = known; i < n; i++)
        snprintf(w->entries[user->ids[i]].prefix, DEPTH + 1, "%.*s", (int)i + 1, prompt);
}

static void drop(struct world *w)
{
    uint64_t origin = 1 + random_below(&w->random, N_ORIGINS);
    bool is_dropped[N_BLOCKS] = {false};
    uint32_t n_dropped = 0;
    for (block_id id = 0; id < N_BLOCKS; id++) {
        const char *prefix = w->entries[id].prefix;
        for (uint32_t n = 1; n <= strlen(prefix) && !is_dropped[id]; n++)
            is_dropped[id] = block_pool_origin(w->pool, model_find(w, prefix, n)) == origin;
        n_dropped += is_dropped[id];
    }
    for (block_id id = 0; id < N_BLOCKS; id++)
        if (is_dropped[id])
            w->entries[id] = (struct entry){0};
    cr_assert_eq(prefix_tree_drop(w->tree, origin), n_dropped);
}

Test(prefix_tree, random_requests_agree_with_a_naive_model)
{
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct world w = {0};
        random_init(&w.random, seed);
        cr_assert_eq(block_pool_create(N_BLOCKS, 64, &w.pool), STATUS_OK);
        cr_assert_eq(prefix_tree_create(w.pool, &ONE_GROUP, 8, 16, &w.tree), STATUS_OK);
        for (int step = 0; step < N_STEPS; step++) {
            struct user *user = &w.users[random_below(&w.random, N_USERS)];
            if (random_below(&w.random, 50) == 0)
                drop(&w);
            else if (user->n > 0)
                leave(&w, user);
            else
                arrive(&w, user);
            compare(&w);
        }
        for (int i = 0; i < N_USERS; i++)
            leave(&w, &w.users[i]);
        uint32_t cached = prefix_tree_count(w.tree);
        cr_assert_eq(block_pool_count(w.pool, BLOCK_CACHED), cached);
        cr_assert_eq(prefix_tree_evict(w.tree, N_BLOCKS), cached);
        cr_assert_eq(block_pool_count(w.pool, BLOCK_FREE), N_BLOCKS);
        prefix_tree_destroy(w.tree);
        block_pool_destroy(w.pool);
    }
}
