#include "engine/cache_events.h"

#include <assert.h>
#include <stdlib.h>

struct cache_events {
    struct kv_manager *manager;
    struct span_events *spans;
    uint32_t block_tokens;
    struct cache_source source;
    uint32_t at; /* in source, of the span that was added last: the next one is behind it */
};

/* The tokens of a span that is added; NULL: not known, or not for others. */
static const uint32_t *find_tokens(struct cache_events *events, struct prefix_hash hash)
{
    const struct cache_source *source = &events->source;
    for (; events->at < source->n; events->at++) {
        if (prefix_hash_equal(source->hashes[events->at], hash))
            return source->is_common ? source->token_ids + (size_t)events->at * events->block_tokens
                                     : NULL;
    }
    return NULL;
}

static void on_change(void *arg, const struct prefix_span_change *change)
{
    struct cache_events *events = arg;
    if (change->reason != PREFIX_STORED) {
        span_events_remove(events->spans, change->span);
        return;
    }
    const uint32_t *tokens = find_tokens(events, change->hash);
    span_events_store(events->spans, change->span, change->hash, change->parent, tokens,
                      tokens ? events->block_tokens : 0);
}

static uint32_t power_of_two(uint32_t n)
{
    uint32_t power = 1;
    while (power < n)
        power *= 2;
    return power;
}

uint64_t cache_events_bytes(uint32_t spans_max, uint32_t events_max, uint32_t block_tokens)
{
    const struct span_events_options spans = {.spans_max = spans_max,
                                              .events_max = power_of_two(events_max),
                                              .block_tokens = block_tokens};
    return events_max == 0 ? 0 : sizeof(struct cache_events) + span_events_bytes(&spans);
}

enum status cache_events_create(const struct cache_events_options *options,
                                struct cache_events **events_out)
{
    *events_out = NULL;
    if (options->events_max == 0 || !kv_manager_caches(options->manager))
        return STATUS_OK;
    struct cache_events *events = calloc(1, sizeof *events);
    if (!events)
        return STATUS_NO_MEMORY;
    struct span_events_options spans = {.spans_max = kv_manager_spans_max(options->manager),
                                        .events_max = power_of_two(options->events_max),
                                        .block_tokens = options->block_tokens,
                                        .wipes = options->wipes};
    events->block_tokens = options->block_tokens;
    const enum status status = span_events_create(&spans, &events->spans);
    if (status != STATUS_OK) {
        free(events);
        return status;
    }
    events->manager = options->manager;
    kv_manager_observe_spans(options->manager, on_change, events);
    *events_out = events;
    return STATUS_OK;
}

void cache_events_destroy(struct cache_events *events)
{
    if (!events)
        return;
    kv_manager_observe_spans(events->manager, NULL, NULL);
    span_events_destroy(events->spans);
    free(events);
}

void cache_events_begin(struct cache_events *events, const struct cache_source *source)
{
    if (!events)
        return;
    assert(!events->source.hashes && "one at a time");
    events->source = *source;
    events->at = 0;
}

void cache_events_end(struct cache_events *events)
{
    if (events)
        events->source = (struct cache_source){0};
}

struct span_events *cache_events_spans(const struct cache_events *events)
{
    return events ? events->spans : NULL;
}
