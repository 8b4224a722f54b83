/* span_events: a reader that takes events in order has what is there, at every number, however far behind it was; and it knows when
 * it was too far. */
#include "base/random.h"
#include "kvcache/span_events.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { SPANS = 24, EVENTS = 16, TOKENS = 4, READERS = 3, NAMES = 4096 };

/* What a reader has collected, by the low word of a hash. */
struct collected {
    struct span_reader *reader;
    bool has[NAMES];
    uint32_t token[NAMES]; /* the first one */
    uint64_t parent[NAMES];
    uint64_t number;
    uint32_t n_cleared, n_unknown;
};

static struct span_events *make(bool wipes)
{
    struct span_events *events;
    const struct span_events_options options = {
        .spans_max = SPANS, .events_max = EVENTS, .block_tokens = TOKENS, .wipes = wipes};
    cr_assert_eq(span_events_create(&options, &events), STATUS_OK);
    return events;
}

static void store(struct span_events *events, uint32_t span, uint64_t name, uint64_t parent)
{
    const uint32_t tokens[TOKENS] = {(uint32_t)name * 7, 1, 2, 3};
    span_events_store(events, span, (struct prefix_hash){name, name + 1},
                      (struct prefix_hash){parent, parent}, tokens, TOKENS);
}

/* Takes up to n events. Returns how many it took. */
static uint32_t collect(struct collected *c, uint32_t n)
{
    struct span_event event;
    uint32_t n_taken = 0;
    for (; n_taken < n && span_reader_next(c->reader, &event); n_taken++) {
        cr_assert(event.number == c->number || event.number == c->number + 1 ||
                  event.kind == SPAN_CLEARED);
        c->number = event.number;
        if (event.kind == SPAN_CLEARED) {
            memset(c->has, 0, sizeof c->has);
            c->n_cleared++;
        } else if (event.kind == SPAN_STORED) {
            cr_assert(!c->has[event.hash.lo], "stored twice");
            cr_assert(event.parent.lo == 0 || c->has[event.parent.lo], "behind what it follows");
            cr_assert_eq(event.hash.hi, event.hash.lo + 1);
            cr_assert_eq(event.n_tokens, TOKENS);
            cr_assert_eq(event.token_ids[0], (uint32_t)event.hash.lo * 7);
            cr_assert_eq(event.token_ids[TOKENS - 1], 3);
            c->has[event.hash.lo] = true;
        } else if (event.kind == SPAN_REMOVED) {
            c->n_unknown += !c->has[event.hash.lo];
            c->has[event.hash.lo] = false;
        }
    }
    return n_taken;
}

Test(span_events, a_bound_of_0_or_no_power_of_two_is_refused)
{
    struct span_events *events = NULL;
    struct span_events_options options = {.spans_max = 1, .events_max = 3, .block_tokens = 1};
    cr_assert_eq(span_events_create(&options, &events), STATUS_INVALID_ARGUMENT);
    options.events_max = 0;
    cr_assert_eq(span_events_create(&options, &events), STATUS_INVALID_ARGUMENT);
    options = (struct span_events_options){.spans_max = 0, .events_max = 2, .block_tokens = 1};
    cr_assert_eq(span_events_create(&options, &events), STATUS_INVALID_ARGUMENT);
    cr_assert_null(events);
    span_events_destroy(NULL);
    span_reader_destroy(NULL);
}

Test(span_events, a_reader_begins_with_what_is_there)
{
    struct span_events *events = make(false);
    struct collected c = {0};
    store(events, 3, 30, 0);
    store(events, 1, 31, 30);
    store(events, 0, 32, 31);
    span_events_remove(events, 0);
    cr_assert_eq(span_reader_create(events, &c.reader), STATUS_OK);
    cr_assert_eq(collect(&c, 1), 1);
    cr_assert_eq(c.n_cleared, 1);
    cr_assert_eq(span_reader_snapshot_left(c.reader), 2);
    cr_assert_eq(span_reader_number(c.reader), 4);
    cr_assert_eq(collect(&c, 100), 2);
    cr_assert(c.has[30] && c.has[31] && !c.has[32]);
    cr_assert_eq(collect(&c, 100), 0);
    store(events, 0, 33, 31);
    cr_assert_eq(collect(&c, 100), 1);
    cr_assert(c.has[33]);
    cr_assert_eq(c.n_cleared, 1);
    span_reader_destroy(c.reader);
    span_events_destroy(events);
}

