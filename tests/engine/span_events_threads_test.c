/* span_events: readers on other threads have in the end what is there, and never see a torn one. */
#include "base/random.h"
#include "kvcache/span_events.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    SPANS = 64,
    TOKENS = 16,
    READERS = 2,
#ifdef KVFERRY_SANITIZED
    STEPS = 30000,
#else
    STEPS = 400000,
#endif
};

struct reader {
    struct span_events *events;
    atomic_bool *is_done;
    pthread_t thread;
    uint32_t pause; /* so many turns between two looks, so that it falls behind */
    uint64_t has[SPANS];
    uint32_t n, n_cleared;
    atomic_uint n_stored; /* that it has read so far */
    atomic_bool is_wrong;
};

static void take(struct reader *reader, const struct span_event *event)
{
    uint32_t at = 0;
    while (at < reader->n && reader->has[at] != event->hash.lo)
        at++;
    if (event->kind == SPAN_CLEARED) {
        reader->n = 0;
        reader->n_cleared++;
    } else if (event->kind == SPAN_REMOVED && at < reader->n) {
        reader->has[at] = reader->has[--reader->n];
    } else if (event->kind == SPAN_STORED) {
        reader->n_stored++;
        bool is_wrong = at < reader->n || reader->n == SPANS || event->n_tokens != TOKENS ||
                        event->hash.hi != ~event->hash.lo || event->parent.lo != event->hash.lo;
        for (uint32_t i = 0; i < event->n_tokens; i++)
            is_wrong |= event->token_ids[i] != (uint32_t)event->hash.lo + i;
        if (is_wrong)
            atomic_store(&reader->is_wrong, true);
        else
            reader->has[reader->n++] = event->hash.lo;
    }
}

static void *read_all(void *arg)
{
    struct reader *reader = arg;
    struct span_reader *from;
    struct span_event event;
    if (span_reader_create(reader->events, &from) != STATUS_OK)
        return NULL;
    for (bool is_last = false; !reader->is_wrong;) {
        const bool was_last = is_last;
        is_last = atomic_load(reader->is_done);
        while (!reader->is_wrong && span_reader_next(from, &event))
            take(reader, &event);
        for (volatile uint32_t i = 0; i < reader->pause; i++)
            ;
        if (was_last)
            break;
    }
    span_reader_destroy(from);
    return NULL;
}

/* Each has read while it was written. */
static bool have_read(struct reader readers[READERS])
{
    for (uint32_t i = 0; i < READERS; i++)
        if (atomic_load(&readers[i].n_stored) < 500 && !readers[i].is_wrong)
            return false;
    return true;
}

Test(span_events_threads, readers_have_what_is_there_and_nothing_torn)
{
    struct span_events *events;
    const struct span_events_options options = {
        .spans_max = SPANS, .events_max = 256, .block_tokens = TOKENS, .wipes = true};
    struct reader readers[READERS] = {0};
    uint64_t names[SPANS] = {0}, next = 1;
    uint32_t n = 0;
    atomic_bool is_done = false;
    struct random random;
    random_init(&random, 4);
    cr_assert_eq(span_events_create(&options, &events), STATUS_OK);
    for (uint32_t i = 0; i < READERS; i++) {
        readers[i].events = events;
        readers[i].is_done = &is_done;
        readers[i].pause = i * 20000;
        cr_assert_eq(pthread_create(&readers[i].thread, NULL, read_all, &readers[i]), 0);
    }
    for (int step = 0; step < STEPS || !have_read(readers); step++) {
        const uint32_t span = (uint32_t)random_below(&random, SPANS);
        uint32_t tokens[TOKENS];
        if (names[span] != 0) {
            span_events_remove(events, span);
            names[span] = 0;
            continue;
        }
        names[span] = next++;
        for (uint32_t i = 0; i < TOKENS; i++)
            tokens[i] = (uint32_t)names[span] + i;
        span_events_store(events, span, (struct prefix_hash){names[span], ~names[span]},
                          (struct prefix_hash){names[span], 0}, tokens, TOKENS);
    }
    atomic_store(&is_done, true);
    for (uint32_t i = 0; i < SPANS; i++)
        n += names[i] != 0;
    for (uint32_t i = 0; i < READERS; i++) {
        pthread_join(readers[i].thread, NULL);
        cr_assert(!readers[i].is_wrong);
        cr_assert_eq(readers[i].n, n);
        cr_assert_gt(readers[i].n_cleared, 0);
        for (uint32_t k = 0; k < readers[i].n; k++) {
            uint32_t span = 0;
            while (span < SPANS && names[span] != readers[i].has[k])
                span++;
            cr_assert_lt(span, SPANS);
        }
    }
    span_events_destroy(events);
}
