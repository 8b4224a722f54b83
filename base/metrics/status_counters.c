#include "base/metrics/status_counters.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

void status_counters_init(struct status_counters *counters, struct metrics *metrics,
                          const char *name, const char *help)
{
    for (enum status status = STATUS_OK; status < STATUS_COUNT; status++) {
        char *labels = counters->labels[status];
        snprintf(labels, sizeof counters->labels[status], "code=%s,reason=%s",
                 status_grpc_name(status_grpc_code(status)), status_reason(status));
        assert(strlen(labels) + 1 < sizeof counters->labels[status]); /* not cut */
        counters->of[status] = metrics_counter(metrics, name, labels, help);
    }
}

void status_counters_init_failures(struct status_counters *counters, struct metrics *metrics,
                                   const char *name, const char *help)
{
    counters->of[STATUS_OK] = NULL;
    for (enum status status = STATUS_OK + 1; status < STATUS_COUNT; status++) {
        char *labels = counters->labels[status];
        snprintf(labels, sizeof counters->labels[status], "reason=%s", status_reason(status));
        counters->of[status] = metrics_counter(metrics, name, labels, help);
    }
}

void status_counters_add(const struct status_counters *counters, enum status status)
{
    assert(status < STATUS_COUNT && counters->of[status]);
    counter_add(counters->of[status], 1);
}
