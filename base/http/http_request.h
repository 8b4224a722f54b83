/*
 * http_request - the first line of a request's head, which is all that http_server asks of it.
 *
 *     GET /metrics?x=1 HTTP/1.1     method GET, path "/metrics"
 *
 * Thread: any; no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define HTTP_PATH_MAX 64 /* with the NUL; a longer path is none of ours */

enum http_method { HTTP_GET, HTTP_HEAD, HTTP_OTHER };

struct http_request {
    enum http_method method;
    char path[HTTP_PATH_MAX]; /* without the query; "" for one that is too long */
};

/* head: n bytes, no NUL needed. False: no line of HTTP/1. */
bool http_request_parse(const char *head, size_t n, struct http_request *request_out);
