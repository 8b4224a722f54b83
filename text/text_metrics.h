/*
 * text_metrics - what a template_renderer counts.
 *
 * Thread: any.
 */
#pragma once

#include "base/metrics/metrics.h"

#define TEXT_METRICS(X)                                                                            \
    X(HISTOGRAM(BUCKETS_LATENCY), render, "kvferry_chat_render_seconds", "",                       \
      "Time to render the prompt of one chat request.")                                            \
    X(COUNTER, failed, "kvferry_chat_render_failures_total", "",                                   \
      "Chat requests whose prompt could not be rendered.")                                         \
    X(COUNTER, restarted, "kvferry_chat_renderer_restarts_total", "",                              \
      "Processes that render chat templates and were started in place of one that ended.")

METRICS_DECLARE(text_metrics, TEXT_METRICS);
