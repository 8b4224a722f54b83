#include "base/metrics/metrics.h"

#include "base/build_info.h"
#include "base/log/log.h"
#include "base/metrics/process_stats.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CACHE_LINE 64

typedef _Atomic uint64_t cell; /* a count, or the bits of a double */

static_assert(METRICS_CELLS_MAX * sizeof(cell) % CACHE_LINE == 0, "shards share no cache line");

#define NO_SERIES UINT32_MAX

struct series {
    struct metric_spec spec;
    struct metrics *metrics;
    uint32_t
        cell; /* the first of n_cells(): the count; the value; or buckets, overflow bucket, sum */
    bool is_first;                     /* the first series of its name */
    _Atomic uint32_t next_of_its_name; /* NO_SERIES: none */
};

/* What the handles point to: one series each. The types differ so that the compiler finds a mix-up. */
struct counter {
    struct series series;
};
struct gauge {
    struct series series;
};
struct histogram {
    struct series series;
};

struct metrics {
    const char *role;
    double
        start_seconds; /* of the process. Read once, as the kernel's figure changes with the clock */
    _Atomic uint32_t n_series; /* only complete series */
    uint32_t n_cells;
    struct series series[METRICS_SERIES_MAX];
    cell *shards[METRICS_SHARDS];
    cell *memory;
};

#define DECADE(x) (x), 2 * (x), 5 * (x)
const struct histogram_bounds BUCKETS_LATENCY = {
    17, {50e-6, DECADE(1e-4), DECADE(1e-3), DECADE(1e-2), DECADE(1e-1), DECADE(1.0), 10}};
const struct histogram_bounds BUCKETS_DURATION = {
    19, {DECADE(1e-3), DECADE(1e-2), DECADE(1e-1), DECADE(1.0), DECADE(10.0), DECADE(100.0), 1000}};
const struct histogram_bounds BUCKETS_COUNT = {
    17, {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536}};
const struct histogram_bounds BUCKETS_TOKENS = {
    21, {1,    2,    4,    8,     16,    32,    64,     128,    256,    512,    1024,
         2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144, 524288, 1048576}};

/* ---- cells ---- */

static uint32_t shard_of_thread(void)
{
    static atomic_uint n_threads;
    static _Thread_local uint32_t index = UINT32_MAX;
    if (index == UINT32_MAX)
        index = atomic_fetch_add_explicit(&n_threads, 1, memory_order_relaxed) % METRICS_SHARDS;
    return index;
}

static cell *own_cells(const struct series *series)
{
    return series->metrics->shards[shard_of_thread()] + series->cell;
}

static void add_count(cell *count, uint64_t n)
{
    atomic_fetch_add_explicit(count, n, memory_order_relaxed);
}

