/*
 * span - a finished stage of a request, as a trace collector gets it.
 *
 * A span has a fixed size, so a ring of spans needs no other memory. Names, keys and texts are
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
    const char *text; /* NULL: the number is the value */
    uint64_t number;
};

struct span {
    const char *name;
    bool is_server; /* the span of a call; else a part of one */
    uint8_t trace_id[TRACE_ID_BYTES];
    uint8_t span_id[SPAN_ID_BYTES];
    uint8_t parent_id[SPAN_ID_BYTES]; /* zeros: a root span */
    uint64_t start_ns, end_ns;        /* times of clock_now_ns */
    enum status status;
    char request_id[REQUEST_ORIGIN_ID_MAX + 1]; /* "": not exported */
    uint32_t n_attributes;
    struct span_attribute attributes[SPAN_ATTRIBUTES_MAX];
};

/* Makes a span from start to end; if the end is before the start, its length is 0. */
void span_init(struct span *span, const char *name, uint64_t start_ns, uint64_t end_ns);
/* Adding more than SPAN_ATTRIBUTES_MAX is a programmer's error. A text that is NULL or "" is left
 * out. */
void span_add_number(struct span *span, const char *key, uint64_t number);
void span_add_text(struct span *span, const char *key, const char *text);
