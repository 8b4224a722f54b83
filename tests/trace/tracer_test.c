/* tracer: the caller's flag decides, then the ratio, then the rate; what finds no room is dropped and counted. */

#include "base/clock.h"
#include "trace/tracer.h"

#include <criterion/criterion.h>
#include <string.h>

static struct metrics *metrics;
static struct trace_metrics counters;

static struct tracer *new_tracer(double ratio, uint32_t rate_max, uint32_t spans_max)
{
    struct tracer *tracer;
    cr_assert_eq(metrics_create("test", &metrics), STATUS_OK);
    trace_metrics_init(&counters, metrics);
    const struct tracer_options options = {.ratio = ratio,
                                           .rate_max = rate_max,
                                           .spans_max = spans_max,
                                           .seed = 17,
                                           .metrics = &counters};
    cr_assert_eq(tracer_create(&options, &tracer), STATUS_OK);
    return tracer;
}

static void destroy(struct tracer *tracer)
{
    tracer_destroy(tracer);
    metrics_destroy(metrics);
}

static const struct trace_context SAMPLED = {{0xab}, {0xcd}, true};
static const struct trace_context NOT_SAMPLED = {{0xab}, {0xcd}, false};
static const struct trace_context NONE;

static uint32_t n_recorded(struct tracer *tracer, const struct trace_context *caller, uint32_t n,
                           uint64_t now_ns)
{
    uint32_t recorded = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct trace_place place;
        tracer_begin(tracer, caller, now_ns, &place);
        recorded += place.is_recorded;
        cr_assert_eq(place.is_recorded, place.context.is_sampled);
        cr_assert_eq(trace_context_is_some(&place.context),
                     trace_context_is_some(caller) || place.is_recorded);
    }
    return recorded;
}

Test(tracer, the_callers_flag_decides_both_ways)
{
    struct tracer *none = new_tracer(0, 1000000, 1);
    cr_expect_eq(n_recorded(none, &SAMPLED, 100, 1), 100);
    cr_expect_eq(n_recorded(none, &NONE, 100, 1), 0);
    destroy(none);
    struct tracer *all = new_tracer(1, 1000000, 1);
    cr_expect_eq(n_recorded(all, &NOT_SAMPLED, 100, 1), 0);
    cr_expect_eq(n_recorded(all, &NONE, 100, 1), 100);
    destroy(all);
}

Test(tracer, the_ratio_is_a_probability)
{
    struct tracer *tracer = new_tracer(0.25, 1000000, 1);
    uint32_t n = n_recorded(tracer, &NONE, 40000, 1);
    cr_expect_gt(n, 9600, "%u", n); /* five deviations are 433 */
    cr_expect_lt(n, 10400, "%u", n);
    destroy(tracer);
}

Test(tracer, no_more_than_the_rate_and_who_is_over_it_is_told)
{
    struct tracer *tracer = new_tracer(1, 5, 1);
    cr_expect_eq(n_recorded(tracer, &SAMPLED, 20, 1), 5);
    cr_expect_eq(n_recorded(tracer, &NONE, 20, NS_PER_S), 0);
    cr_expect_eq(n_recorded(tracer, &NONE, 20, NS_PER_S + 1), 5);
    cr_expect_eq(n_recorded(tracer, &SAMPLED, 20, 100 * NS_PER_S), 5);
    destroy(tracer);
}

Test(tracer, a_worker_obeys_whatever_its_ratio)
{
    struct tracer *tracer = new_tracer(1, 1, 1);
    struct trace_place place;
    for (int i = 0; i < 10; i++) {
        tracer_enter(tracer, &SAMPLED, &place);
        cr_expect(place.is_recorded);
    }
    cr_expect_arr_eq((char *)place.parent_id, (char *)SAMPLED.span_id, SPAN_ID_BYTES);
    cr_expect_arr_eq((char *)place.context.trace_id, (char *)SAMPLED.trace_id, TRACE_ID_BYTES);
    cr_expect_neq(memcmp(place.context.span_id, SAMPLED.span_id, SPAN_ID_BYTES), 0);
    tracer_enter(tracer, &NOT_SAMPLED, &place);
    cr_expect_not(place.is_recorded);
    cr_expect_arr_eq((char *)place.context.span_id, (char *)SAMPLED.span_id, SPAN_ID_BYTES,
                     "handed on as it came");
    tracer_enter(tracer, &NONE, &place);
    cr_expect_not(place.is_recorded);
    cr_expect_not(trace_context_is_some(&place.context));
    destroy(tracer);
}

