/*
 * trace_json - one request as a trace in Chrome's format, which Perfetto (ui.perfetto.dev) and chrome://tracing show.
 *
 *     {"displayTimeUnit": "ms", "otherData": {...}, "traceEvents": [
 *         {"ph": "M", "pid": 3, "name": "process_name", "args": {"name": "context worker 10.0.0.9:50052"}},
 *         {"ph": "X", "pid": 3, "tid": 1, "name": "prefill", "ts": 812, "dur": 5120, "args": {...}}, ...]}
 *
 * A process of the trace is the client, the router, a worker, or the KV transfer between two workers; arrows lead from the
 * prefill to the transfer and from there to the decode. Times are those of timeline.h, microseconds from the start of the
 * call. There are no texts and no tokens of the request in it.
 *
 * Thread: any; no state.
 */
#pragma once

#include "cli/client/generation_call.h"

/* result: of a reply with timing. The caller frees text_out with free. NO_MEMORY. */
MUST_CHECK enum status trace_json(const struct generation_result *result, char **text_out);
