/*
 * http_request - reads what http_server needs of a request's head.
 *
 *     GET /metrics?x=1 HTTP/1.1     method GET, path "/metrics"
 *     Host: localhost:9400          is_local
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
    bool is_local;            /* its one Host is an address, or localhost, or it has none */
};

/* head: n bytes, without a NUL. False: not a request line of HTTP/1. */
bool http_request_parse(const char *head, size_t n, struct http_request *request_out);
