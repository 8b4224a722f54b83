/*
 * span - one stage of one request, finished: what a collector of traces is told.
 *
 * Fixed size, so that a ring of them is all the memory that they ever need. Names, keys and texts are
 * literals, or live as long as the process; the request's id is copied.
 *
 * Thread: plain data.
 */
#pragma once

#include "base/log/request_origin.h"
#include "base/status.h"

#define SPAN_ATTRIBUTES_MAX 10u

struct span_attribute {
    const char *key;
    const char *text; /* NULL: the number */
    uint64_t number;
};

struct span {
    const char *name;
    bool is_server; /* else a part of one */
    uint8_t trace_id[TRACE_ID_BYTES];
    uint8_t span_id[SPAN_ID_BYTES];
    uint8_t parent_id[SPAN_ID_BYTES]; /* zeros: a root */
    uint64_t start_ns, end_ns;        /* as clock_now_ns */
    enum status status;
    char request_id[REQUEST_ORIGIN_ID_MAX + 1]; /* "": not told */
    uint32_t n_attributes;
    struct span_attribute attributes[SPAN_ATTRIBUTES_MAX];
};

/* A span from start to end; one that ends before it starts lasts for nothing. */
void span_init(struct span *span, const char *name, uint64_t start_ns, uint64_t end_ns);
/* More than SPAN_ATTRIBUTES_MAX are a programmer's error; a text that is NULL or "" is left out. */
void span_add_number(struct span *span, const char *key, uint64_t number);
void span_add_text(struct span *span, const char *key, const char *text);
