#include "kvcache/span_events.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/*
 * A seqlock without fences: the writer takes the mark away, stores the words with release, and sets the new mark with release.
 * A reader that loads the words with acquire and sees one of a later write sees the missing mark, too.
 */
struct words_hash {
    _Atomic uint64_t lo, hi;
};

struct told_span {
    _Atomic uint64_t stored; /* the number of its event; 0: it is not there */
    struct words_hash hash, parent;
    _Atomic uint32_t n_tokens;
};

struct told_event {
    _Atomic uint64_t number; /* 0: none, or being written */
    _Atomic uint32_t span;   /* of a stored one; SPAN_NONE: a removal */
    struct words_hash hash;  /* of a removal */
};

#define SPAN_NONE UINT32_MAX

struct span_events {
    struct span_events_options options;
    _Atomic uint64_t last;
    struct told_span *spans;   /* [spans_max] */
    _Atomic uint32_t *tokens;  /* [spans_max][block_tokens] */
    struct told_event *events; /* [events_max] by number */
};

struct snapshot_span {
    uint64_t stored;
    uint32_t span;
};

struct span_reader {
    const struct span_events *events;
    uint64_t number; /* of the last event that was told */
    bool restarts;
    uint32_t n, at;              /* of the snapshot */
    struct snapshot_span *spans; /* [spans_max] of the snapshot */
    uint32_t *token_ids;         /* [block_tokens] */
    uint64_t n_overruns;
};

/* ---- creation ---- */

uint64_t span_events_bytes(const struct span_events_options *options)
{
    return sizeof(struct span_events) +
           options->spans_max * (sizeof(struct told_span) + 4ull * options->block_tokens) +
           (uint64_t)options->events_max * sizeof(struct told_event);
}

enum status span_events_create(const struct span_events_options *options,
                               struct span_events **events_out)
{
    const uint32_t events_max = options->events_max;
    if (options->spans_max == 0 || options->block_tokens == 0 || events_max == 0 ||
        (events_max & (events_max - 1)) != 0)
        return STATUS_INVALID_ARGUMENT;
    struct span_events *events = calloc(1, sizeof *events);
    if (!events)
        return STATUS_NO_MEMORY;
    events->options = *options;
    events->spans = calloc(options->spans_max, sizeof *events->spans);
    events->tokens = calloc((size_t)options->spans_max * options->block_tokens,
                            sizeof *events->tokens);
    events->events = calloc(events_max, sizeof *events->events);
    if (!events->spans || !events->tokens || !events->events) {
        span_events_destroy(events);
        return STATUS_NO_MEMORY;
    }
    *events_out = events;
    return STATUS_OK;
}

void span_events_destroy(struct span_events *events)
{
    if (!events)
        return;
    free(events->spans);
    free(events->tokens);
    free(events->events);
    free(events);
}

/* ---- the writer ---- */

static void set_hash(struct words_hash *words, struct prefix_hash hash)
{
    atomic_store_explicit(&words->lo, hash.lo, memory_order_release);
    atomic_store_explicit(&words->hi, hash.hi, memory_order_release);
}

static struct prefix_hash get_hash(const struct words_hash *words)
{
    return (struct prefix_hash){.lo = atomic_load_explicit(&words->lo, memory_order_acquire),
                                .hi = atomic_load_explicit(&words->hi, memory_order_acquire)};
}

static _Atomic uint32_t *tokens_of(const struct span_events *events, uint32_t span)
{
    return events->tokens + (size_t)span * events->options.block_tokens;
}

/* The event whose span is as it says already. */
static void add_event(struct span_events *events, uint64_t number, uint32_t span,
                      struct prefix_hash hash)
{
    struct told_event *event = &events->events[number & (events->options.events_max - 1)];
    atomic_store_explicit(&event->number, 0, memory_order_relaxed);
    atomic_store_explicit(&event->span, span, memory_order_release);
    set_hash(&event->hash, hash);
    atomic_store_explicit(&event->number, number, memory_order_release);
    atomic_store_explicit(&events->last, number, memory_order_release);
}

void span_events_store(struct span_events *events, uint32_t span, struct prefix_hash hash,
                       struct prefix_hash parent, const uint32_t *token_ids, uint32_t n_tokens)
{
    assert(span < events->options.spans_max && n_tokens <= events->options.block_tokens);
    struct told_span *told = &events->spans[span];
    _Atomic uint32_t *tokens = tokens_of(events, span);
    const uint64_t number = span_events_last(events) + 1;
    assert(atomic_load_explicit(&told->stored, memory_order_relaxed) == 0 && "it is not there");
    set_hash(&told->hash, hash);
    set_hash(&told->parent, parent);
    atomic_store_explicit(&told->n_tokens, n_tokens, memory_order_release);
    for (uint32_t i = 0; i < n_tokens; i++)
        atomic_store_explicit(&tokens[i], token_ids[i], memory_order_release);
    atomic_store_explicit(&told->stored, number, memory_order_release);
    add_event(events, number, span, hash);
}

void span_events_remove(struct span_events *events, uint32_t span)
{
    assert(span < events->options.spans_max);
    struct told_span *told = &events->spans[span];
    _Atomic uint32_t *tokens = tokens_of(events, span);
    const struct prefix_hash hash = get_hash(&told->hash);
    const uint32_t n_tokens = atomic_load_explicit(&told->n_tokens, memory_order_relaxed);
    assert(atomic_load_explicit(&told->stored, memory_order_relaxed) != 0 && "it is there");
    atomic_store_explicit(&told->stored, 0, memory_order_relaxed);
    for (uint32_t i = 0; events->options.wipes && i < n_tokens; i++)
        atomic_store_explicit(&tokens[i], 0, memory_order_release);
    add_event(events, span_events_last(events) + 1, SPAN_NONE, hash);
}

