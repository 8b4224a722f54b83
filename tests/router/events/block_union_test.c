/* block_union: a block is there as long as one of several caches has it, by its tokens, whatever each cache calls it. */
#include "base/random.h"
#include "router/events/block_union.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { SOURCES = 3, TOKENS = 2, DEPTH = 4, LETTERS = 3, PATHS = 3 + 9 + 27 + 81, BLOCKS = 400 };

static struct block_union *make(uint32_t blocks_max)
{
    struct block_union *all;
    const struct block_union_options options = {.sources_max = SOURCES,
                                                .blocks_max = blocks_max,
                                                .events_max = 1024,
                                                .block_tokens = TOKENS,
                                                .key = {"0123456789abcdef"}};
    cr_assert_eq(block_union_create(&options, &all), STATUS_OK);
    return all;
}

/* A path is a chain of letters; its number is that of the one before it, times LETTERS, and one for its last letter. */
static uint32_t parent_of(uint32_t path)
{
    return path < LETTERS ? UINT32_MAX : path / LETTERS - 1;
}

/* Each source has its own name for it. */
static struct prefix_hash name(uint32_t source, uint32_t path)
{
    if (path == UINT32_MAX)
        return (struct prefix_hash){0};
    return (struct prefix_hash){1 + path * 8 + source, 7};
}

static bool store(struct block_union *all, uint32_t source, uint32_t path)
{
    const uint32_t tokens[TOKENS] = {path % LETTERS, 9};
    return block_union_store(all, source, name(source, path), name(source, parent_of(path)),
                             tokens);
}

/* What a reader has: blocks by their hash, with what they follow. */
struct seen {
    struct span_reader *reader;
    uint32_t n;
    struct {
        struct prefix_hash hash, parent;
        uint32_t letter;
    } blocks[BLOCKS];
};

static uint32_t find(const struct seen *seen, struct prefix_hash hash)
{
    for (uint32_t i = 0; i < seen->n; i++)
        if (prefix_hash_equal(seen->blocks[i].hash, hash))
            return i;
    return UINT32_MAX;
}

static void take(struct seen *seen)
{
    struct span_event event;
    while (span_reader_next(seen->reader, &event)) {
        const uint32_t at = find(seen, event.hash);
        if (event.kind == SPAN_CLEARED)
            seen->n = 0;
        if (event.kind == SPAN_REMOVED && at != UINT32_MAX)
            seen->blocks[at] = seen->blocks[--seen->n];
        if (event.kind != SPAN_STORED)
            continue;
        cr_assert_eq(at, UINT32_MAX, "stored twice");
        cr_assert_eq(event.n_tokens, TOKENS);
        cr_assert(event.parent.lo == 0 || find(seen, event.parent) != UINT32_MAX);
        seen->blocks[seen->n].hash = event.hash;
        seen->blocks[seen->n].parent = event.parent;
        seen->blocks[seen->n++].letter = event.token_ids[0];
    }
}

/* The path of a block that was seen, by letters. */
static uint32_t path_of(const struct seen *seen, uint32_t at)
{
    const uint32_t above = seen->blocks[at].parent.lo == 0 ? UINT32_MAX
                                                           : find(seen, seen->blocks[at].parent);
    return above == UINT32_MAX ? seen->blocks[at].letter
                               : (path_of(seen, above) + 1) * LETTERS + seen->blocks[at].letter;
}

static void expect(const struct seen *seen, bool has[SOURCES][PATHS])
{
    bool is_there[PATHS] = {false};
    uint32_t n = 0;
    for (uint32_t path = 0; path < PATHS; path++)
        for (uint32_t source = 0; source < SOURCES; source++)
            is_there[path] |= has[source][path];
    for (uint32_t path = 0; path < PATHS; path++)
        n += is_there[path];
    cr_assert_eq(seen->n, n);
    for (uint32_t i = 0; i < seen->n; i++) {
        const uint32_t path = path_of(seen, i);
        cr_assert(is_there[path]);
        is_there[path] = false; /* once */
    }
}

