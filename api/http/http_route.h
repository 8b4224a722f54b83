/*
 * http_route - who answers which path.
 *
 * Thread: any; no state.
 */
#pragma once

#include "api/http/http_head.h"

#define HTTP_ALLOW_BYTES 64

struct http_exchange;

/* Runs on the port's thread and must not block. */
typedef void (*http_handler)(void *arg, struct http_exchange *exchange);

struct http_route {
    const char
        *path;      /* "/v1/models"; one that ends in "/" is for all that begin with it and go on */
    unsigned verbs; /* bits of enum http_verb; GET is HEAD, too */
    http_handler handle; /* the body is whole */
    void *arg;
};

/* The first that fits the decoded path and the verb; *rest_out: the path behind the route's. NULL: none; *verbs_out are
 * those of the path, 0 when nobody has it, and those of all for "*". */
const struct http_route *http_route_find(const struct http_route *routes, size_t n_routes,
                                         enum http_verb verb, const char *path,
                                         const char **rest_out, unsigned *verbs_out);

/* "GET, HEAD, OPTIONS" */
void http_route_list_verbs(unsigned verbs, char list_out[HTTP_ALLOW_BYTES]);