static double as_double(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint64_t as_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static void add_double(cell *sum, double value)
{
    uint64_t old = atomic_load_explicit(sum, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(sum, &old, as_bits(as_double(old) + value),
                                                  memory_order_relaxed, memory_order_relaxed))
        ;
}

static uint32_t n_cells(const struct metric_spec *spec)
{
    return spec->kind == METRIC_HISTOGRAM ? spec->bounds->n + 2 : 1;
}

static uint64_t sum_counts(const struct series *series, uint32_t offset)
{
    assert(offset < n_cells(&series->spec));
    uint64_t sum = 0;
    for (uint32_t shard = 0; shard < METRICS_SHARDS; shard++)
        sum += atomic_load_explicit(series->metrics->shards[shard] + series->cell + offset,
                                    memory_order_relaxed);
    return sum;
}

static double sum_doubles(const struct series *series, uint32_t offset)
{
    assert(offset < n_cells(&series->spec));
    double sum = 0;
    for (uint32_t shard = 0; shard < METRICS_SHARDS; shard++)
        sum += as_double(atomic_load_explicit(
            series->metrics->shards[shard] + series->cell + offset, memory_order_relaxed));
    return sum;
}

/* ---- registry ---- */

enum status metrics_create(const char *role, struct metrics **metrics_out)
{
    struct metrics *metrics = calloc(1, sizeof *metrics);
    if (!metrics)
        return STATUS_NO_MEMORY;

    /* Fresh pages are zero and take no memory until a thread of that shard writes. */
    size_t bytes = sizeof(cell) * METRICS_SHARDS * METRICS_CELLS_MAX;
    metrics->memory = calloc(1, bytes + CACHE_LINE);
    if (!metrics->memory)
        goto fail;
    uintptr_t start = ((uintptr_t)metrics->memory + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    for (uint32_t shard = 0; shard < METRICS_SHARDS; shard++)
        metrics->shards[shard] = (cell *)start + (size_t)shard * METRICS_CELLS_MAX;
    metrics->role = role;
    struct process_stats stats;
    if (process_stats_read(&stats) == STATUS_OK)
        metrics->start_seconds = stats.start_seconds;

    *metrics_out = metrics;
    return STATUS_OK;

fail:
    metrics_destroy(metrics);
    return STATUS_NO_MEMORY;
}

void metrics_destroy(struct metrics *metrics)
{
    if (!metrics)
        return;
    free(metrics->memory);
    free(metrics);
}

static bool is_name(const char *name, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (!strchr("abcdefghijklmnopqrstuvwxyz_:0123456789", name[i]))
            return false;
    return length > 0 && (name[0] < '0' || name[0] > '9');
}

static void assert_labels(const char *labels)
{
    while (*labels) {
        size_t length = strcspn(labels, ","), name_length = strcspn(labels, "=");
        assert(name_length < length && is_name(labels, name_length));
        labels += length + (labels[length] == ',');
    }
}

/* Whether both have the same label names, as "a=1,b=2" and "a=3,b=4" have. */
static bool has_same_names(const char *labels, const char *others)
{
    while (*labels && *others) {
        size_t length = strcspn(labels, "=");
        if (strncmp(labels, others, length + 1) != 0)
            return false;
        labels += strcspn(labels, ",");
        others += strcspn(others, ",");
        if (*labels != *others)
            return false;
        labels += *labels == ',';
        others += *others == ',';
    }
    return *labels == *others;
}

static void assert_spec(const struct metrics *metrics, const struct metric_spec *spec)
{
    assert(is_name(spec->name, strlen(spec->name)) && *spec->help);
    assert_labels(spec->labels);
    for (uint32_t i = 0; spec->bounds && i + 1 < spec->bounds->n; i++)
        assert(spec->bounds->values[i] < spec->bounds->values[i + 1]);
    for (uint32_t i = 0; i < metrics->n_series; i++) {
        const struct metric_spec *other = &metrics->series[i].spec;
        if (strcmp(other->name, spec->name) != 0)
            continue;
        assert(strcmp(other->labels, spec->labels) != 0); /* registered twice */
        assert(other->kind == spec->kind && strcmp(other->help, spec->help) == 0);
        assert(has_same_names(spec->labels, other->labels));
    }
}

/* The last series of that name; NULL: none. */
static struct series *last_of_name(struct metrics *metrics, const char *name)
{
    for (uint32_t i = metrics->n_series; i-- > 0;)
        if (strcmp(metrics->series[i].spec.name, name) == 0)
            return &metrics->series[i];
    return NULL;
}

void *metrics_add(struct metrics *metrics, const struct metric_spec *spec)
{
    assert_spec(metrics, spec);
    assert(metrics->n_series < METRICS_SERIES_MAX);
    assert(metrics->n_cells + n_cells(spec) <= METRICS_CELLS_MAX);

    uint32_t index = metrics->n_series;
    struct series *series = &metrics->series[index], *last = last_of_name(metrics, spec->name);
    *series = (struct series){*spec, metrics, metrics->n_cells, !last, NO_SERIES};
    metrics->n_cells += n_cells(spec);
    if (last)
        atomic_store_explicit(&last->next_of_its_name, index, memory_order_release);
    atomic_store_explicit(&metrics->n_series, index + 1, memory_order_release);
    return series;
}

struct counter *metrics_counter(struct metrics *metrics, const char *name, const char *labels,
                                const char *help)
{
    return metrics_add(metrics, &(struct metric_spec){METRIC_COUNTER, NULL, name, labels, help});
}

struct gauge *metrics_gauge(struct metrics *metrics, const char *name, const char *labels,
                            const char *help)
{
    return metrics_add(metrics, &(struct metric_spec){METRIC_GAUGE, NULL, name, labels, help});
}

struct histogram *metrics_histogram(struct metrics *metrics, const char *name, const char *labels,
                                    const char *help, const struct histogram_bounds *bounds)
{
    assert(bounds && bounds->n > 0);
    return metrics_add(metrics,
                       &(struct metric_spec){METRIC_HISTOGRAM, bounds, name, labels, help});
}

/* ---- values ---- */

void counter_add(struct counter *counter, uint64_t n)
{
    add_count(own_cells(&counter->series), n);
}

static cell *gauge_cell(const struct gauge *gauge)
{
    return gauge->series.metrics->shards[0] + gauge->series.cell;
}

void gauge_set(struct gauge *gauge, double value)
{
    atomic_store_explicit(gauge_cell(gauge), as_bits(value), memory_order_relaxed);
}

void gauge_add(struct gauge *gauge, double value)
{
    add_double(gauge_cell(gauge), value);
}

void histogram_observe(struct histogram *histogram, double value)
{
    const struct histogram_bounds *bounds = histogram->series.spec.bounds;
    cell *cells = own_cells(&histogram->series);
    uint32_t bucket = 0;
    while (bucket < bounds->n && !(value <= bounds->values[bucket]))
        bucket++;
    add_count(&cells[bucket], 1);
    add_double(&cells[bounds->n + 1], value);
}

uint64_t counter_value(const struct counter *counter)
{
    return sum_counts(&counter->series, 0);
}

double gauge_value(const struct gauge *gauge)
{
    return as_double(atomic_load_explicit(gauge_cell(gauge), memory_order_relaxed));
}

uint64_t histogram_count(const struct histogram *histogram)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i <= histogram->series.spec.bounds->n; i++)
        count += sum_counts(&histogram->series, i);
    return count;
}

