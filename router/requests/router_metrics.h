/*
 * router_metrics - the metrics of a router.
 *
 * Thread: any.
 */
#pragma once

#include "base/metrics/status_counters.h"
#include "process/event_streams.h"
#include "router/placement/router_core.h"

#define ROUTER_METRICS(X)                                                                          \
    X(HISTOGRAM(BUCKETS_DURATION), ttft, "kvferry_request_ttft_seconds", "",                       \
      "Time from the arrival of a request to its first token.")                                    \
    X(HISTOGRAM(BUCKETS_LATENCY), itl, "kvferry_request_itl_seconds", "",                          \
      "Time between two messages with tokens of one request.")                                     \
    X(HISTOGRAM(BUCKETS_DURATION), duration, "kvferry_request_duration_seconds", "",               \
      "Time from the arrival of a request to its end.")                                            \
    X(GAUGE, running, "kvferry_requests_running", "", "Requests that run on a worker.")            \
    X(GAUGE, waiting, "kvferry_requests_waiting", "", "Requests that wait for a worker.")          \
    X(GAUGE, waiting_tokens, "kvferry_requests_waiting_tokens", "",                                \
      "Prompt tokens of the requests that wait for a worker and are tokenized.")                   \
    X(GAUGE, requests_max, "kvferry_requests_max", "",                                             \
      "Most requests that can run or wait at one time.")                                           \
    X(HISTOGRAM(BUCKETS_DURATION), queue, "kvferry_request_queue_seconds", "",                     \
      "Time from the arrival of a request to the call of the worker that accepted it, or to its "  \
      "end.")                                                                                      \
    X(HISTOGRAM(BUCKETS_TOKENS), prompt_length, "kvferry_request_prompt_tokens", "",               \
      "Prompt tokens of a request, when it is accepted.")                                          \
    X(HISTOGRAM(BUCKETS_TOKENS), reply_length, "kvferry_request_generated_tokens", "",             \
      "Tokens generated for an accepted request, at its end.")                                     \
    X(COUNTER, relayed, "kvferry_router_relayed_tokens_total", "",                                 \
      "Tokens received from generation workers.")                                                  \
    X(COUNTER, by_prefix, "kvferry_router_decisions_total", "kind=place,reason=prefix",            \
      "Choices of workers for requests, by what decided.")                                         \
    X(COUNTER, by_load, "kvferry_router_decisions_total", "kind=place,reason=load",                \
      "Choices of workers for requests, by what decided.")                                         \
    X(COUNTER, without_context, "kvferry_router_decisions_total",                                  \
      "kind=place,reason=no_context_worker", "Choices of workers for requests, by what decided.")  \
    X(COUNTER, retried, "kvferry_router_decisions_total", "kind=retry,reason=failed",              \
      "Choices of workers for requests, by what decided.")                                         \
    X(COUNTER, refused, "kvferry_router_decisions_total", "kind=retry,reason=full",                \
      "Choices of workers for requests, by what decided.")                                         \
    X(COUNTER, waited, "kvferry_router_decisions_total", "kind=wait,reason=no_worker",             \
      "Choices of workers for requests, by what decided.")                                         \
    X(COUNTER, prefix_hit, "kvferry_router_prefix_hit_tokens_total", "",                           \
      "Prompt tokens that the router expected to be cached on the chosen worker.")                 \
    X(COUNTER, prefix_query, "kvferry_router_prefix_query_tokens_total", "",                       \
      "Prompt tokens that the router looked up to choose a worker.")                               \
    X(COUNTER, kv_events, "kvferry_kv_events_total", "", KV_EVENTS_HELP)                           \
    X(COUNTER, kv_events_left_out, "kvferry_kv_events_left_out_total", "",                         \
      "Blocks of KV events for which kv_event_blocks_max had no room, or behind such a one.")      \
    X(GAUGE, kv_event_blocks, "kvferry_kv_event_blocks", "",                                       \
      "Blocks of prompts that some worker has cached, as the router reports to gateways.")         \
    X(GAUGE, kv_event_streams, "kvferry_kv_event_streams", "", KV_EVENT_STREAMS_HELP)              \
    X(COUNTER, kv_event_overruns, "kvferry_kv_event_overruns_total", "", KV_EVENT_OVERRUNS_HELP)   \
    X(GAUGE, contexts_ready, "kvferry_peers", "role=ctx-worker,state=ready",                       \
      "Workers by role and state.")                                                                \
    X(GAUGE, contexts_down, "kvferry_peers", "role=ctx-worker,state=not_ready",                    \
      "Workers by role and state.")                                                                \
    X(GAUGE, generations_ready, "kvferry_peers", "role=gen-worker,state=ready",                    \
      "Workers by role and state.")                                                                \
    X(GAUGE, generations_down, "kvferry_peers", "role=gen-worker,state=not_ready",                 \
      "Workers by role and state.")

METRICS_DECLARE(router_series, ROUTER_METRICS);

struct router_metrics {
    struct router_series series;
    struct status_counters requests;
    struct router_core_stats last;
};

/* metrics must outlive registry. */
void router_metrics_create(struct router_metrics *metrics, struct metrics *registry);
/* early: requests that wait outside the core. */
void router_metrics_follow(struct router_metrics *metrics, const struct router_core_stats *stats,
                           uint32_t early);
