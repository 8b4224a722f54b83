/*
 * api_request - the head of a GET to the API server.
 *
 * Thread: any; no state.
 */
#pragma once

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct api_request {
    const char *host; /* of the Host header; an IPv6 address without brackets */
    uint16_t port;
    const char *token;
    const char *name_space, *service; /* checked labels */
    /* of a LIST: */
    const char *more; /* continue, "": the first page */
    uint32_t limit;   /* slices a page */
    /* of a WATCH: */
    const char *version; /* resourceVersion; NULL: it is a LIST */
    uint32_t watch_s;
};

/* The caller wipes (it has the token) and frees. NO_MEMORY. */
MUST_CHECK enum status api_request_write(const struct api_request *request, char **text_out,
                                         size_t *bytes_out);
