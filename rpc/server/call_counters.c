#include "rpc/server/call_counters.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static void add_series(struct call_counters *counters, struct call_method *method, const char *name)
{
    for (enum status status = STATUS_OK; status < STATUS_COUNT; status++) {
        int code = status_grpc_code(status);
        assert(code >= 0 && code < (int)CALL_CODES);
        if (method->of[code])
            continue;
        snprintf(method->labels[code], sizeof method->labels[code], "method=%s,code=%s", name,
                 status_grpc_name(code));
        method->of[code] = metrics_counter(counters->metrics, "kvferry_calls_total",
                                           method->labels[code],
                                           "Calls of gRPC methods, by how they ended.");
    }
}

void call_counters_init(struct call_counters *counters, struct metrics *metrics)
{
    *counters = (struct call_counters){.metrics = metrics, .n = 1};
    add_series(counters, &counters->methods[0], "unknown");
}

const struct call_method *call_counters_add_method(struct call_counters *counters, const char *path)
{
    assert(path[0] == '/' && counters->n > 0 && counters->n <= CALL_METHODS_MAX + 1);
    for (uint32_t i = 1; i < counters->n; i++)
        if (strcmp(counters->methods[i].path, path) == 0)
            return &counters->methods[i];
    if (counters->n == CALL_METHODS_MAX + 1)
        return &counters->methods[0];
    struct call_method *method = &counters->methods[counters->n++];
    method->path = path;
    add_series(counters, method, path + 1);
    return method;
}

void call_counters_count(const struct call_counters *counters, const struct call_method *method,
                         enum status status)
{
    assert(counters->n > 0 && status < STATUS_COUNT);
    counter_add((method ? method : &counters->methods[0])->of[status_grpc_code(status)], 1);
}
