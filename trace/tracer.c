#include "trace/tracer.h"

#include "base/clock.h"
#include "base/ring.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

METRICS_DEFINE(trace_metrics, TRACE_METRICS)

struct tracer {
    struct tracer_options options;
    struct ring *ring;
    atomic_uint_fast64_t n_drawn;
    pthread_mutex_t lock; /* guards the members below */
    uint64_t second_began_ns;
    uint32_t n_in_second;
};

enum status tracer_create(const struct tracer_options *options, struct tracer **tracer_out)
{
    struct tracer *tracer = calloc(1, sizeof *tracer);
    if (!tracer)
        return STATUS_NO_MEMORY;
    tracer->options = *options;
    pthread_mutex_init(&tracer->lock, NULL);
    enum status status = ring_create(sizeof(struct span), options->spans_max, &tracer->ring);
    if (status != STATUS_OK) {
        tracer_destroy(tracer);
        return status;
    }
    *tracer_out = tracer;
    return STATUS_OK;
}

void tracer_destroy(struct tracer *tracer)
{
    if (!tracer)
        return;
    ring_destroy(tracer->ring);
    pthread_mutex_destroy(&tracer->lock);
    free(tracer);
}

/* ---- ids ---- */

/* splitmix64 of a counter: unique in a process, without a lock. Not 0. */
static uint64_t draw(struct tracer *tracer)
{
    for (;;) {
        uint64_t n = atomic_fetch_add_explicit(&tracer->n_drawn, 1, memory_order_relaxed) + 1;
        uint64_t x = tracer->options.seed + n * 0x9e3779b97f4a7c15ull;
        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
        x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
        x ^= x >> 31;
        if (x)
            return x;
    }
}

static void draw_span_id(struct tracer *tracer, uint8_t id_out[SPAN_ID_BYTES])
{
    uint64_t id = draw(tracer);
    memcpy(id_out, &id, SPAN_ID_BYTES);
}

/* ---- which requests are recorded ---- */

static bool has_room_in_second(struct tracer *tracer, uint64_t now_ns)
{
    pthread_mutex_lock(&tracer->lock);
    if (tracer->n_in_second == 0 || now_ns - tracer->second_began_ns >= NS_PER_S) {
        tracer->second_began_ns = now_ns;
        tracer->n_in_second = 0;
    }
    bool has_room = tracer->n_in_second < tracer->options.rate_max;
    tracer->n_in_second += has_room;
    pthread_mutex_unlock(&tracer->lock);
    return has_room;
}

/* 53 bits of a random number, as a fraction of 1. */
static bool is_chosen(struct tracer *tracer)
{
    return (double)(draw(tracer) >> 11) * 0x1p-53 < tracer->options.ratio;
}

/* Changes the caller's context to that of this process. */
static void record(struct tracer *tracer, struct trace_place *place)
{
    place->is_recorded = true;
    place->context.is_sampled = true;
    memcpy(place->parent_id, place->context.span_id, SPAN_ID_BYTES);
    draw_span_id(tracer, place->context.span_id);
}

static void take_caller(const struct trace_context *caller, struct trace_place *place_out)
{
    *place_out = (struct trace_place){.is_recorded = false};
    if (trace_context_is_some(caller))
        place_out->context = *caller;
}

void tracer_begin(struct tracer *tracer, const struct trace_context *caller, uint64_t now_ns,
                  struct trace_place *place_out)
{
    take_caller(caller, place_out);
    bool is_known = trace_context_is_some(&place_out->context);
    if (!tracer || !(is_known ? place_out->context.is_sampled : is_chosen(tracer)))
        return;
    if (!has_room_in_second(tracer, now_ns)) {
        place_out->context.is_sampled = false;
        return;
    }
    if (!is_known) {
        uint64_t halves[2] = {draw(tracer), draw(tracer)};
        memcpy(place_out->context.trace_id, halves, TRACE_ID_BYTES);
    }
    record(tracer, place_out);
}

void tracer_enter(struct tracer *tracer, const struct trace_context *caller,
                  struct trace_place *place_out)
{
    take_caller(caller, place_out);
    if (tracer && trace_context_is_some(&place_out->context) && place_out->context.is_sampled)
        record(tracer, place_out);
}

/* ---- spans ---- */

static void keep(struct tracer *tracer, const struct trace_place *place, struct span *span)
{
    memcpy(span->trace_id, place->context.trace_id, TRACE_ID_BYTES);
    if (ring_push(tracer->ring, span) != STATUS_OK)
        counter_add(tracer->options.metrics->queue_full, 1);
}

void tracer_tell_own(struct tracer *tracer, const struct trace_place *place, struct span *span)
{
    if (!tracer || !place->is_recorded)
        return;
    memcpy(span->span_id, place->context.span_id, SPAN_ID_BYTES);
    memcpy(span->parent_id, place->parent_id, SPAN_ID_BYTES);
    keep(tracer, place, span);
}

void tracer_tell(struct tracer *tracer, const struct trace_place *place, struct span *span)
{
    if (!tracer || !place->is_recorded)
        return;
    draw_span_id(tracer, span->span_id);
    memcpy(span->parent_id, place->context.span_id, SPAN_ID_BYTES);
    keep(tracer, place, span);
}

uint32_t tracer_count(const struct tracer *tracer)
{
    return ring_count(tracer->ring);
}

uint32_t tracer_take(struct tracer *tracer, struct span *spans_out, uint32_t n)
{
    uint32_t taken = 0;
    while (taken < n && ring_pop(tracer->ring, &spans_out[taken]))
        taken++;
    return taken;
}
