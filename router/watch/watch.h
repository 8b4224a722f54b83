/*
 * watch - the page of a router, and the feed of events behind it.
 *
 *     GET /            page.html; it asks for /page.css and /page.js
 *     GET /events      one view as JSON, at once and then each interval_ms, until the reader leaves
 *
 * A view is copied from the source when somebody reads the feed, and not more often than once an interval for all readers.
 * The source may come later than the port and go earlier: without one, events say that the router loads.
 *
 * Bounds: readers_max readers; a view's (watch_view.h).
 *
 * Thread: make and count on the HTTP server's; the others any.
 */
#pragma once

#include "base/http/http_server.h"
#include "router/watch/watch_view.h"

struct watch_options {
    uint32_t live_max, ended_max; /* at least 1 */
    uint32_t readers_max, interval_ms, behind_ms;
    bool names;    /* shows the ids of requests and the names of tenants */
    bool is_local; /* the port is only for this machine: see http_feed */
};

/* Copies what is to be seen now into view, whose lists have their memory, and which is otherwise zero. */
typedef void (*watch_source)(void *arg, struct watch_view *view);

struct watch;

/* NO_MEMORY. */
MUST_CHECK enum status watch_create(const struct watch_options *options, struct watch **watch_out);
/* After the HTTP server's close. NULL is fine. */
void watch_destroy(struct watch *watch);

/* The source from now on; NULL: none. When it returns, the one before is not called any more. */
void watch_connect(struct watch *watch, watch_source source, void *arg);
/* Whether somebody reads the feed. */
bool watch_is_read(const struct watch *watch);

/* For http_server_options; they live as long as the watch. */
const struct http_page *watch_pages(const struct watch *watch, size_t *n_out);
const struct http_feed *watch_feed(const struct watch *watch);
