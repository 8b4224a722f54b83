#include "router/requests/router_metrics.h"

#include <assert.h>

METRICS_DEFINE(router_series, ROUTER_METRICS)

void router_metrics_create(struct router_metrics *metrics, struct metrics *registry)
{
    *metrics = (struct router_metrics){0};
    router_series_init(&metrics->series, registry);
    status_counters_init(&metrics->requests, registry, "kvferry_requests_total",
                         "Requests of clients, by how they ended.");
}

void router_metrics_follow(struct router_metrics *metrics, const struct router_core_stats *stats,
                           uint32_t early)
{
    struct router_core_stats *last = &metrics->last;
    assert(stats->waiting <= stats->requests && stats->placed >= last->placed);
    counter_add(metrics->series.by_prefix, stats->placed_by_prefix - last->placed_by_prefix);
    counter_add(metrics->series.by_load, stats->placed_by_load - last->placed_by_load);
    counter_add(metrics->series.without_context,
                stats->placed_without_context - last->placed_without_context);
    counter_add(metrics->series.retried, stats->retried - last->retried);
    counter_add(metrics->series.refused, stats->refused - last->refused);
    counter_add(metrics->series.prefix_hit, stats->prefix_hit_tokens - last->prefix_hit_tokens);
    counter_add(metrics->series.prefix_query,
                stats->prefix_query_tokens - last->prefix_query_tokens);
    counter_add(metrics->series.waited, stats->waited - last->waited);
    gauge_set(metrics->series.running, stats->requests - stats->waiting);
    gauge_set(metrics->series.waiting, stats->waiting + early);
    gauge_set(metrics->series.waiting_tokens, (double)stats->waiting_tokens);
    *last = *stats;
}
