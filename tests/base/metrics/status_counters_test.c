/* status_counters: every status has its series from the start, and a client's words make none. */

#include "base/metrics/status_counters.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static struct status_counters counters;

static char *text_of(const struct metrics *metrics)
{
    char *text;
    size_t bytes;
    cr_assert_eq(metrics_text(metrics, &text, &bytes), STATUS_OK);
    return text;
}

static int n_lines(const char *text, const char *start)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, start)); at++)
        n += at == text || at[-1] == '\n';
    return n;
}

Test(status_counters, an_end_is_counted_under_its_code_and_reason)
{
    struct metrics *metrics;
    cr_assert_eq(metrics_create("router", &metrics), STATUS_OK);
    status_counters_init(&counters, metrics, "kvferry_x_total", "h");
    status_counters_add(&counters, STATUS_OK);
    status_counters_add(&counters, STATUS_OK);
    status_counters_add(&counters, STATUS_QUEUE_FULL);
    char *text = text_of(metrics);
    cr_expect(strstr(text, "kvferry_x_total{code=\"OK\",reason=\"\"} 2\n"));
    cr_expect(
        strstr(text, "kvferry_x_total{code=\"RESOURCE_EXHAUSTED\",reason=\"QUEUE_FULL\"} 1\n"));
    cr_expect(strstr(text, "kvferry_x_total{code=\"INTERNAL\",reason=\"BUG\"} 0\n"));
    cr_expect_eq(n_lines(text, "kvferry_x_total{"), STATUS_COUNT);
    free(text);
    metrics_destroy(metrics);
}

Test(status_counters, of_failures_there_is_no_ok)
{
    struct metrics *metrics;
    cr_assert_eq(metrics_create("router", &metrics), STATUS_OK);
    status_counters_init_failures(&counters, metrics, "kvferry_x_total", "h");
    status_counters_add(&counters, STATUS_PEER_LOST);
    char *text = text_of(metrics);
    cr_expect(strstr(text, "kvferry_x_total{reason=\"PEER_LOST\"} 1\n"));
    cr_expect_eq(n_lines(text, "kvferry_x_total{"), STATUS_COUNT - 1);
    free(text);
    metrics_destroy(metrics);
}