double histogram_sum(const struct histogram *histogram)
{
    return sum_doubles(&histogram->series, histogram->series.spec.bounds->n + 1);
}

/* ---- text ---- */

static void write_escaped(FILE *out, const char *text, size_t length, bool in_quotes)
{
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '\\' || (in_quotes && text[i] == '"'))
            fprintf(out, "\\%c", text[i]);
        else if (text[i] == '\n')
            fputs("\\n", out);
        else
            fputc(text[i], out);
    }
}

static void write_value(FILE *out, double value)
{
    if (isnan(value))
        fputs("NaN", out);
    else if (isinf(value))
        fputs(value > 0 ? "+Inf" : "-Inf", out);
    else
        fprintf(out, fabs(value) < 1e15 && value == floor(value) ? "%.0f" : "%.15g", value);
}

/* "state=free,role=x" and le become {state="free",role="x",le="0.5"}. */
static void write_labels(FILE *out, const char *labels, const double *le)
{
    if (!*labels && !le)
        return;
    fputc('{', out);
    while (*labels) {
        size_t length = strcspn(labels, ","), name_length = strcspn(labels, "=");
        fprintf(out, "%.*s=\"", (int)name_length, labels);
        write_escaped(out, labels + name_length + 1, length - name_length - 1, true);
        labels += length + (labels[length] == ',');
        fputs(*labels || le ? "\"," : "\"", out);
    }
    if (le) {
        fputs("le=\"", out);
        write_value(out, *le);
        fputc('"', out);
    }
    fputc('}', out);
}

static void write_sample(FILE *out, const struct metric_spec *spec, const char *suffix,
                         const double *le, double value)
{
    fprintf(out, "%s%s", spec->name, suffix);
    write_labels(out, spec->labels, le);
    fputc(' ', out);
    write_value(out, value);
    fputc('\n', out);
}

static void write_histogram(FILE *out, const struct series *series)
{
    const struct histogram_bounds *bounds = series->spec.bounds;
    uint64_t count = 0;
    for (uint32_t i = 0; i <= bounds->n; i++) {
        double le = i < bounds->n ? bounds->values[i] : INFINITY;
        count += sum_counts(series, i);
        write_sample(out, &series->spec, "_bucket", &le, (double)count);
    }
    write_sample(out, &series->spec, "_sum", NULL, sum_doubles(series, bounds->n + 1));
    write_sample(out, &series->spec, "_count", NULL, (double)count);
}

