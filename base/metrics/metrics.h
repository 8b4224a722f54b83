/*
 * metrics - counters, gauges and histograms of one process, as Prometheus text.
 *
 * All series are registered at start, by a call or by a table:
 *
 *     #define GEN_METRICS(X)                                                                     \
 *         X(COUNTER, tokens, "kvferry_generated_tokens_total", "", "Tokens sampled.")            \
 *         X(GAUGE, blocks_free, "kvferry_kv_blocks", "state=free", "KV blocks by state.")        \
 *         X(GAUGE, blocks_active, "kvferry_kv_blocks", "state=active", "KV blocks by state.")    \
 *         X(HISTOGRAM(BUCKETS_LATENCY), ttft, "kvferry_request_ttft_seconds", "", "...")
 *
 *     METRICS_DECLARE(gen_metrics, GEN_METRICS);
 *     METRICS_DEFINE(gen_metrics, GEN_METRICS)
 *
 * declare `struct gen_metrics` with one handle for each row, and `gen_metrics_init(&m, metrics)`; then
 * use counter_add(m.tokens, 1). Labels are fixed at registration ("code=OK,reason=", no comma in a
 * value), so a client can never create a series. Series of one name have the same type, help text and
 * label names.
 *
 *     shard 0   [cell 0][cell 1] ... [cell CELLS_MAX - 1]    64-bit, relaxed atomics
 *     shard 1   [cell 0] ...                                 each starts on its own cache line
 *
 * A counter has one cell in each shard, a histogram n_bounds + 2. A thread adds to the shard of its
 * index, so threads share no cache line until there are more than SHARDS threads; then adds are slower,
 * but still correct. A reader sums the shards. A gauge has one cell; the last value that was set
 * counts.
 *
 * Every registry also shows kvferry_build_info, kvferry_log_lines_dropped_total and process_* (memory,
 * descriptors, CPU, start).
 *
 * Global state: the shard index of each thread, assigned once.
 * Thread: one thread at a time registers, also while others read: a series is shown when it is
 * complete. add, set, observe and metrics_text: any thread.
 */
#pragma once

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

#define METRICS_SHARDS     16
#define METRICS_SERIES_MAX 1024
#define METRICS_CELLS_MAX  4096 /* in one shard */

struct metrics;
struct counter;
struct gauge;
struct histogram;

/* Upper bounds of the buckets, rising. The bucket for larger values is added automatically. */
struct histogram_bounds {
    uint32_t n;
    double values[32];
};
extern const struct histogram_bounds BUCKETS_LATENCY;  /* 50 us .. 10 s, 1-2-5 */
extern const struct histogram_bounds BUCKETS_DURATION; /* 1 ms .. 1,000 s, 1-2-5 */
extern const struct histogram_bounds BUCKETS_COUNT;    /* 1 .. 65,536, powers of two */
extern const struct histogram_bounds BUCKETS_TOKENS;   /* 1 .. 1,048,576, powers of two */

/* role is a label of kvferry_build_info; borrowed. NO_MEMORY. */
MUST_CHECK enum status metrics_create(const char *role, struct metrics **metrics_out);
void metrics_destroy(struct metrics *metrics); /* NULL is fine; frees the handles, too */

enum metric_kind { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

struct metric_spec {
    enum metric_kind kind;
    const struct histogram_bounds *bounds; /* of histograms */
    const char *name;                      /* "kvferry_kv_blocks" */
    const char *labels;                    /* "state=free,role=x", "" for none */
    const char *help;
};

/* Handles are borrowed until metrics_destroy. A bad name, a series registered twice or a full
 * registry is a programmer's error. name, labels, help and bounds are borrowed and must outlive the
 * registry. */
struct counter *metrics_counter(struct metrics *metrics, const char *name, const char *labels,
                                const char *help);
struct gauge *metrics_gauge(struct metrics *metrics, const char *name, const char *labels,
                            const char *help);
struct histogram *metrics_histogram(struct metrics *metrics, const char *name, const char *labels,
                                    const char *help, const struct histogram_bounds *bounds);

void counter_add(struct counter *counter, uint64_t n);
void gauge_set(struct gauge *gauge, double value);
void gauge_add(struct gauge *gauge, double value); /* may be negative */
void histogram_observe(struct histogram *histogram, double value);

/* Sums over the shards. Concurrent adds may or may not be included. */
uint64_t counter_value(const struct counter *counter);
double gauge_value(const struct gauge *gauge);
uint64_t histogram_count(const struct histogram *histogram);
double histogram_sum(const struct histogram *histogram);

/* The exposition format 0.0.4, NUL-terminated; caller frees. NO_MEMORY. */
MUST_CHECK enum status metrics_text(const struct metrics *metrics, char **text_out,
                                    size_t *bytes_out);

/* What the tables expand to: a struct counter, gauge or histogram, as spec says. */
void *metrics_add(struct metrics *metrics, const struct metric_spec *spec);

#define METRICS_DECLARE(name, TABLE)                                                               \
    struct name {                                                                                  \
        TABLE(METRIC_MEMBER_)                                                                      \
    };                                                                                             \
    void name##_init(struct name *handles, struct metrics *metrics)

#define METRICS_DEFINE(name, TABLE)                                                                \
    void name##_init(struct name *handles, struct metrics *metrics)                                \
    {                                                                                              \
        TABLE(METRIC_ADD_)                                                                         \
    }

#define METRIC_MEMBER_(kind, member, name, labels, help) METRIC_MEMBER_##kind *member;
#define METRIC_MEMBER_COUNTER                            struct counter
#define METRIC_MEMBER_GAUGE                              struct gauge
#define METRIC_MEMBER_HISTOGRAM(bounds)                  struct histogram

#define METRIC_ADD_(kind, member, name, labels, help)                                              \
    handles->member = metrics_add(metrics,                                                         \
                                  &(struct metric_spec){METRIC_KIND_##kind, name, labels, help});
#define METRIC_KIND_COUNTER           METRIC_COUNTER, NULL
#define METRIC_KIND_GAUGE             METRIC_GAUGE, NULL
#define METRIC_KIND_HISTOGRAM(bounds) METRIC_HISTOGRAM, &(bounds)