Test(span_events, what_was_removed_before_it_was_told_is_gone)
{
    struct span_events *events = make(true);
    struct span_reader *reader;
    struct span_event event;
    cr_assert_eq(span_reader_create(events, &reader), STATUS_OK);
    cr_assert(span_reader_next(reader, &event));
    cr_assert_eq(event.kind, SPAN_CLEARED);
    store(events, 5, 9, 0);
    span_events_remove(events, 5);
    store(events, 5, 11, 0);
    cr_assert(span_reader_next(reader, &event));
    cr_assert_eq(event.kind, SPAN_GONE);
    cr_assert(span_reader_next(reader, &event));
    cr_assert_eq(event.kind, SPAN_REMOVED);
    cr_assert_eq(event.hash.lo, 9);
    cr_assert(span_reader_next(reader, &event));
    cr_assert_eq(event.kind, SPAN_STORED);
    cr_assert_eq(event.hash.lo, 11);
    cr_assert(!span_reader_next(reader, &event));
    span_reader_destroy(reader);
    span_events_destroy(events);
}

Test(span_events, a_reader_goes_on_where_it_was_as_long_as_the_ring_has_it)
{
    struct span_events *events = make(false);
    struct span_reader *reader;
    struct span_event event;
    cr_assert_eq(span_reader_create(events, &reader), STATUS_OK);
    for (uint32_t i = 0; i < EVENTS; i++)
        store(events, i, 100 + i, 0);
    cr_assert(!span_reader_resume(reader, EVENTS + 1), "there is no such number yet");
    cr_assert(span_reader_resume(reader, EVENTS));
    cr_assert(!span_reader_next(reader, &event));
    cr_assert(span_reader_resume(reader, 0), "the ring is just long enough");
    cr_assert(span_reader_next(reader, &event));
    cr_assert_eq(event.number, 1);
    cr_assert_eq(event.hash.lo, 100);
    store(events, EVENTS, 99, 0);
    cr_assert(!span_reader_resume(reader, 0));
    cr_assert(span_reader_next(reader, &event));
    cr_assert_eq(event.kind, SPAN_CLEARED);
    cr_assert_eq(span_reader_snapshot_left(reader), EVENTS + 1);
    cr_assert_eq(span_reader_overruns(reader), 0);
    span_reader_destroy(reader);
    span_events_destroy(events);
}

struct model {
    struct span_events *events;
    struct random random;
    uint64_t name[SPANS]; /* 0: it is not there */
    uint64_t parent[SPANS];
    uint64_t next;
};

/* A span comes behind one that is there, or one leaves that none follows. */
static void change(struct model *m)
{
    const uint32_t span = (uint32_t)random_below(&m->random, SPANS);
    if (m->name[span] == 0) {
        const uint32_t before = (uint32_t)random_below(&m->random, SPANS);
        m->parent[span] = m->name[before];
        m->name[span] = m->next++;
        store(m->events, span, m->name[span], m->parent[span]);
        return;
    }
    for (uint32_t i = 0; i < SPANS; i++)
        if (m->name[i] != 0 && m->parent[i] == m->name[span])
            return;
    span_events_remove(m->events, span);
    m->name[span] = 0;
}

static void expect_equal(const struct model *m, const struct collected *c)
{
    uint32_t n = 0, n_has = 0;
    for (uint32_t i = 0; i < SPANS; i++) {
        n += m->name[i] != 0;
        cr_assert(m->name[i] == 0 || c->has[m->name[i]]);
    }
    for (uint32_t i = 0; i < NAMES; i++)
        n_has += c->has[i];
    cr_assert_eq(n_has, n);
}

Test(span_events, random_changes_reach_readers_of_any_pace)
{
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct model m = {.events = make(seed % 2), .next = 1};
        static struct collected readers[READERS];
        uint32_t n_cleared = 0;
        uint64_t n_overruns = 0;
        random_init(&m.random, seed);
        memset(readers, 0, sizeof readers);
        for (int i = 0; i < READERS; i++)
            cr_assert_eq(span_reader_create(m.events, &readers[i].reader), STATUS_OK);
        for (int step = 0; step < 2000 && m.next < NAMES; step++) {
            change(&m);
            collect(&readers[0], UINT32_MAX); /* at once */
            expect_equal(&m, &readers[0]);
            collect(&readers[1], (uint32_t)random_below(&m.random, 3)); /* a snapshot in pieces */
            if (random_below(&m.random, 30) == 0) { /* seldom, so it is too late */
                collect(&readers[2], UINT32_MAX);
                expect_equal(&m, &readers[2]);
            }
        }
        for (int i = 0; i < READERS; i++) {
            collect(&readers[i], UINT32_MAX);
            expect_equal(&m, &readers[i]);
            n_cleared += readers[i].n_cleared;
            n_overruns += span_reader_overruns(readers[i].reader);
            span_reader_destroy(readers[i].reader);
        }
        cr_assert_eq(readers[0].n_cleared, 1);
        cr_assert_eq(readers[0].n_unknown, 0);
        cr_assert_gt(readers[2].n_cleared, 1);
        cr_assert_eq(n_cleared, n_overruns + READERS);
        span_events_destroy(m.events);
    }
}