static void write_head(FILE *out, const struct metric_spec *spec)
{
    static const char *const types[] = {"counter", "gauge", "histogram"};
    fprintf(out, "# HELP %s ", spec->name);
    write_escaped(out, spec->help, strlen(spec->help), false);
    fprintf(out, "\n# TYPE %s %s\n", spec->name, types[spec->kind]);
}

static void write_series(FILE *out, const struct series *series)
{
    switch (series->spec.kind) {
    case METRIC_COUNTER:
        write_sample(out, &series->spec, "", NULL, (double)sum_counts(series, 0));
        return;
    case METRIC_GAUGE:
        write_sample(out, &series->spec, "", NULL, gauge_value((const struct gauge *)series));
        return;
    case METRIC_HISTOGRAM:
        write_histogram(out, series);
        return;
    }
}

/* The format requires all series of a name in one group. */
static void write_group(FILE *out, const struct metrics *metrics, uint32_t first)
{
    assert(metrics->series[first].is_first);
    write_head(out, &metrics->series[first].spec);
    for (uint32_t i = first; i != NO_SERIES;
         i = atomic_load_explicit(&metrics->series[i].next_of_its_name, memory_order_acquire))
        write_series(out, &metrics->series[i]);
}

static void write_single(FILE *out, enum metric_kind kind, const char *name, const char *help,
                         double value)
{
    const struct metric_spec spec = {kind, NULL, name, "", help};
    write_head(out, &spec);
    write_sample(out, &spec, "", NULL, value);
}

static void write_process(FILE *out, const struct metrics *metrics)
{
    struct process_stats stats;
    if (process_stats_read(&stats) != STATUS_OK)
        return; /* a container without /proc: the other metrics remain useful */
    write_single(out, METRIC_COUNTER, "process_cpu_seconds_total",
                 "CPU time of all threads, in seconds.", stats.cpu_seconds);
    write_single(out, METRIC_GAUGE, "process_resident_memory_bytes", "Resident memory.",
                 (double)stats.resident_bytes);
    write_single(out, METRIC_GAUGE, "process_virtual_memory_bytes", "Address space.",
                 (double)stats.virtual_bytes);
    write_single(out, METRIC_GAUGE, "process_open_fds", "Open file descriptors.",
                 (double)stats.open_fds);
    write_single(out, METRIC_GAUGE, "process_max_fds", "Limit of open file descriptors.",
                 (double)stats.fds_max);
    write_single(out, METRIC_GAUGE, "process_threads", "Threads.", (double)stats.n_threads);
    write_single(out, METRIC_GAUGE, "process_start_time_seconds",
                 "Start time of the process, in seconds since the epoch.", metrics->start_seconds);
}

static void write_log(FILE *out)
{
    write_single(out, METRIC_COUNTER, "kvferry_log_lines_dropped_total",
                 "Log lines dropped because nothing read them.", (double)log_lines_dropped());
}

static void write_build_info(FILE *out, const struct metrics *metrics)
{
    char labels[160];
    int n = snprintf(labels, sizeof labels, "version=%s,compiler=%s,role=%s", build_version(),
                     build_compiler(), metrics->role);
    assert(n > 0 && (size_t)n < sizeof labels);
    const struct metric_spec spec = {METRIC_GAUGE, NULL, "kvferry_build_info", labels,
                                     "The build, in the labels; the value is always 1."};
    write_head(out, &spec);
    write_sample(out, &spec, "", NULL, 1);
}

enum status metrics_text(const struct metrics *metrics, char **text_out, size_t *bytes_out)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return STATUS_NO_MEMORY;
    write_build_info(out, metrics);
    uint32_t n = atomic_load_explicit(&metrics->n_series, memory_order_acquire);
    for (uint32_t i = 0; i < n; i++)
        if (metrics->series[i].is_first)
            write_group(out, metrics, i);
    write_process(out, metrics);
    write_log(out);

    bool failed = ferror(out) != 0;
    if (fclose(out) != 0 || failed) {
        free(text);
        return STATUS_NO_MEMORY;
    }
    *text_out = text;
    *bytes_out = bytes;
    return STATUS_OK;
}