Test(tracer, none_records_nothing_and_hands_on)
{
    struct trace_place place;
    struct span span;
    span_init(&span, "queue", 1, 2);
    tracer_begin(NULL, &SAMPLED, 1, &place);
    cr_expect_not(place.is_recorded);
    cr_expect(place.context.is_sampled);
    cr_expect_arr_eq((char *)place.context.span_id, (char *)SAMPLED.span_id, SPAN_ID_BYTES);
    tracer_enter(NULL, &SAMPLED, &place);
    tracer_tell(NULL, &place, &span);
    tracer_tell_own(NULL, &place, &span);
}

Test(tracer, parts_are_children_of_their_place_and_ids_differ)
{
    struct tracer *tracer = new_tracer(0, 10, 64);
    struct trace_place outer, inner;
    struct span spans[8], span;
    tracer_begin(tracer, &SAMPLED, 1, &outer);
    tracer_enter(tracer, &outer.context, &inner);
    span_init(&span, "own", 10, 30);
    tracer_tell_own(tracer, &outer, &span);
    span_init(&span, "part", 10, 20);
    tracer_tell(tracer, &outer, &span);
    span_init(&span, "inner", 20, 10); /* ends before it starts */
    tracer_tell_own(tracer, &inner, &span);
    span_init(&span, "inner part", 20, 21);
    tracer_tell(tracer, &inner, &span);

    cr_assert_eq(tracer_count(tracer), 4);
    cr_assert_eq(tracer_take(tracer, spans, 3), 3);
    cr_assert_eq(tracer_take(tracer, spans + 3, 5), 1);
    static const char *const NAMES[] = {"own", "part", "inner", "inner part"};
    const uint8_t *parents[] = {SAMPLED.span_id, spans[0].span_id, spans[0].span_id,
                                spans[2].span_id};
    for (size_t i = 0; i < 4; i++) {
        cr_expect_str_eq(spans[i].name, NAMES[i], "oldest first");
        cr_expect_arr_eq((char *)spans[i].trace_id, (char *)SAMPLED.trace_id, TRACE_ID_BYTES);
        cr_expect_arr_eq((char *)spans[i].parent_id, (char *)parents[i], SPAN_ID_BYTES);
        for (size_t j = 0; j < i; j++)
            cr_expect_neq(memcmp(spans[i].span_id, spans[j].span_id, SPAN_ID_BYTES), 0);
    }
    cr_expect_eq(spans[2].end_ns, spans[2].start_ns);
    destroy(tracer);
}

Test(tracer, a_full_ring_drops_the_new_and_counts)
{
    struct tracer *tracer = new_tracer(0, 10, 3);
    struct trace_place place;
    struct span span, spans[4];
    tracer_begin(tracer, &SAMPLED, 1, &place);
    for (uint64_t i = 1; i <= 5; i++) {
        span_init(&span, "part", i, i);
        tracer_tell(tracer, &place, &span);
    }
    cr_expect_eq(counter_value(counters.queue_full), 2);
    cr_expect_eq(tracer_take(tracer, spans, 4), 3);
    cr_expect_eq(spans[0].start_ns, 1);
    cr_expect_eq(spans[2].start_ns, 3);
    span_init(&span, "part", 6, 6);
    tracer_tell(tracer, &place, &span);
    cr_expect_eq(tracer_take(tracer, spans, 4), 1, "there is room again");
    tracer_begin(tracer, &NOT_SAMPLED, 1, &place);
    tracer_tell(tracer, &place, &span);
    cr_expect_eq(tracer_count(tracer), 0, "nothing of what is not recorded");
    destroy(tracer);
}