/* As a cache does: a block comes behind one that is there, and leaves when none is behind it. */
static void change(struct block_union *all, struct random *random, bool has[SOURCES][PATHS])
{
    const uint32_t source = (uint32_t)random_below(random, SOURCES);
    const uint32_t path = (uint32_t)random_below(random, PATHS);
    const uint32_t parent = parent_of(path);
    bool is_followed = false;
    for (uint32_t i = 0; i < PATHS; i++)
        is_followed |= has[source][i] && parent_of(i) == path;
    if (random_below(random, 200) == 0) {
        block_union_clear(all, source);
        memset(has[source], 0, PATHS * sizeof(bool));
    } else if (has[source][path] && random_below(random, 4) == 0) {
        cr_assert(store(all, source, path), "again is fine");
    } else if (has[source][path] && !is_followed) {
        block_union_remove(all, source, name(source, path));
        has[source][path] = false;
    } else if (!has[source][path] && (parent == UINT32_MAX || has[source][parent])) {
        cr_assert(store(all, source, path));
        has[source][path] = true;
    } else if (!has[source][path]) {
        cr_assert(!store(all, source, path), "it follows nothing that is known");
        block_union_remove(all, source, name(source, path));
    }
}

Test(block_union, random_changes_of_several_caches_are_those_of_one)
{
    for (uint64_t seed = 1; seed <= 5; seed++) {
        static struct seen seen;
        static bool has[SOURCES][PATHS];
        struct random random;
        struct block_union *all = make(BLOCKS);
        seen = (struct seen){0};
        memset(has, 0, sizeof has);
        random_init(&random, seed);
        cr_assert_eq(span_reader_create(block_union_spans(all), &seen.reader), STATUS_OK);
        for (int step = 0; step < 3000; step++) {
            change(all, &random, has);
            take(&seen);
            expect(&seen, has);
            cr_assert_eq(block_union_count(all), seen.n);
        }
        for (uint32_t source = 0; source < SOURCES; source++)
            block_union_clear(all, source);
        take(&seen);
        cr_assert_eq(seen.n, 0);
        span_reader_destroy(seen.reader);
        block_union_destroy(all);
    }
}

Test(block_union, what_has_no_room_is_left_out_until_there_is_some)
{
    struct block_union *all = make(3);
    cr_assert(store(all, 0, 0) && store(all, 1, 0) && store(all, 0, 1));
    cr_assert(!store(all, 1, 1), "a block counts for each source");
    cr_assert(!store(all, 0, LETTERS));
    cr_assert_eq(block_union_count(all), 2);
    block_union_remove(all, 1, name(1, 0));
    cr_assert_eq(block_union_count(all), 2);
    cr_assert(store(all, 0, LETTERS));
    cr_assert_eq(block_union_count(all), 3);
    block_union_remove(all, 2, name(2, 0)); /* it never had one */
    cr_assert_eq(block_union_count(all), 3);
    block_union_destroy(all);
    block_union_destroy(NULL);
}

Test(block_union, other_tokens_before_it_make_another_block)
{
    struct block_union *all = make(BLOCKS);
    cr_assert(store(all, 0, 0) && store(all, 0, 1));
    cr_assert(store(all, 0, LETTERS) &&
              store(all, 0, 2 * LETTERS)); /* the same letter behind each */
    cr_assert_eq(block_union_count(all), 4);
    cr_assert(store(all, 1, 0) && store(all, 1, LETTERS));
    cr_assert_eq(block_union_count(all), 4);
    block_union_destroy(all);
}

Test(block_union, bounds_of_0_are_refused)
{
    struct block_union *all = NULL;
    struct block_union_options options = {.sources_max = 1, .events_max = 2, .block_tokens = 1};
    cr_assert_eq(block_union_create(&options, &all), STATUS_INVALID_ARGUMENT);
    options = (struct block_union_options){.blocks_max = 1, .events_max = 2, .block_tokens = 1};
    cr_assert_eq(block_union_create(&options, &all), STATUS_INVALID_ARGUMENT);
    cr_assert_null(all);
}
