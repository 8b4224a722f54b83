/*
 * http_request - reads the first line of a request's head; http_server needs no more.
 *
 *     GET /metrics?x=1 HTTP/1.1     method GET, path "/metrics"
 *
 * Thread: any; no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define HTTP_PATH_MAX 64 /* with the NUL; no page has a longer path */

enum http_method { HTTP_GET, HTTP_HEAD, HTTP_OTHER };

struct http_request {
    enum http_method method;
    char path[HTTP_PATH_MAX]; /* without the query; "": too long */
};

/* head: n bytes, without a NUL. False: not a request line of HTTP/1. */
bool http_request_parse(const char *head, size_t n, struct http_request *request_out);