uint64_t span_events_last(const struct span_events *events)
{
    return atomic_load_explicit(&events->last, memory_order_acquire);
}

uint32_t span_events_block_tokens(const struct span_events *events)
{
    return events->options.block_tokens;
}

/* ---- readers ---- */

enum status span_reader_create(const struct span_events *events, struct span_reader **reader_out)
{
    struct span_reader *reader = calloc(1, sizeof *reader);
    if (!reader)
        return STATUS_NO_MEMORY;
    reader->events = events;
    reader->restarts = true;
    reader->spans = malloc(events->options.spans_max * sizeof *reader->spans);
    reader->token_ids = malloc(events->options.block_tokens * sizeof *reader->token_ids);
    if (!reader->spans || !reader->token_ids) {
        span_reader_destroy(reader);
        return STATUS_NO_MEMORY;
    }
    *reader_out = reader;
    return STATUS_OK;
}

void span_reader_destroy(struct span_reader *reader)
{
    if (!reader)
        return;
    free(reader->spans);
    free(reader->token_ids);
    free(reader);
}

void span_reader_restart(struct span_reader *reader)
{
    reader->restarts = true;
    reader->n = reader->at = 0;
}

/* The event behind that number is in the ring, or will be the next. */
static bool is_in_ring(const struct span_events *events, uint64_t number)
{
    const uint64_t last = span_events_last(events);
    return number <= last && last - number <= events->options.events_max;
}

bool span_reader_resume(struct span_reader *reader, uint64_t number)
{
    span_reader_restart(reader);
    if (!is_in_ring(reader->events, number))
        return false;
    reader->restarts = false;
    reader->number = number;
    return true;
}

/* The span that was stored by the event of that number. SPAN_GONE: it is not there any more. */
static void read_span(struct span_reader *reader, uint32_t span, uint64_t stored,
                      struct span_event *event_out)
{
    const struct told_span *told = &reader->events->spans[span];
    const _Atomic uint32_t *tokens = tokens_of(reader->events, span);
    event_out->kind = SPAN_GONE;
    if (atomic_load_explicit(&told->stored, memory_order_acquire) != stored)
        return;
    event_out->hash = get_hash(&told->hash);
    event_out->parent = get_hash(&told->parent);
    uint32_t n_tokens = atomic_load_explicit(&told->n_tokens, memory_order_acquire);
    if (n_tokens > reader->events->options.block_tokens)
        return;
    for (uint32_t i = 0; i < n_tokens; i++)
        reader->token_ids[i] = atomic_load_explicit(&tokens[i], memory_order_acquire);
    if (atomic_load_explicit(&told->stored, memory_order_relaxed) != stored)
        return;
    event_out->kind = SPAN_STORED;
    event_out->n_tokens = n_tokens;
    event_out->token_ids = reader->token_ids;
}

/* False: it is behind. */
static bool read_event(struct span_reader *reader, uint64_t number, struct span_event *event_out)
{
    const struct span_events *events = reader->events;
    const struct told_event *event = &events->events[number & (events->options.events_max - 1)];
    if (atomic_load_explicit(&event->number, memory_order_acquire) != number)
        return false;
    const uint32_t span = atomic_load_explicit(&event->span, memory_order_acquire);
    event_out->hash = get_hash(&event->hash);
    if (atomic_load_explicit(&event->number, memory_order_relaxed) != number)
        return false;
    if (span == SPAN_NONE)
        event_out->kind = SPAN_REMOVED;
    else
        read_span(reader, span, number, event_out);
    return true;
}

static int by_number(const void *a, const void *b)
{
    const uint64_t one = ((const struct snapshot_span *)a)->stored;
    const uint64_t other = ((const struct snapshot_span *)b)->stored;
    return one < other ? -1 : one > other;
}

/* What is there now. A span that comes or goes meanwhile does so by an event behind number. In the order in which they were
 * stored: a span is stored after the one that it follows, and leaves before it. */
static void begin_snapshot(struct span_reader *reader)
{
    const struct span_events *events = reader->events;
    reader->restarts = false;
    reader->n = reader->at = 0;
    reader->number = span_events_last(events);
    for (uint32_t span = 0; span < events->options.spans_max; span++) {
        const uint64_t stored = atomic_load_explicit(&events->spans[span].stored,
                                                     memory_order_acquire);
        if (stored != 0 && stored <= reader->number)
            reader->spans[reader->n++] = (struct snapshot_span){.stored = stored, .span = span};
    }
    qsort(reader->spans, reader->n, sizeof *reader->spans, by_number);
}

bool span_reader_next(struct span_reader *reader, struct span_event *event_out)
{
    *event_out = (struct span_event){.kind = SPAN_CLEARED};
    if (!reader->restarts && reader->at < reader->n) {
        const struct snapshot_span *next = &reader->spans[reader->at++];
        read_span(reader, next->span, next->stored, event_out);
        event_out->number = reader->number;
        return true;
    }
    if (!reader->restarts && reader->number == span_events_last(reader->events))
        return false;
    if (!reader->restarts && read_event(reader, reader->number + 1, event_out)) {
        event_out->number = ++reader->number;
        return true;
    }
    reader->n_overruns += !reader->restarts;
    begin_snapshot(reader);
    event_out->kind = SPAN_CLEARED;
    event_out->number = reader->number;
    return true;
}

uint64_t span_reader_number(const struct span_reader *reader)
{
    return reader->number;
}

uint32_t span_reader_snapshot_left(const struct span_reader *reader)
{
    return reader->n - reader->at;
}

uint64_t span_reader_overruns(const struct span_reader *reader)
{
    return reader->n_overruns;
}
