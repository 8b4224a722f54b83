/*
 * status_counters - one counter for each status with which something can end.
 *
 *     kvferry_requests_total{code="OK",reason=""} 12
 *     kvferry_requests_total{code="RESOURCE_EXHAUSTED",reason="QUEUE_FULL"} 3
 *
 * code is the name of the gRPC code, reason that of google.rpc.ErrorInfo. Both come from the status table,
 * so that no client can create a series. All series exist from the start, with value 0.
 *
 * Thread: any, after create.
 */
#pragma once

#include "base/metrics/metrics.h"
#include "base/status.h"

struct status_counters {
    struct counter *of[STATUS_COUNT];
    char labels[STATUS_COUNT][64]; /* the registry borrows them */
};

/* counters must outlive the registry. name and help as in metrics_add. */
void status_counters_init(struct status_counters *counters, struct metrics *metrics,
                          const char *name, const char *help);
/* Only failures, with the label reason and no code: of[STATUS_OK] is NULL. */
void status_counters_init_failures(struct status_counters *counters, struct metrics *metrics,
                                   const char *name, const char *help);
void status_counters_add(const struct status_counters *counters, enum status status);
