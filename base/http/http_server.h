/*
 * http_server - a few pages over plain HTTP/1, for scrapers and for whoever watches the process.
 *
 * A connection carries one request: its head is awaited, the page is made, sent, and the connection
 * closed. GET and HEAD only (405 else); a path without a page is 404, what is no HTTP/1 400. / lists the
 * paths, unless it is a page.
 *
 *     head within HEAD_LIMIT_MS -> answer within ANSWER_LIMIT_MS -> the peer's end within LINGER_MS
 *
 * Bounds: CONNECTIONS_MAX connections; when one more comes, the oldest is closed for it, so that idle
 * ones keep nobody out. A head of HEAD_BYTES_MAX (431 beyond). A reader that stops costs its page's
 * bytes until its limit. Without a descriptor for a connection the oldest makes room, too.
 *
 * Thread: one of its own, which calls the pages and must not be blocked; open and close from any one.
 */
#pragma once

#include "base/status.h"

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

/* Copies n bytes of text. type: of the content, a literal. */
void http_answer_set(struct http_answer *answer, unsigned code, const char *type, const char *text,
                     size_t n);
void http_answer_text(struct http_answer *answer, unsigned code, const char *text); /* plain */

struct http_server_options {
    const char *address; /* "127.0.0.1:9400", "[::1]:0"; port 0: any free one; ":9400": loopback */
    const struct http_page *pages; /* borrowed until close */
    size_t n_pages;
};

/* INVALID_ARGUMENT: the address cannot be read. IO_FAILED: it cannot be bound. NO_MEMORY,
 * NO_THREAD. */
MUST_CHECK enum status http_server_open(const struct http_server_options *options,
                                        struct http_server **server_out, struct error *error);
void http_server_close(struct http_server *server);          /* NULL is fine */
uint16_t http_server_port(const struct http_server *server); /* the bound one */
