/*
 * watch_history - what is remembered of requests that are no more: the last of them, and what KV went where.
 *
 * Bounds: ended_max requests, the oldest is forgotten first; WATCH_FLOWS_MAX pairs of workers, the one that was not used
 * for longest is forgotten first.
 *
 * Thread: one at a time (the router's: dispatch's mutex).
 */
#pragma once

#include "router/watch/watch_view.h"

struct watch_history;

/* ended_max: at least 1. NO_MEMORY. */
MUST_CHECK enum status watch_history_create(uint32_t ended_max, struct watch_history **history_out);
void watch_history_destroy(struct watch_history *history); /* NULL is fine */

void watch_history_add(struct watch_history *history, const struct watch_ended *ended);
/* A transfer of a request is over. */
void watch_history_add_kv(struct watch_history *history, const char *from, const char *to,
                          uint64_t bytes);
/* Sets ended and flows of the view, and the counts of what has ended. */
void watch_history_look(const struct watch_history *history, struct watch_view *view_out);
