/* call_counters: a method has its series from the start, and what nobody serves makes none. */

#include "rpc/call_counters.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct call_counters counters;
static struct metrics *metrics;

static void set_up(void)
{
    cr_assert_eq(metrics_create("router", &metrics), STATUS_OK);
    call_counters_init(&counters, metrics);
}

static void has(const char *line)
{
    char *text;
    size_t bytes;
    cr_assert_eq(metrics_text(metrics, &text, &bytes), STATUS_OK);
    cr_expect(strstr(text, line), "no %s in:\n%s", line, text);
    free(text);
}

Test(call_counters, calls_are_counted_by_method_and_code, .init = set_up)
{
    const struct call_method *ask = call_counters_add_method(&counters, "/p.S/Ask");
    cr_expect_eq(call_counters_add_method(&counters, "/p.S/Ask"), ask);
    has("kvferry_calls_total{method=\"p.S/Ask\",code=\"OK\"} 0\n");
    call_counters_count(&counters, ask, STATUS_OK);
    call_counters_count(&counters, ask, STATUS_QUEUE_FULL);
    call_counters_count(&counters, ask, STATUS_NO_MEMORY);
    has("kvferry_calls_total{method=\"p.S/Ask\",code=\"OK\"} 1\n");
    has("kvferry_calls_total{method=\"p.S/Ask\",code=\"RESOURCE_EXHAUSTED\"} 2\n");
    metrics_destroy(metrics);
}

Test(call_counters, what_nobody_serves_is_one_series, .init = set_up)
{
    call_counters_count(&counters, NULL, STATUS_UNIMPLEMENTED);
    call_counters_count(&counters, NULL, STATUS_UNIMPLEMENTED);
    has("kvferry_calls_total{method=\"unknown\",code=\"UNIMPLEMENTED\"} 2\n");
    metrics_destroy(metrics);
}

Test(call_counters, methods_beyond_the_bound_are_counted_as_unknown, .init = set_up)
{
    static char paths[CALL_METHODS_MAX + 1][16];
    const struct call_method *last = NULL;
    for (uint32_t i = 0; i < CALL_METHODS_MAX + 1; i++) {
        snprintf(paths[i], sizeof paths[i], "/p.S/M%u", i);
        last = call_counters_add_method(&counters, paths[i]);
    }
    call_counters_count(&counters, last, STATUS_OK);
    has("kvferry_calls_total{method=\"unknown\",code=\"OK\"} 1\n");
    metrics_destroy(metrics);
}
