/*
 * watch_json - a view as JSON: one line, what page.js reads.
 *
 *     {"router": {...}, "counts": {...}, "workers": [...], "flows": [...], "live": [...], "ended": [...]}
 *
 * Times are microseconds, those with _ms milliseconds. Texts of others are cleaned: no controls, no invalid UTF-8.
 *
 * Bounds: about 1.2 KB a worker, 0.5 KB a flow, 0.9 KB a request.
 *
 * Thread: any; no state.
 */
#pragma once

#include "router/watch/watch_view.h"

/* names: with the ids of requests and the names of tenants. The caller frees text_out with free. NO_MEMORY. */
MUST_CHECK enum status watch_json(const struct watch_view *view, bool names, char **text_out,
                                  size_t *n_out);
