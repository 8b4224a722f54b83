/* metrics: nothing that threads add is lost, and the text is what Prometheus reads. */

#include "base/metrics/metrics.h"

#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const struct histogram_bounds SMALL = {3, {0.5, 1, 2.5}};

#define SAMPLE_METRICS(X)                                                                          \
    X(COUNTER, ok, "kvferry_requests_total", "code=OK,reason=", "Requests ended.")                 \
    X(GAUGE, blocks, "kvferry_kv_blocks", "state=free", "Blocks by \\ state\nin two lines.")       \
    X(COUNTER, failed, "kvferry_requests_total", "code=INTERNAL,reason=a\"b\\c",                   \
      "Requests ended.")                                                                           \
    X(HISTOGRAM(SMALL), wait, "kvferry_wait_seconds", "stage=queue", "Time waited.")

METRICS_DECLARE(sample_metrics, SAMPLE_METRICS);
METRICS_DEFINE(sample_metrics, SAMPLE_METRICS)

static struct metrics *new_metrics(void)
{
    struct metrics *metrics;
    cr_assert_eq(metrics_create("router", &metrics), STATUS_OK);
    return metrics;
}

static char *text_of(const struct metrics *metrics)
{
    char *text;
    size_t bytes;
    cr_assert_eq(metrics_text(metrics, &text, &bytes), STATUS_OK);
    cr_assert_eq(strlen(text), bytes);
    return text;
}

Test(metrics, text_groups_series_by_name_and_escapes)
{
    struct metrics *metrics = new_metrics();
    struct sample_metrics sample;
    sample_metrics_init(&sample, metrics);
    counter_add(sample.ok, 3);
    counter_add(sample.failed, 1);
    gauge_set(sample.blocks, 12.5);
    histogram_observe(sample.wait, 0.5);
    histogram_observe(sample.wait, 0.75);
    histogram_observe(sample.wait, 99);

    char *text = text_of(metrics);
    const char *start = strstr(text, "# HELP kvferry_requests_total");
    const char *end = strstr(text, "# HELP process_cpu_seconds_total");
    cr_assert(start && end);
    char *own = strndup(start, (size_t)(end - start));
    cr_expect_str_eq(own, "# HELP kvferry_requests_total Requests ended.\n"
                          "# TYPE kvferry_requests_total counter\n"
                          "kvferry_requests_total{code=\"OK\",reason=\"\"} 3\n"
                          "kvferry_requests_total{code=\"INTERNAL\",reason=\"a\\\"b\\\\c\"} 1\n"
                          "# HELP kvferry_kv_blocks Blocks by \\\\ state\\nin two lines.\n"
                          "# TYPE kvferry_kv_blocks gauge\n"
                          "kvferry_kv_blocks{state=\"free\"} 12.5\n"
                          "# HELP kvferry_wait_seconds Time waited.\n"
                          "# TYPE kvferry_wait_seconds histogram\n"
                          "kvferry_wait_seconds_bucket{stage=\"queue\",le=\"0.5\"} 1\n"
                          "kvferry_wait_seconds_bucket{stage=\"queue\",le=\"1\"} 2\n"
                          "kvferry_wait_seconds_bucket{stage=\"queue\",le=\"2.5\"} 2\n"
                          "kvferry_wait_seconds_bucket{stage=\"queue\",le=\"+Inf\"} 3\n"
                          "kvferry_wait_seconds_sum{stage=\"queue\"} 100.25\n"
                          "kvferry_wait_seconds_count{stage=\"queue\"} 3\n");
    free(own);
    free(text);
    metrics_destroy(metrics);
    metrics_destroy(NULL);
}

/* The value of the first sample of that name. */
static double sample_of(const char *text, const char *name)
{
    size_t length = strlen(name);
    for (const char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        if (strncmp(line, name, length) != 0 || !strchr(" {", line[length]))
            continue;
        const char *last = line;
        for (const char *c = line; c < end; c++)
            last = *c == ' ' ? c : last;
        return strtod(last, NULL);
    }
    return NAN;
}

Test(metrics, the_process_describes_itself)
{
    struct metrics *metrics = new_metrics();
    char *text = text_of(metrics);
    cr_expect_eq(sample_of(text, "kvferry_build_info"), 1);
    cr_expect(strstr(text, "role=\"router\"} 1\n"));
    cr_expect_gt(sample_of(text, "process_resident_memory_bytes"), 1e6);
    cr_expect_geq(sample_of(text, "process_open_fds"), 3);
    cr_expect_geq(sample_of(text, "process_cpu_seconds_total"), 0);
    cr_expect_geq(sample_of(text, "process_threads"), 1);
    /* btime and ticks are whole seconds and hundredths. */
    cr_expect_float_eq(sample_of(text, "process_start_time_seconds"), (double)time(NULL), 120);
    free(text);
    metrics_destroy(metrics);
}

