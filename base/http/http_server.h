/*
 * http_server - serves a few pages over plain HTTP/1, for metrics scrapers and health probes.
 *
 * A connection carries one request: the server reads its head, makes the page, sends it, and closes the
 * connection. Other methods than GET and HEAD get 405, a path without a page 404, and anything that is
 * not HTTP/1 gets 400. / lists the paths, unless it is itself a page.
 *
 *     head within HEAD_LIMIT_MS -> answer within ANSWER_LIMIT_MS -> the peer's end within LINGER_MS
 *                               -> events of a feed, until the peer leaves or reads too slowly (http_feed.h)
 *
 * Every answer has a content security policy: scripts, styles, images and connections only from the same port,
 * nothing inline, in no frame.
 *
 * Bounds: CONNECTIONS_MAX connections; a further one closes the oldest, so that idle connections cannot
 * block others. A head of HEAD_BYTES_MAX (431 beyond). A peer that stops reading holds the memory of
 * its page until its limit. The oldest connection is also closed when no descriptor is free for a new
 * one. A feed's readers do not count among the connections: readers_max, and a further one gets 503.
 *
 * Thread: the server has its own thread, which calls the pages; pages must not block it. open and
 * close: any thread.
 */
#pragma once

#include "base/http/http_feed.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP_SERVER_CONNECTIONS_MAX 32
#define HTTP_SERVER_HEAD_BYTES_MAX  8192

struct http_server;
struct http_answer;

struct http_page {
    const char *path; /* "/metrics" */
    /* Calls http_answer_set once, on the server's thread. */
    void (*make)(void *arg, struct http_answer *answer);
    void *arg;
};

/* Copies n bytes of text. type: the content type, a literal. */
void http_answer_set(struct http_answer *answer, unsigned code, const char *type, const char *text,
                     size_t n);
void http_answer_text(struct http_answer *answer, unsigned code, const char *text); /* plain */

struct http_server_options {
    const char *address; /* "127.0.0.1:9400", "[::1]:0"; port 0: any free one; ":9400": loopback */
    const struct http_page *pages; /* borrowed until close */
    size_t n_pages;
    const struct http_feed *feed; /* the same; NULL: none */
};

/* INVALID_ARGUMENT: the address cannot be read. IO_FAILED: the address cannot be bound. NO_MEMORY,
 * NO_THREAD. */
MUST_CHECK enum status http_server_open(const struct http_server_options *options,
                                        struct http_server **server_out, struct error *error);
void http_server_close(struct http_server *server);          /* NULL is fine */
uint16_t http_server_port(const struct http_server *server); /* the bound one */
