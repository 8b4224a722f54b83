/*
 * http_feed - a path whose answer does not end: its readers get one event at once and then one each interval_ms, as
 * text/event-stream.
 *
 * An event is made once for all readers, and only while there are some. A reader that has not read the last event does not get
 * the next one; after behind_ms of that it is cut off. So a reader holds the memory of one event, and of FEED_SEND_BYTES in the
 * kernel.
 *
 * Bounds: readers_max readers.
 * Thread: the server's.
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bufferevent;
struct event_base;

struct http_feed {
    const char *path;     /* "/events" */
    uint32_t readers_max; /* 0: every reader gets 404 */
    uint32_t interval_ms; /* at least 1 */
    uint32_t behind_ms;
    /* 421 for a reader whose Host is a name other than localhost: a page of somebody else's site, whose name was
     * made to lead to this machine, cannot read the feed then. */
    bool is_local;
    /* One event's text, without line feeds, on the server's thread; it is used until the next call. */
    void (*make)(void *arg, const char **text_out, size_t *n_out);
    void (*count)(void *arg, uint32_t n_readers); /* there are now so many */
    void *arg;
};

/* For http_server.c: those who read a feed now. */
struct http_feed_readers;

/* base and feed are borrowed; feed->readers_max > 0. NO_MEMORY. */
MUST_CHECK enum status http_feed_readers_create(struct event_base *base,
                                                const struct http_feed *feed,
                                                struct http_feed_readers **readers_out);
void http_feed_readers_destroy(struct http_feed_readers *readers); /* NULL is fine */

bool http_feed_readers_is_full(const struct http_feed_readers *readers);
/* Takes the stream over, behind the head of its answer. The readers are not full. */
void http_feed_readers_add(struct http_feed_readers *readers, struct bufferevent *stream);
/* False: there is none. */
bool http_feed_readers_close_oldest(struct http_feed_readers *readers);
