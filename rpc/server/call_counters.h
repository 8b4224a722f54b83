/*
 * call_counters - counts the ended calls of each method of a process, by gRPC code.
 *
 *     kvferry_calls_total{method="kvferry.v1.GenerationService/Generate",code="OK"} 12
 *
 * One object for all ports of a process: a method on several ports has one counter. Calls of methods that the
 * process does not have count as method="unknown".
 *
 * Bound: CALL_METHODS_MAX methods, the codes of the status table each; further methods count as unknown.
 *
 * Thread: init and add_method: the thread that creates the servers; the rest: any.
 */
#pragma once

#include "base/metrics/metrics.h"
#include "base/status.h"

#define CALL_METHODS_MAX 40u
#define CALL_CODES       17u /* number of gRPC codes */
#define CALL_LABELS_MAX  160u

struct call_method {
    const char *path;               /* "/package.Service/Method"; borrowed. NULL: unknown methods */
    struct counter *of[CALL_CODES]; /* by gRPC code; NULL: no status has it */
    char labels[CALL_CODES][CALL_LABELS_MAX]; /* the registry borrows them */
};

struct call_counters {
    struct metrics *metrics;
    uint32_t n; /* methods[0]: unknown methods */
    struct call_method methods[CALL_METHODS_MAX + 1];
};

/* counters must outlive the registry. */
void call_counters_init(struct call_counters *counters, struct metrics *metrics);
/* The counters of that method; registers its series the first time. path is borrowed. */
const struct call_method *call_counters_add_method(struct call_counters *counters,
                                                   const char *path);
/* method NULL: unknown. */
void call_counters_count(const struct call_counters *counters, const struct call_method *method,
                         enum status status);
