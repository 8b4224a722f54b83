/*
 * span_events - what a prefix cache has, and how that changes, for readers on other threads.
 *
 *     one writer --store, remove--> spans: what is there       [spans_max], with tokens
 *                               \-> ring:  numbered events     [events_max], the last ones
 *
 * Events are numbered from 1 without a gap. A reader takes them in order. One that begins, or that is more than events_max behind,
 * first gets SPAN_CLEARED and then all spans that are there, a span after the one that it follows: a snapshot. All of a
 * snapshot has the number of the last event before it; events after that follow. So what a reader has collected is what is there,
 * at every number; nothing is lost in silence.
 *
 * A reader may be told that a span is removed which it was never told of: it came and went while the reader was behind, or in a
 * snapshot. It ignores that. No span is stored twice without a removal between.
 *
 * Cost: the writer neither allocates nor waits: a store copies a span's tokens, a removal is some words. Both are seqlocks: a
 * reader that meets a change in its copy finds the span gone, or itself behind.
 *
 * Bound: (48 + 4 block_tokens) bytes a span and 32 an event, 16 a span and reader; all taken at creation.
 *
 * Thread: store and remove: one. A reader: one at a time, any. The rest: any.
 */
#pragma once

#include "base/status.h"
#include "kvcache/prefix_hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct span_events;
struct span_reader;

struct span_events_options {
    uint32_t spans_max;
    uint32_t events_max;   /* a power of two */
    uint32_t block_tokens; /* most tokens of a span */
    bool wipes;            /* tokens of what was removed are overwritten */
};

enum span_event_kind {
    SPAN_GONE, /* nothing to tell: what was stored then is removed by now */
    SPAN_STORED,
    SPAN_REMOVED,
    SPAN_CLEARED /* a snapshot begins: what was told before does not count any more */
};

struct span_event {
    enum span_event_kind kind;
    uint64_t number;
    struct prefix_hash hash;
    struct prefix_hash parent; /* of a stored one; zeros: it follows none */
    uint32_t n_tokens;         /* of a stored one; 0: they are not known, or not told */
    const uint32_t *token_ids; /* the reader's, until its next call */
};

/* INVALID_ARGUMENT: a bound is 0, or events_max no power of two. NO_MEMORY. */
MUST_CHECK enum status span_events_create(const struct span_events_options *options,
                                          struct span_events **events_out);
/* Without readers. NULL is fine. */
void span_events_destroy(struct span_events *events);
uint64_t span_events_bytes(const struct span_events_options *options);

/* The span with that number, which is not there. token_ids NULL: n_tokens is 0. */
void span_events_store(struct span_events *events, uint32_t span, struct prefix_hash hash,
                       struct prefix_hash parent, const uint32_t *token_ids, uint32_t n_tokens);
/* One that is there. */
void span_events_remove(struct span_events *events, uint32_t span);

uint64_t span_events_last(const struct span_events *events); /* the number of the last event */
uint32_t span_events_block_tokens(const struct span_events *events);

/* It begins with a snapshot. NO_MEMORY. */
MUST_CHECK enum status span_reader_create(const struct span_events *events,
                                          struct span_reader **reader_out);
void span_reader_destroy(struct span_reader *reader); /* NULL is fine */
/* The next event is a snapshot's first. */
void span_reader_restart(struct span_reader *reader);
/* The next event is the one behind that number. False: it has left the ring, or there is no such number yet: it restarts. */
bool span_reader_resume(struct span_reader *reader, uint64_t number);
/* False: there is nothing more now. */
bool span_reader_next(struct span_reader *reader, struct span_event *event_out);
/* The number of the event that was told last; in a snapshot: before it. */
uint64_t span_reader_number(const struct span_reader *reader);
/* While a snapshot is told: how many spans of it are still to come, SPAN_GONE among them; else 0. Before its SPAN_CLEARED: 0. */
uint32_t span_reader_snapshot_left(const struct span_reader *reader);
/* How often it was too far behind. */
uint64_t span_reader_overruns(const struct span_reader *reader);