enum { N_THREADS = 2 * METRICS_SHARDS + 3, N_ADDS = 2000 };

static void *add_many(void *arg)
{
    struct sample_metrics *sample = arg;
    for (int i = 0; i < N_ADDS; i++) {
        counter_add(sample->ok, 2);
        gauge_add(sample->blocks, i % 2 ? -1 : 1.5);
        histogram_observe(sample->wait, i % 4); /* 0 1 2 3 */
    }
    return NULL;
}

Test(metrics, nothing_is_lost_with_more_threads_than_shards, .timeout = 120)
{
    struct metrics *metrics = new_metrics();
    struct sample_metrics sample;
    pthread_t threads[N_THREADS];
    sample_metrics_init(&sample, metrics);
    for (int i = 0; i < N_THREADS; i++)
        pthread_create(&threads[i], NULL, add_many, &sample);
    for (int i = 0; i < 20; i++)
        free(text_of(metrics)); /* readers do not disturb */
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(threads[i], NULL);

    cr_expect_eq(counter_value(sample.ok), 2ull * N_THREADS * N_ADDS);
    cr_expect_eq(counter_value(sample.failed), 0);
    cr_expect_eq(gauge_value(sample.blocks), 0.25 * N_THREADS * N_ADDS);
    cr_expect_eq(histogram_count(sample.wait), (uint64_t)N_THREADS * N_ADDS);
    cr_expect_eq(histogram_sum(sample.wait), 1.5 * N_THREADS * N_ADDS);
    metrics_destroy(metrics);
}

Test(metrics, bounds_of_the_house_rise_and_end_where_they_say)
{
    cr_expect_eq(BUCKETS_LATENCY.values[0], 50e-6);
    cr_expect_eq(BUCKETS_LATENCY.values[BUCKETS_LATENCY.n - 1], 10);
    cr_expect_eq(BUCKETS_DURATION.values[BUCKETS_DURATION.n - 1], 1000);
    cr_expect_eq(BUCKETS_COUNT.values[BUCKETS_COUNT.n - 1], 65536);

    struct metrics *metrics = new_metrics(); /* asserts that they rise */
    metrics_histogram(metrics, "a", "", "h", &BUCKETS_LATENCY);
    metrics_histogram(metrics, "b", "", "h", &BUCKETS_DURATION);
    metrics_histogram(metrics, "c", "", "h", &BUCKETS_COUNT);
    metrics_destroy(metrics);
}

Test(metrics, two_registries_do_not_mix)
{
    struct metrics *a = new_metrics(), *b = new_metrics();
    struct counter *in_a = metrics_counter(a, "kvferry_x_total", "", "h");
    struct counter *in_b = metrics_counter(b, "kvferry_x_total", "", "h");
    counter_add(in_a, 5);
    cr_expect_eq(counter_value(in_a), 5);
    cr_expect_eq(counter_value(in_b), 0);
    metrics_destroy(a);
    metrics_destroy(b);
}

Test(metrics, a_series_registered_twice_is_the_programmers_error, .signal = SIGABRT)
{
    struct metrics *metrics = new_metrics();
    metrics_counter(metrics, "kvferry_x_total", "a=b", "h");
    metrics_counter(metrics, "kvferry_x_total", "a=b", "h");
}

Test(metrics, a_name_prometheus_refuses_is_the_programmers_error, .signal = SIGABRT)
{
    metrics_counter(new_metrics(), "kvferry-x", "", "h");
}

Test(metrics, series_of_one_name_with_other_label_names_are_the_programmers_error,
     .signal = SIGABRT)
{
    struct metrics *metrics = new_metrics();
    metrics_counter(metrics, "kvferry_x_total", "code=OK,reason=", "h");
    metrics_counter(metrics, "kvferry_x_total", "result=ok", "h");
}

static struct metrics *late;

static void *register_late(void *arg)
{
    static char labels[200][16];
    (void)arg;
    for (int i = 0; i < 200; i++) {
        snprintf(labels[i], sizeof labels[i], "n=%d", i);
        counter_add(metrics_counter(late, "kvferry_late_total", labels[i], "h"), 1);
    }
    return NULL;
}

Test(metrics, who_reads_while_series_are_added_sees_whole_ones, .timeout = 120)
{
    pthread_t thread;
    late = new_metrics();
    pthread_create(&thread, NULL, register_late, NULL);
    for (int i = 0; i < 50; i++)
        free(text_of(late));
    pthread_join(thread, NULL);
    char *text = text_of(late);
    cr_expect(strstr(text, "kvferry_late_total{n=\"0\"} 1\n"));
    cr_expect(strstr(text, "kvferry_late_total{n=\"199\"} 1\n"));
    cr_expect_eq(strstr(strstr(text, "# TYPE kvferry_late_total") + 1, "# TYPE kvferry_late_total"),
                 NULL);
    free(text);
    metrics_destroy(late);
}
